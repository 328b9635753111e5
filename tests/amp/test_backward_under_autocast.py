"""Backward under autocast, of what forward computed outside of it and within: PyTorch casts the products again."""

import pytest
from both import agree

CALLS = {
    "mm": lambda t, a, b: a @ b,
    "bmm": lambda t, a, b: t.bmm(a[None], b[None]),
    "addmm": lambda t, a, b: t.addmm(b, a, b),
    "baddbmm": lambda t, a, b: t.baddbmm(b[None], a[None], b[None]),
    "linear": lambda t, a, b: t.nn.functional.linear(a, b, b[0]),
    "einsum": lambda t, a, b: t.einsum("ij,jk->ik", a, b),
    "matmul of a batch": lambda t, a, b: a[None] @ b,
    "inv": lambda t, a, b: t.linalg.inv(a + 4 * t.eye(4)) * b,
    "conv1d": lambda t, a, b: t.nn.functional.conv1d(a[None], b[:, :, None]),
    "vdot and dot": lambda t, a, b: a * t.vdot(a[0], b[1]) + t.dot(b[0], a[1]),
    "addmv and mv": lambda t, a, b: b * t.addmv(b[0], a, b[1], alpha=2) + t.mv(b, a[0]),
    "addr and outer": lambda t, a, b: t.addr(b, a[0], b[0]) + t.outer(a[1], b[1]),
    "addbmm": lambda t, a, b: t.addbmm(b, a[None], b[None]),
    "inner": lambda t, a, b: t.inner(a, b),
    "tensordot": lambda t, a, b: t.tensordot(a, b, 1),
    "kron": lambda t, a, b: t.kron(a[:2, :2], b[:2, :2]),
    "elementwise": lambda t, a, b: a.exp() * b + a.softmax(-1),
    "layer_norm": lambda t, a, b: t.nn.functional.layer_norm(a, (4,)) * b,
    "two layers": lambda t, a, b: (a @ b).relu() @ b,
}


def gradients(t, name, inside, device="cpu"):
    a = (t.arange(16.0).reshape(4, 4) / 7 + 0.1).requires_grad_()
    b = (t.arange(16.0).reshape(4, 4).sin() + 0.3).requires_grad_()
    with t.autocast(device, dtype=t.bfloat16, enabled=inside):
        y = CALLS[name](t, a, b)
    with t.autocast(device, dtype=t.bfloat16):
        y.backward((t.arange(16.0).reshape(y.shape) / 64).to(y.dtype))
    return a.grad, b.grad


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("inside", [False, True])
def test_the_casts_are_pytorchs(name, inside):
    def run(t):
        found = gradients(t, name, inside)
        return [(str(g.dtype)[-8:], bool((g == g.bfloat16().float()).all())) for g in found]

    agree(run)


@pytest.mark.parametrize("name", sorted(set(CALLS) - {"inv"}))
def test_the_values_are_pytorchs(name):
    agree(lambda t: [[f"{v:.2g}" for v in g.flatten().tolist()] for g in gradients(t, name, False)])


def test_hooks_captures_and_create_graph_go_on():
    def run(t):
        a = t.ones(2, 2, requires_grad=True)
        seen = []
        b = a * 1.01
        b.register_hook(lambda g: seen.append(g.dtype))
        with t.autocast("cpu", dtype=t.bfloat16, enabled=False):
            y = (b @ b).sum()
        with t.autocast("cpu", dtype=t.bfloat16):
            (one,) = t.autograd.grad(y, a, retain_graph=True)
            y.backward(retain_graph=True)
            y.backward()
        return [str(d)[-8:] for d in seen], one.dtype, [f"{v:.3g}" for v in (*one.flatten(), *a.grad.flatten())]

    agree(run)


def test_a_penalty_of_gradients():
    def run(t):
        a = (t.arange(16.0).reshape(4, 4) / 7 + 0.1).requires_grad_()
        b = (t.arange(16.0).reshape(4, 4).sin() + 0.3).requires_grad_()
        with t.autocast("cpu", dtype=t.bfloat16):
            y = (a @ b).float().tanh().sum()
        with t.autocast("cpu", dtype=t.bfloat16):
            (g,) = t.autograd.grad(y, a, create_graph=True)
            penalty = (g * g).sum()
        penalty.backward()
        found = [f"{v:.2g}" for x in (a.grad, b.grad) for v in x.flatten()[:4].tolist()]
        return g.dtype, bool((g == g.bfloat16().float()).all()), a.grad.dtype, found

    agree(run)


@pytest.mark.parametrize("name", CALLS)
def test_a_backward_with_history(name):
    """The gradients, and the gradients of them: what casts is recorded too."""

    def run(t):
        a = (t.arange(16.0).reshape(4, 4) / 7 + 0.1).requires_grad_()
        b = (t.arange(16.0).reshape(4, 4).sin() + 0.3).requires_grad_()
        y = CALLS[name](t, a, b)
        with t.autocast("cpu", dtype=t.bfloat16):
            given = (t.arange(16.0).reshape(y.shape) / 64).to(y.dtype)
            first = t.autograd.grad(y, (a, b), given, create_graph=True)
            second = t.autograd.grad(sum((x * x).sum() for x in first), (a, b))
        return [
            (g.dtype, bool((g == g.bfloat16().float()).all()), [f"{v:.2g}" for v in g.flatten().tolist()])
            for g in (*first, *second)
        ]

    agree(run)


def test_a_gradient_that_is_transformed():
    def run(t):
        a, b = (t.arange(16.0).reshape(4, 4) / 7 + 0.1), (t.arange(16.0).reshape(4, 4).sin() + 0.3)

        def f(a):
            with t.autocast("cpu", enabled=False):
                return (a @ b).sum()

        with t.autocast("cpu", dtype=t.bfloat16):
            found = t.func.grad(f)(a)
        return found.dtype, [f"{v:.3g}" for v in found.flatten().tolist()]

    agree(run)


def test_a_backward_within_a_compiled_function_casts():
    """Each gradient is a row of the other factor, so that what is seen is the cast and no rounding of sums."""

    def run(t):
        a, b = t.eye(4).flip(0).requires_grad_(), (t.arange(16.0).reshape(4, 4).sin() + 0.3).requires_grad_()

        def step(a, b):
            y = a @ b
            with t.autocast("cpu", dtype=t.bfloat16):
                return t.autograd.grad(y, (a, b), t.eye(4))

        return step(a, b) if t.__name__ == "torch" else t.compile(step, fullgraph=True)(a, b)

    agree(run)
