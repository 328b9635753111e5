"""torch.func under dispatch and function modes, compared with PyTorch."""

from __future__ import annotations

import pytest
from both import agree


def mixed(v):
    y = v.clone()
    y.sin_()
    y[0] = y[1] * 2
    y[1:].mul_(v[:2])
    z = y.view(3, 1).split(1)
    return (z[0] * y).sum() + y.max(0)[0]


def saving(v):
    """Whose derivatives save results."""
    return (v.sigmoid() * v.exp()).tanh().sum()


def x(t):
    return t.tensor([0.5, 1.0, 1.5], dtype=t.float64)


def xs(t):
    return t.arange(6.0, dtype=t.float64).reshape(2, 3) / 4 + 0.1


NESTED = {
    "grad": lambda t, f: t.func.grad(f)(x(t)),
    "vmap": lambda t, f: t.vmap(f)(xs(t)),
    "jvp": lambda t, f: t.func.jvp(f, (x(t),), (x(t),)),
    "vmap of grad": lambda t, f: t.vmap(t.func.grad(f))(xs(t)),
    "grad of grad": lambda t, f: t.func.grad(lambda a: t.func.grad(f)(a).sum())(x(t)),
    "hessian": lambda t, f: t.func.hessian(f)(x(t)),
}


def silent(t):
    """A mode that passes every call on, and counts them."""

    class Count(t.utils._python_dispatch.TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            type(self).calls += 1
            return func(*args, **(kwargs or {}))

    return Count


@pytest.mark.parametrize("f", [mixed, saving])
@pytest.mark.parametrize("name", NESTED)
def test_dispatch_modes_see_the_calls_below(name, f):
    def under(t):
        mode = silent(t)
        with mode():
            got = NESTED[name](t, f)
        return got, mode.calls > 4

    agree(under)


@pytest.mark.parametrize("name", ["grad", "jvp", "hessian"])
def test_dispatch_modes_inside(name):
    def under(t):
        mode = silent(t)

        def f(v):
            with mode():
                return mixed(v)

        return NESTED[name](t, f), mode.calls > 10

    agree(under)


def test_function_modes_see_what_the_function_calls():
    def under(t):
        seen = []

        class Names(t.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append(func.__name__)
                return func(*args, **(kwargs or {}))

        with Names():
            got = NESTED["grad of grad"](t, lambda v: (v.sin() * v).sum())
        own = {"sin", "mul", "sum"}
        return got, [name for name in seen if name in own]

    agree(under)


def test_a_copy_for_a_reshape_says_its_memory_format():
    def calls(t):
        seen = []

        class Mode(t.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                seen.append((str(func), str((kwargs or {}).get("memory_format")), out.stride()))
                return out

        x = t.arange(24.0).reshape(2, 3, 4).transpose(0, 1)
        with Mode():
            x.reshape(6, 4), x.flatten(), x.clone()
        return seen

    agree(calls)


# -- inference tensors and inference mode ------------------------------------------------------------------

DERIVED = {
    "grad": lambda t, c, x: t.func.grad(lambda a: (a * c).sum())(x),
    "grad twice": lambda t, c, x: t.func.grad(lambda a: t.func.grad(lambda b: (b**3 * c).sum())(a).sum())(x),
    "vjp": lambda t, c, x: t.func.vjp(lambda a: a * c, x)[1](x)[0],
    "jvp": lambda t, c, x: t.func.jvp(lambda a: a * c, (x,), (x,))[1],
    "jacrev": lambda t, c, x: t.func.jacrev(lambda a: (a * c).sin())(x),
    "hessian": lambda t, c, x: t.func.hessian(lambda a: (a * c).sin().sum())(x),
    "in place": lambda t, c, x: t.func.grad(lambda a: a.clone().mul_(c).sum())(x),
    "a view": lambda t, c, x: t.func.grad(lambda a: (a[0] * c[0]).sum())(x),
    "vmap of grad": lambda t, c, x: t.vmap(t.func.grad(lambda a: (a * a * c).sum()))(x),
    "modes inside": lambda t, c, x: t.func.grad(lambda a: (a * t.is_inference_mode_enabled()).sum())(x),
}


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("label", DERIVED)
def test_inference_tensors_are_constants_of_derivatives(label, inside):
    """They may be saved, and what is made there is no inference tensor, in inference mode either."""

    def run(t):
        with t.inference_mode():
            c = t.tensor([0.5, 2.0])
        found = []
        for x in (t.tensor([1.0, -3.0]), c):
            with t.inference_mode(inside):
                y = DERIVED[label](t, c, x)
            found += [y, y.is_inference()]
        return found

    agree(run)
