"""What PyTorch's autograd does not follow, jax does not follow either; a custom Function has its backward there too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as theirs

import torchlike as torch
from torchlike.interop import to_jax

POINT = [1.2, 2.1, 3.4]


def within(context, inner):
    """``f(t, v)`` that computes ``inner(v)`` in a context and goes on with the result."""

    def f(t, v):
        with context(t):
            w = inner(v)
        return w * v

    return f


def resumed(t, v):
    with t.no_grad():
        a = v * v
        with t.enable_grad():
            b = v * 3
        c = v * 5
    return a * v + b * v + c * v


def hidden(change):
    """``f(t, v)`` that changes a tensor so that autograd does not see it."""

    def f(t, v):
        p = v * 1
        change(t, p)
        return p * p

    return f


def without_grad(change):
    def run(t, p):
        with t.no_grad():
            change(p)

    return hidden(run)


def setitem(p):
    p[0] = 5.0
    p[1:].add_(1)


def of_detached(change):
    def f(t, v):
        d = v.detach().clone()
        change(d, v)
        return d * v

    return f


def assigned(d, v):
    d[0] = v[1]


def doubled_backward(t, style):
    """A Function whose backward is not the derivative of its forward."""

    class Old(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x.sin() * k

        @staticmethod
        def backward(ctx, g):
            assert ctx.needs_input_grad == (True, False)
            return g * ctx.saved_tensors[0] * ctx.k, None

    class New(t.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y, x.argmax(), x.exp()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs, output[2])
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _, h):
            x, y, e = ctx.saved_tensors
            return g * y * 3 + h, g.sum() * e

    class InPlace(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 7

    class Unused(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g if h is None else g + h

    return {
        "old": lambda v: Old.apply(v, 2.0),
        "new": lambda v: (lambda a, i, e: a + e + i)(*New.apply(v, v * 2)),
        "in place": lambda v: InPlace.apply(v * 1) * v,
        "unused": lambda v: Unused.apply(v)[0] * v,
        "complex": lambda v: Old.apply(t.complex(v, v * v), 1j).abs(),
        "under no_grad": lambda v: without(t, lambda: Old.apply(v, 2.0)) * v,
    }[style]


def without(t, f):
    with t.no_grad():
        return f()


FUNCTIONS = {
    "detach": lambda t, v: v.detach() * v,
    "detach_": lambda t, v: (v * 1).detach_() * v,
    "data": lambda t, v: v.data * v,
    "view of detach": lambda t, v: v.detach()[1:] * v[1:],
    "detach of a view": lambda t, v: v.view(3, 1).detach().t() * v,
    "straight through": lambda t, v: (v + (v.round() - v).detach()) ** 2,
    "complex": lambda t, v: (t.complex(v, v * 2).conj().detach() * t.complex(v, v)).real,
    "no_grad": within(lambda t: t.no_grad(), lambda v: v * v),
    "views in no_grad": within(lambda t: t.no_grad(), lambda v: v.view(3, 1)[:, 0]),
    "pieces in no_grad": within(lambda t: t.no_grad(), lambda v: v.unbind()[1]),
    "copy in no_grad": within(lambda t: t.no_grad(), lambda v: v.clone()),
    "set_grad_enabled": within(lambda t: t.set_grad_enabled(False), lambda v: v.exp()),
    "enable_grad": resumed,
    "decorated": lambda t, v: t.no_grad()(lambda u: u * u)(v) * v,
    "change of data": hidden(lambda t, p: p.data.mul_(2)),
    "setting of data": hidden(lambda t, p: p.data[:2].copy_(p.data[1:] * 3)),
    "change of detach": hidden(lambda t, p: p.detach().mul_(2)),
    "change in no_grad": without_grad(lambda p: p.mul_(2)),
    "writes in no_grad": without_grad(setitem),
    "recorded change": of_detached(lambda d, v: d.add_(v)),
    "recorded write": of_detached(assigned),
    "grad": lambda t, v: t.func.grad(lambda u: (u.detach() * u * u).sum())(v),
    "no_grad in grad": lambda t, v: t.func.grad(lambda u: (FUNCTIONS["no_grad"](t, u) * u).sum())(v),
    "vmap": lambda t, v: t.vmap(lambda u: u.detach() * u)(v),
    "no_grad in vmap": lambda t, v: t.vmap(lambda u: FUNCTIONS["no_grad"](t, u))(v),
    "gumbel's step": lambda t, v: t.nn.functional.one_hot(v.argmax(), 3) - v.softmax(0).detach() + v.softmax(0) * v,
    "checkpoint": lambda t, v: t.utils.checkpoint.checkpoint(lambda u: u.sin() * u, v * 1, use_reentrant=True),
}  # fmt: skip
STYLES = ["old", "new", "in place", "unused", "complex", "under no_grad"]
FUNCTIONS |= {f"Function, {style}": lambda t, v, s=style: doubled_backward(t, s)(v) for style in STYLES}


def loss(t, name):
    return lambda v: (FUNCTIONS[name](t, v) * t.arange(1.0, 4)[: 2 if "view of" in name else 3]).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jax_follows_what_autograd_follows(name):
    x = theirs.tensor(POINT, requires_grad=True)
    loss(theirs, name)(x).backward()
    ours, at = loss(torch, name), jnp.array(POINT, jnp.float32)
    gradients = [
        jax.grad(to_jax(ours))(at),
        jax.jit(jax.grad(to_jax(ours)))(at),
        jax.grad(jax.jit(to_jax(ours)))(at),
        jax.grad(lambda v: ours(v).jax())(torch.tensor(POINT)).jax(),
    ]
    with torch.no_grad():  # around what jax differentiates it says nothing
        gradients.append(jax.grad(to_jax(ours))(at))
        if "no_grad" not in name and "recorded" not in name:
            gradients.append(jax.grad(lambda v: ours(v).jax())(torch.tensor(POINT)).jax())
    for found in gradients:
        np.testing.assert_allclose(np.asarray(found), x.grad.numpy(), rtol=2e-5)


KINDS = [lambda x: x, lambda x: x.requires_grad_(), torch.nn.Parameter, lambda x: x.requires_grad_() * 1]


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_tensors_of_every_kind_keep_their_derivative(make, wrap):
    x = make(torch.tensor(POINT))
    found = jax.grad(wrap(lambda v: (v.detach() * v + v * v).sum().jax()))(x)
    np.testing.assert_allclose(found.detach().numpy(), 3 * np.array(POINT), rtol=1e-6)


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.grad, lambda f: lambda x: jax.linearize(f, x)[1](x)])
def test_constants_are_so_for_derivatives_of_every_order(inner, outer):
    cubes = to_jax(lambda v: (v.detach() * v * v + v.data * v).sum())
    known = lambda v: jnp.sum(jax.lax.stop_gradient(v) * v * v + jax.lax.stop_gradient(v) * v)  # noqa: E731
    at = jnp.array(POINT, jnp.float32)
    np.testing.assert_allclose(outer(inner(cubes))(at), outer(inner(known))(at), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["detach", "no_grad", "data"])
def test_compiled_functions_in_functions_of_jax(name):
    x = theirs.tensor(POINT, requires_grad=True)
    loss(theirs, name)(x).backward()
    found = jax.jit(jax.grad(to_jax(torch.compile(loss(torch, name)))))(jnp.array(POINT, jnp.float32))
    np.testing.assert_allclose(np.asarray(found), x.grad.numpy(), rtol=2e-5)


@pytest.mark.parametrize("change", [lambda d, v: d.add_(v), assigned, lambda d, v: d[1:].copy_(v[:2])])
def test_what_is_detached_cannot_get_a_derivative(change):
    """It shares memory with what keeps its own."""

    def f(v):
        d = v.detach()
        change(d, v)
        return (d * v).sum()

    with pytest.raises(RuntimeError, match=r"that detach\(\) gave .*x\.detach\(\)\.clone\(\).*no_grad"):
        jax.grad(to_jax(f))(jnp.array(POINT))


def test_a_change_through_a_detached_tensor_is_seen():
    def f(v):
        d = v.detach()
        d.mul_(2)
        v.detach()[0] = 7.0
        return v

    assert jax.jit(to_jax(f))(jnp.array([1.0, 2.0])).tolist() == [7.0, 4.0]


def test_no_grad_around_a_function_of_jax_within_one():
    """The inner function is differentiated; what it gives is a constant."""

    def step(v):
        with torch.no_grad():
            slope = jax.grad(lambda u: (u * u).sum().jax())(v)
            doubled = jax.jit(lambda u: u * 2)(v)
        return (slope * v + doubled * v).sum().jax()

    x = torch.tensor(POINT)
    np.testing.assert_allclose(jax.grad(step)(x).numpy(), 4 * np.array(POINT), rtol=1e-6)


def test_a_custom_function_has_no_forward_mode_for_jax():
    """jax says so; its derivatives of the forward would not be those of the backward."""
    f = to_jax(lambda v: doubled_backward(torch, "old")(v).sum())
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(f, (jnp.array(POINT),), (jnp.array(POINT),))
    second = jax.jacrev(jax.jacrev(f))(jnp.array(POINT))
    np.testing.assert_allclose(second, 2 * np.eye(3))
