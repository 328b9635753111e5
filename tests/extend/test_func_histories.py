"""What tensors inside of transforms say of their history: that of their own level, as in PyTorch."""

import pytest
from both import agree


def _seen(t, v, c):
    """What the function sees of its argument, of tensors made of it, and of one that it closes over."""
    tensors = (v, v * 2, v * c, v.detach(), t.zeros(3), c, c * 2)
    return [(x.requires_grad, x.is_leaf, x.grad_fn is None) for x in tensors]


TRANSFORMS = {
    "jvp": lambda t, f, x: t.func.jvp(f, (x,), (x.detach(),)),
    "functionalize": lambda t, f, x: t.func.functionalize(f)(x),
    "grad": lambda t, f, x: t.func.grad(f)(x),
    "vmap": lambda t, f, x: t.vmap(f)(x[None]),
    "grad of jvp": lambda t, f, x: t.func.grad(lambda y: t.func.jvp(f, (y,), (y,))[1])(x),
    "jvp of grad": lambda t, f, x: t.func.jvp(t.func.grad(f), (x,), (x.detach(),)),
    "grad of functionalize": lambda t, f, x: t.func.grad(t.func.functionalize(f))(x),
    "jvp of functionalize": lambda t, f, x: t.func.jvp(t.func.functionalize(f), (x,), (x.detach(),)),
    "functionalize of jvp": lambda t, f, x: t.func.functionalize(lambda y: t.func.jvp(f, (y,), (y,)))(x),
    "vmap of jvp": lambda t, f, x: t.vmap(lambda y: t.func.jvp(f, (y,), (y,)))(x[None]),
    "jvp of vmap": lambda t, f, x: t.func.jvp(lambda y: t.vmap(f)(y[None]).sum(), (x,), (x.detach(),)),
}


@pytest.mark.parametrize("tape", [False, True], ids=["alone", "tape around"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_tensor_says_whether_it_has_a_history_at_its_level(name, tape):
    def run(t):
        x = t.tensor([0.3, -0.7, 1.1], requires_grad=tape)
        c = t.tensor([1.0, 2.0, 3.0], requires_grad=tape)
        seen = []

        def f(v):
            seen.append(_seen(t, v, c))
            return (v * v * c).sum()

        out = TRANSFORMS[name](t, f, x)
        return seen, out, t.autograd.grad(out.sum(), (x, c)) if tape and isinstance(out, t.Tensor) else None

    agree(run)


def test_a_hook_needs_a_history_at_the_level():
    def run(t):
        x = t.ones(3, requires_grad=True)

        def f(v):
            with pytest.raises(RuntimeError, match="doesn't require gradient"):
                (v * 2).register_hook(lambda g: g * 2)
            return v * 3

        return t.func.jvp(f, (x,), (t.ones(3),))

    agree(run)


DATA = {
    "grad": lambda t, f, x: t.func.grad(lambda y: f(y).sum())(x),
    "jvp": lambda t, f, x: t.func.jvp(f, (x,), (x,)),
    "tape": lambda t, f, x: t.autograd.grad(f(x.requires_grad_() * 1).sum(), x),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("part", ["data", "detach"])
def test_what_functionalize_leaves_of_data(part, name):
    def run(t):
        f = t.func.functionalize(lambda x: x * 1 + (x.data if part == "data" else x.detach()))
        return DATA[name](t, f, t.tensor([0.3, -0.7]))

    agree(run)
