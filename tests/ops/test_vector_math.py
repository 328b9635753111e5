"""Functions of many float32 numbers, which torchlike computes by loops of its own on the CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import torchlike

MANY = 70_000
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 2, 3, 8, 1000, 1e-3, 1e-30, np.pi / 2, np.pi, -np.pi, 126, -126, np.nan], np.float32
)
FAR = np.array([np.inf, -np.inf, 1e30, -1e30, 4.2e8, -4.3e8, 1e9, 3.4e38], np.float32)
TINY = np.array([1e-42, -1e-42, 5e-39], np.float32)  # arithmetic of XLA takes these for 0
ONE = ["sin", "cos", "tan", "asin", "acos", "atan", "log2", "log10", "exp2"]
STEADY = ["sin", "cos", "tan", "asin", "acos", "atan", "exp2"]
TWO = ["atan2", "fmod", "remainder", "floor_divide"]


def inputs(name: str, *special: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    scale = 1 if name in ("asin", "acos") else 30
    x = (rng.uniform(-scale, scale, MANY)).astype(np.float32)
    x = np.abs(x) + np.float32(1e-6) if name.startswith("log") else x
    x[: MANY // 5] *= np.exp(rng.uniform(-40, 0, MANY // 5)).astype(np.float32)
    return np.concatenate([*special, x])


def close(got: np.ndarray, wanted: np.ndarray, units: float = 2.1) -> None:
    """As near as PyTorch's own results are to the exact ones, with the same zeros, infinities and NaN."""
    assert got.dtype == wanted.dtype and np.array_equal(np.isnan(got), np.isnan(wanted))
    ends = (wanted == 0) | np.isinf(wanted)
    assert np.array_equal(got[ends], wanted[ends]) and np.array_equal(np.signbit(got[ends]), np.signbit(wanted[ends]))
    rest = ~ends & ~np.isnan(wanted)
    away = np.abs(got[rest].astype(np.float64) - wanted[rest])
    assert (away <= units * np.spacing(np.abs(wanted[rest]))).all()


@pytest.mark.parametrize("special", [[SPECIAL], [SPECIAL, FAR]], ids=["near", "far"])
@pytest.mark.parametrize("name", ONE)
def test_values(name, special):
    x = inputs(name, *special)
    close(getattr(torchlike, name)(torchlike.tensor(x)).numpy(), getattr(torch, name)(torch.tensor(x)).numpy())


@pytest.mark.parametrize("name", STEADY)
def test_tiny_numbers(name):
    x = inputs(name, TINY)
    close(getattr(torchlike, name)(torchlike.tensor(x)).numpy(), getattr(torch, name)(torch.tensor(x)).numpy())


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("name", TWO)
def test_values_of_two(name, far):
    some = np.concatenate([SPECIAL, FAR]) if far else SPECIAL
    a, b = (each.ravel() for each in np.meshgrid(some, some))
    x = inputs(name, a)
    y = np.concatenate([b, inputs(name)[::-1]])
    got = getattr(torchlike, name)(torchlike.tensor(x), torchlike.tensor(y)).numpy()
    wanted = getattr(torch, name)(torch.tensor(x), torch.tensor(y)).numpy()
    if name == "atan2":
        normal = (np.abs(wanted) > 1.2e-38) | (wanted == 0) | np.isnan(wanted)
        close(got[normal], wanted[normal], 2)
    else:
        known = ~np.isnan(wanted)  # PyTorch has NaN where its quotient is infinite, in its vector code alone
        assert np.array_equal(got[known], wanted[known]) and (far or np.isnan(got[~known]).all())
        assert np.array_equal(np.signbit(got[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("name", ONE)
def test_derivatives(name):
    """Backward, twice, and forward, also inside of vmap."""
    x = inputs(name) * np.float32(0.9)

    def run(lib):
        t = lib.tensor(x, requires_grad=True)
        f = getattr(lib, name)
        (g,) = lib.autograd.grad(f(t).sum(), t, create_graph=True)
        (h,) = lib.autograd.grad(g.sum(), t)
        dot = lib.func.jvp(f, (t.detach(),), (lib.ones_like(t),))[1]
        rows = lib.func.vmap(f)(t.detach().reshape(5, -1).repeat(1, 6))
        return [each.detach().numpy() for each in (g, h, dot, rows)]

    for got, wanted in zip(run(torchlike), run(torch), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-5, atol=1e-5)


def test_jax_differentiates_them():
    x = jnp.asarray(inputs("exp2")) / 10
    for name, slope in (("exp2", jnp.exp2(x) * np.log(2)), ("tan", 1 + jnp.tan(x) ** 2), ("atan", 1 / (1 + x * x))):
        f = torchlike.interop.to_jax(getattr(torchlike, name))
        np.testing.assert_allclose(jax.grad(lambda x, f=f: f(x).sum())(x), slope, rtol=1e-4)
    primal, dot = jax.jvp(torchlike.interop.to_jax(torchlike.log2), (jnp.abs(x) + 1,), (jnp.ones_like(x),))
    np.testing.assert_allclose(dot, 1 / (jnp.abs(x) + 1) / np.log(2), rtol=1e-5)
