"""torch.func: what its functions take, return and refuse, compared with PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from both import agree, agree_error
from story_kit import said

import torchlike


def run(f, pattern=".*"):
    """``f(t, F, x)`` on both libraries, or the part of its error that fits the pattern."""
    agree(lambda t: said(lambda: f(t, t.func, t.tensor([1.0, 2.0, 3.0])), pattern))


def total(v):
    return v.sum()


def product(a, b):
    return (a * b).sum()


@pytest.mark.parametrize(
    "f",
    [
        lambda t, F, x: F.grad(lambda v: v * 2)(x),
        lambda t, F, x: F.grad(lambda v: 3.0)(x),
        lambda t, F, x: F.grad(lambda v: (v.sum(), v))(x),
        lambda t, F, x: F.grad(lambda v: v.sum().reshape(1))(x),
        lambda t, F, x: F.grad(lambda v: (v * 1j).sum())(x),
        lambda t, F, x: F.grad(lambda v: v.sum().long())(x),
        lambda t, F, x: F.grad(lambda v: t.ones(()))(x),
        lambda t, F, x: F.grad(total, argnums=1)(x),
        lambda t, F, x: F.grad(total, argnums=-1)(x),
        lambda t, F, x: F.grad(total, argnums=-2)(x),
        lambda t, F, x: F.grad(lambda: x.sum())(),
        lambda t, F, x: F.grad(total)(1.0),
        lambda t, F, x: F.grad(lambda a: a["x"].sum())({"x": x}),
        lambda t, F, x: F.grad(lambda a: a["x"].sum())({"x": x, "y": 2.0}),
        lambda t, F, x: F.grad(product)(x, b=x),
        lambda t, F, x: F.grad(lambda a, b: a.sum(), argnums=(0, 1))(x, x),
        lambda t, F, x: F.grad(lambda a: (a.sum(), a * 2), has_aux=True)(x),
        lambda t, F, x: F.grad(lambda a: a.sum(), has_aux=True)(x),
        lambda t, F, x: F.grad(lambda a: (a.sum(), 1, 2), has_aux=True)(x),
        lambda t, F, x: F.grad(lambda a: (a.sum(), {"a": 3, "c": a}), has_aux=True)(x),
        lambda t, F, x: F.grad_and_value(total)(x),
        lambda t, F, x: F.grad_and_value(lambda a: (a.sum(), a * 2), has_aux=True)(x),
    ],
)
def test_grad(f):
    run(f)


@pytest.mark.parametrize("argnums", [(0, 0), (0, -2), (), [0], 1.0, (0, 1.0), (0,), (0, 1), (1, 0), -1])
def test_argnums(argnums):
    run(lambda t, F, x: F.grad(product, argnums=argnums)(x, x + 1))


@pytest.mark.parametrize("transform", ["grad", "vjp", "jacrev"])
def test_integers_have_no_gradient(transform):
    def f(t, F, x):
        return F.vjp(total, x.long()) if transform == "vjp" else getattr(F, transform)(total)(x.long())

    run(f, "only Tensors of floating point dtype can require gradients")


@pytest.mark.parametrize(
    "f",
    [
        lambda t, F, x: F.vjp(total, 1.0),
        lambda t, F, x: F.vjp(lambda: x)[0],
        lambda t, F, x: F.vjp(lambda v: 1.0, x),
        lambda t, F, x: F.vjp(lambda v: (v, 2.0), x),
        lambda t, F, x: F.vjp(lambda v: None, x),
        lambda t, F, x: F.vjp(lambda v: (), x),
        lambda t, F, x: F.vjp(lambda v: (v, 2 * v), x)[1]((x, x)),
        lambda t, F, x: F.vjp(lambda v: (v, v), x)[1](x),
        lambda t, F, x: F.vjp(lambda v: v * 2, x)[1](t.ones(2)),
        lambda t, F, x: F.vjp(lambda v: v * v, x)[1](t.ones(3, dtype=t.float64)),
        lambda t, F, x: F.vjp(lambda v: v * 2, x)[1](1.0),
        lambda t, F, x: [p(x) for p in [F.vjp(lambda v: v * v, x)[1]] * 2],
        lambda t, F, x: F.vjp(lambda a, b: a * 2, x, x)[1](x),
        lambda t, F, x: F.vjp(lambda a: {"q": a["x"] * 2, "r": [a["x"]]}, {"x": x})[1]({"q": x, "r": [x]}),
        lambda t, F, x: F.vjp(lambda a: (a * 2, {"a": a}), x, has_aux=True)[::2],
        lambda t, F, x: F.vjp(lambda a: a * 2, x, has_aux=True),
        lambda t, F, x: F.vjp(lambda a: (a * 2, 3), x, has_aux=True),
        lambda t, F, x: F.vjp(lambda a: t.ones(2), x)[1](t.ones(2)),
        lambda t, F, x: F.vjp(lambda v: v, x)[0] is x,
        lambda t, F, x: [F.vjp(lambda v: v * v, x.requires_grad_())[1](x, create_graph=c) for c in (True, False)],
        lambda t, F, x: F.vjp(lambda v: v * v, x)[1](t.ones(3, requires_grad=True)),
    ],
)
def test_vjp(f):
    run(f)


def test_a_tape_that_was_freed():
    run(
        lambda t, F, x: [p(x, retain_graph=False) for p in [F.vjp(lambda v: v * v, x)[1]] * 2],
        "Trying to backward through the graph a second time",
    )


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
@pytest.mark.parametrize(
    "f",
    [
        lambda t, J, x: J(lambda v: v * v)(x),
        lambda t, J, x: J(lambda v: 2.0)(x),
        lambda t, J, x: J(total, argnums=1)(x),
        lambda t, J, x: J(lambda v: (v, 2.0))(x),
        lambda t, J, x: J(lambda v: (v * v, v + 1), has_aux=True)(x),
        lambda t, J, x: J(lambda v: v * v, has_aux=True)(x),
        lambda t, J, x: J(lambda a, b: (a * b, {"s": a.sum()}), argnums=(0, 1))(x, x + 1),
        lambda t, J, x: J(lambda a, b: a * b, argnums=(0,))(x, x + 1),
        lambda t, J, x: J(lambda a: {"o": a["x"] * a["y"][0]})({"x": x, "y": [x]}),
        lambda t, J, x: J(lambda v: v[:0])(x),
        lambda t, J, x: J(lambda v: ())(x),
        lambda t, J, x: J(lambda v: v.long())(x),
        lambda t, J, x: J(lambda v: (v.double() * 2, v))(x),
        lambda t, J, x: J(lambda v: v.outer(v))(x),
        lambda t, J, x: J(lambda v: (v, v * 1j))(x),
        lambda t, J, x: J(lambda v, w: v * w.abs())(x, x * 1j),
        lambda t, J, x: J(lambda v: v * v)(x.requires_grad_()).requires_grad,
    ],
)
def test_jacobians(transform, f):
    run(lambda t, F, x: f(t, getattr(F, transform), x))


@pytest.mark.parametrize("chunk_size", [0, -1, 1, 2, 3, 100])
@pytest.mark.parametrize("copy", [False, True])
def test_chunks(chunk_size, copy):
    run(lambda t, F, x: F.jacrev(lambda v: (v * v, v.sum()), chunk_size=chunk_size, _preallocate_and_copy=copy)(x))


def test_a_chunk_of_one_needs_no_mapping():
    def once(t, F, x):
        class Plain(t.autograd.Function):
            @staticmethod
            def forward(v):
                return v * v

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * Plain.apply(g).sqrt()

        return F.jacrev(Plain.apply, chunk_size=1)(x), F.jacrev(Plain.apply)(x)

    run(once, "You tried to vmap over Plain, but it does not have vmap support")
    run(lambda t, F, x: F.jacfwd(lambda v: v, chunk_size=2), "unexpected keyword argument 'chunk_size'")


@pytest.mark.parametrize(
    "f",
    [
        lambda t, F, x: F.hessian(lambda v: (v**3).sum())(x),
        lambda t, F, x: F.hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(x, x + 1),
        lambda t, F, x: (lambda y, push: (y, push(x), push(x * 2)))(*F.linearize(lambda v: v.sin(), x)),
        lambda t, F, x: F.linearize(lambda a, b: {"o": a["x"] * b}, {"x": x}, x)[1]({"x": x}, x),
        lambda t, F, x: F.linearize(lambda v: v.sin(), x)[1](t.ones(2)),
        lambda t, F, x: F.linearize(lambda v: v.sin(), x)[1](x.double()),
        lambda t, F, x: F.linearize(lambda v: v.sin(), x.long()),
        lambda t, F, x: F.linearize(lambda v: (v, 2.0), x)[0],
        lambda t, F, x: t.vmap(F.linearize(lambda v: v.sin(), x)[1])(t.eye(3)),
        lambda t, F, x: F.linearize(lambda v: v * without_grad(t, lambda: v.sin()), x)[1](x),
        lambda t, F, x: F.linearize(lambda v: v * without_grad(t, lambda: v.clone().mul_(v)), x)[1](x),
        lambda t, F, x: without_grad(t, lambda: F.linearize(lambda v: v.sin(), x)[1](x)),
        lambda t, F, x: F.linearize(lambda v: v * without_grad(t, lambda: doubling(t, 3).apply(v)), x)[1](x),
        lambda t, F, x: t.vmap(F.grad(lambda v: v.T.reshape(-1)[1:].square().sum()))(x.outer(x)[None, :2]),
        lambda t, F, x: t.vmap(F.grad(lambda v: v.T.ravel().sin().sum()), 2)(x.outer(x)[:2, :, None]),
        lambda t, F, x: F.hessian(lambda v: v.T.reshape(-1)[1:].prod())(x.outer(x)[:2]),
        lambda t, F, x: F.linearize(lambda v: v.sin() if not v.requires_grad else v, x)[1](x),
        lambda t, F, x: F.functionalize(lambda v: v.clone().add_(1))(x),
        lambda t, F, x: F.functionalize(lambda v: v.view(-1) + 1, remove="mutations_and_views")(x),
        lambda t, F, x: (F.functionalize(lambda v: v.add_(1) * 2)(x), x),
        lambda t, F, x: F.functionalize(lambda v: 2.0)(x),
        lambda t, F, x: F.functionalize(lambda v: v[0])(x)._is_view(),
        lambda t, F, x: F.grad(F.functionalize(lambda v: (v * v).sum()))(x),
        lambda t, F, x: t.vmap(F.functionalize(lambda v: v * v))(x),
    ],
)
def test_the_rest(f):
    run(f)


def without_grad(t, f):
    with t.no_grad():
        return f()


def doubling(t, factor):
    """A custom Function: 2 v, whose forward derivative says ``factor``."""

    class Doubling(t.autograd.Function):
        forward = staticmethod(lambda v: v * 2)
        setup_context = staticmethod(lambda ctx, inputs, output: None)
        backward = staticmethod(lambda ctx, g: g * 2)
        jvp = staticmethod(lambda ctx, dot: dot * factor)

    return Doubling


def test_linearize_where_torch_fails():
    F, x = torchlike.func, torchlike.tensor([0.3, -0.7, 1.2])

    def steps(v):
        v[0] = v[1]
        return v.add_(1).mul_(v).mul_(v[:]), v.long()

    smooth, integers = F.linearize(steps, x.clone())[1](x)
    assert smooth.allclose(F.jvp(lambda v: steps(v)[0], (x.clone(),), (x,))[1]) and integers.tolist() == [0, 0, 0]


def test_tangents_of_another_structure():
    run(lambda t, F, x: F.linearize(lambda v: v.sin(), x)[1](x, x), "Expected the tangents")
    run(lambda t, F, x: F.functionalize(lambda v: v, remove="x")(x), "received invalid argument for remove=x")


def test_what_a_tensor_of_a_transform_stands_for():
    def unwrap(t, F, x):
        seen = []

        def g(v):
            seen.extend([F.debug_unwrap(v), str(F.debug_unwrap(v, recurse=False)), str(v)])
            return v.sum()

        t.vmap(F.grad(g))(t.ones(2, 3))
        return F.debug_unwrap(x) is x, seen

    run(unwrap)
    run(lambda t, F, x: F.debug_unwrap(3), "")


def test_linearize_runs_the_function_once():
    runs, x = [], torchlike.ones(2)
    _, push = torchlike.func.linearize(lambda v: runs.append(1) or v.sin(), x)
    push(x), push(x)
    assert len(runs) == 1


@pytest.mark.parametrize(
    "f", [lambda lib, x: x.numpy(), lambda lib, x: (x * 2).numpy(force=True), lambda lib, x: np.sin(x),
          lambda lib, x: np.asarray(x[1:]), lambda lib, x: lib.ones(2).numpy(),
          lambda lib, x: np.from_dlpack(x)]
)  # fmt: skip
def test_memory_has_no_tangent(f):
    """A function of numpy would lose the derivative."""
    one = lambda lib: (lib.ones(3),)  # noqa: E731
    agree_error(lambda lib: lib.func.jvp(lambda x: (f(lib, x), x)[1], one(lib), one(lib)), "doesn't have storage")


def test_numbers_inside_of_jvp():
    agree(lambda lib: lib.func.jvp(lambda x: x * x.tolist()[1] * x[0].item(), (lib.arange(3.0),), (lib.ones(3),)))


def test_history_outside_of_a_product_taken_without():
    def taken(t):
        x = t.tensor(3.0, requires_grad=True)
        with t.no_grad():
            out, pull = t.func.vjp(lambda v: v**2, x)
        (y,) = pull(t.tensor(1.0))
        return out.requires_grad, y, t.autograd.grad(y, x)

    agree(taken)


def test_forward_mode_switched_off_outside():
    def switched(t):
        with t.autograd.forward_ad._set_fwd_grad_enabled(False):
            inside = t.func.jvp(t.sin, (t.zeros(1),), (t.ones(1),))
            return inside, t.autograd.forward_ad._is_fwd_grad_enabled()

    agree(switched)


def test_outputs_that_depend_on_nothing():
    agree(lambda t: t.func.jacfwd(lambda x: t.ones(2, 3))(t.ones(2, 3)))
    agree(lambda t: t.vmap(lambda x: t.ones(2, 3))(t.ones(4)))


@pytest.mark.parametrize("dim", [1, 2, -1])
def test_shared_outputs_get_the_axis_anywhere(dim):
    """PyTorch fails here, of shapes that do not fit, or with the memory of others for a negative axis."""
    assert torchlike.vmap(lambda x: torchlike.ones(2, 3), out_dims=dim)(torchlike.ones(4)).size(dim) == 4
