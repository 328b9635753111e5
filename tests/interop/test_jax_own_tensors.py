"""A function that jax traces may change the tensors that it made, under every transform, and no others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import torchlike as torch
from torchlike import nn
from torchlike.interop import split, to_jax

OUTSIDE = torch.tensor([1.0, 2.0, 3.0])
POINT = jnp.array([1.0, 2.0, 3.0], jnp.float32)


def of(array):
    return torch.from_jax_array(array)


def element(x):
    y = torch.zeros(3)
    y[0] = of(x)[1] * 2
    return y


def elements(x):
    y = torch.empty(3)
    for i in range(3):
        y[i] = of(x)[i] ** 2
    return y


def view(x):
    y = torch.tensor([1.0, 2.0, 3.0])
    y[1:].mul_(of(x)[1:])
    return y


def assigned(x):
    y = torch.ones(3)
    y.data = of(x) * 2
    return y


def shape(x):
    y = torch.ones(2)
    y.resize_(3)
    return y.copy_(of(x))


def gradient(x):
    p = nn.Parameter(torch.ones(3))
    (p * of(x)).sum().backward()
    return p.grad


def given_back(x):
    """A function within makes a tensor of a constant, which jax hands over."""
    return jax.jit(lambda: OUTSIDE * 2)().mul_(of(x))


OWN = {
    "add_": (lambda x: torch.zeros(3).add_(of(x)), lambda x: x),
    "of a constant": (lambda x: (OUTSIDE * 2).mul_(of(x)), lambda x: OUTSIDE.jax() * 2 * x),
    "copy_": (lambda x: torch.empty(3).copy_(of(x)), lambda x: x),
    "set_": (lambda x: torch.ones(3).set_(of(x) * 3), lambda x: x * 3),
    "out": (lambda x: torch.mul(y := torch.full((3,), 2.0), of(x), out=y), lambda x: x * 2),
    "element": (element, lambda x: jnp.zeros(3).at[0].set(x[1] * 2)),
    "elements": (elements, lambda x: x**2),
    "view": (view, lambda x: jnp.array([1, 2, 3]) * x.at[0].set(1)),
    "data": (assigned, lambda x: x * 2),
    "resize_": (shape, lambda x: x),
    "gradient": (gradient, lambda x: x),
    "given back": (given_back, lambda x: OUTSIDE.jax() * 2 * x),
}
WRAPS = {
    "grad": jax.grad,
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: jax.vmap(f)(jnp.stack([x, 2 * x])),
    "hessian": jax.hessian,
    "jit of grad": lambda f: jax.jit(jax.grad(f)),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(jnp.stack([x, 2 * x])),
    "checkpoint": lambda f: jax.grad(jax.checkpoint(f)),
}


@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("name", OWN)
def test_its_own_tensors_may_be_changed(name, wrap):
    ours, plain = OWN[name]
    found = WRAPS[wrap](lambda x: ours(x).square().sum().jax())(POINT)
    expected = WRAPS[wrap](lambda x: (plain(x) ** 2).sum())(POINT)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), found, expected)
    assert OUTSIDE.tolist() == [1, 2, 3]


def loop(y, x):
    jax.lax.scan(lambda c, z: (c, y.add_(of(z)).sum().jax()), 0.0, x)


INNER = {
    "grad": lambda y, x: jax.grad(lambda z: y.mul_(of(z)).sum().jax())(x),
    "vmap": lambda y, x: jax.vmap(lambda z: y.mul_(of(z)).sum().jax())(jnp.stack([x, x])),
    "scan": loop,
    "cond": lambda y, x: jax.lax.cond(x.sum() > 0, lambda: y.add_(1).sum().jax(), lambda: y.sum().jax()),
}


@pytest.mark.parametrize("outer", [lambda f: f, jax.jit, jax.grad, jax.vmap], ids=["none", "jit", "grad", "vmap"])
@pytest.mark.parametrize("inner", INNER)
def test_a_function_within_may_not_change_what_is_around_it(inner, outer):
    def f(x):
        y = of(x) * 1
        INNER[inner](y, x)
        return y.sum().jax()

    with pytest.raises(RuntimeError, match="would change a tensor of shape .*that it did not make"):
        outer(f)(POINT[None] if outer is jax.vmap else POINT)


def test_buffers_of_a_module_under_vmap_alone():
    module, x = nn.BatchNorm1d(3), jnp.arange(24.0, dtype=jnp.float32).reshape(2, 4, 3)
    pure, (parameters, buffers) = to_jax(module), split(module)
    out, after = jax.vmap(lambda x: pure(parameters, buffers, x))(x)
    for i in range(2):
        expected, alone = pure(parameters, buffers, x[i])
        np.testing.assert_allclose(out[i], expected, rtol=1e-5)
        for name in buffers:
            np.testing.assert_allclose(after[name][i], alone[name], rtol=1e-5)
    assert module.running_mean.tolist() == [0, 0, 0]
