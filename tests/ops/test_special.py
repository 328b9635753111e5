"""Bessel, Airy, error functions, orthogonal polynomials: values against SciPy and PyTorch, edges, errors.

PyTorch's own Bessel functions of the first and second kind and its Airy function are off by up to 3e-6
here and there, and so are these; of the others SciPy's are the measure, PyTorch's the poles, signs and dtypes.
"""

import operator

import jax
import numpy as np
import pytest
import scipy.special
import torch
from both import agree
from oracle import check_error
from pointwise_cases import BOOLS, COMPLEX, HALF, INTS, MATRIX, forward

import torchlike

SCIPY = {
    "bessel_j0": scipy.special.j0,
    "bessel_j1": scipy.special.j1,
    "bessel_y0": scipy.special.y0,
    "bessel_y1": scipy.special.y1,
    "modified_bessel_i0": scipy.special.i0,
    "modified_bessel_i1": scipy.special.i1,
    "modified_bessel_k0": scipy.special.k0,
    "modified_bessel_k1": scipy.special.k1,
    "scaled_modified_bessel_k0": scipy.special.k0e,
    "scaled_modified_bessel_k1": scipy.special.k1e,
    "airy_ai": lambda x: scipy.special.airy(x)[0],
}
OFF = ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai"]
POSITIVE = np.concatenate([np.geomspace(1e-8, 1, 50), np.linspace(0.01, 60, 400), np.geomspace(60, 600, 40)])
EDGES = np.array([0.0, -0.0, 1e-8, 1e4, -1e4, np.inf, -np.inf, np.nan, 0.5, -0.5, 30.0, -30.0])
POLYNOMIALS = [n for n in dir(torch.special) if "polynomial" in n]


def call(name):
    return lambda t, *a: getattr(t.special, name)(*a)


@pytest.mark.parametrize("name", SCIPY)
def test_bessel_values(name):
    both_signs = name in {"bessel_j0", "bessel_j1", "modified_bessel_i0", "modified_bessel_i1", "airy_ai"}
    x = np.concatenate([POSITIVE, -POSITIVE]) if both_signs else POSITIVE
    wanted = SCIPY[name](x)
    for dtype, tol in ((np.float64, 4e-6 if name in OFF else 1e-10), (np.float32, 1e-4 if name == "airy_ai" else 2e-5)):
        near = np.abs(x) <= (600 if dtype is np.float64 else 60)
        got = getattr(torchlike.special, name)(torchlike.tensor(x[near].astype(dtype))).numpy()
        least = tol if name in OFF else tol * 0.1
        np.testing.assert_allclose(got, SCIPY[name](x[near].astype(dtype)), rtol=tol, atol=least)
    assert np.isfinite(wanted).all()


@pytest.mark.parametrize("name", OFF)
def test_bessel_values_are_those_of_pytorch(name):
    x = np.concatenate([POSITIVE, [5.0, np.nextafter(5.0, 6.0), 2.09, np.nextafter(2.09, 3.0)]])
    x = np.concatenate([x, -x]) if "_y" not in name else x
    ours, theirs = [call(name)(t, t.tensor(x)).numpy() for t in (torchlike, torch)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-13)


BOTH, RIGHT = np.linspace(-9.3, 9.9, 4001), np.geomspace(1e-3, 80, 4001)
TAILS = np.concatenate([-np.geomspace(1e-3, 1e4, 2000), np.geomspace(1e-3, 8, 2001)])
# {name: (the function in 64 bits, points, how many units in the last place 32 bits may be off, 64 bits)}: an argument
# that is multiplied by the root of 1/2 is rounded, and its square is the exponent.
ACCURACY = {
    "erfc": (scipy.special.erfc, BOTH, 5, 5),
    "special.erfcx": (scipy.special.erfcx, BOTH, 5, 60),  # SciPy's own are 50 off at -9
    "special.erfcx right": (scipy.special.erfcx, np.geomspace(1e-3, 1e8, 4001), 6, 6),
    "special.log_ndtr": (scipy.special.log_ndtr, TAILS, 40, 40),
    "special.ndtr": (scipy.special.ndtr, BOTH, 60, 60),
    "sinh": (np.sinh, BOTH * 8, 5, 5),
    "cosh": (np.cosh, BOTH * 8, 5, 5),
    "special.modified_bessel_k0": (scipy.special.k0, RIGHT, 2, 1000),
    "special.modified_bessel_k1": (scipy.special.k1, RIGHT, 2, 1000),
}


@pytest.mark.parametrize("name", ACCURACY)
def test_units_in_the_last_place(name):
    f, x, *limits = ACCURACY[name]
    ours = operator.attrgetter(name.split()[0])(torchlike)
    for dtype, limit in zip((np.float32, np.float64), limits, strict=True):
        given = x.astype(dtype)
        wanted, got = f(given.astype(np.float64)), ours(torchlike.tensor(given)).numpy()
        kept = np.abs(wanted) > 1e-37  # below, XLA's exponential of 32 bits is 0
        assert got.dtype == dtype and kept.mean() > 0.8
        np.testing.assert_array_less(np.abs(got / wanted - 1)[kept], limit * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["erfc", "special.erfcx", "special.log_ndtr", "special.ndtr"])
def test_tails_and_edges(name):
    x = np.array([np.inf, -np.inf, np.nan, 40, -40, 0.0, -0.0, 1e30, -1e30, 2e19, -2e19, -27, 27, 9.2, 0.5, -0.5, 1])
    f = operator.attrgetter(name)
    for dtype in (np.float32, np.float64):
        forward(lambda t, a: f(t)(a), x.astype(dtype))
    slope = jax.grad(lambda a: f(torchlike)(torchlike.from_jax_array(a)).sum().jax())
    point = torchlike.tensor([0.0, 0.3, -2.0, 30.0, -5.0], dtype=torchlike.float64, requires_grad=True)
    f(torchlike)(point).sum().backward()
    np.testing.assert_allclose(slope(point.detach().jax()), point.grad.numpy(), rtol=1e-12)


def test_incomplete_gammas_of_32_bits():
    """Small values of the upper one are no differences from 1."""
    a, x = (np.random.default_rng(0).uniform(0.01, 100, 2000).astype(np.float32) for _ in range(2))
    x = np.random.default_rng(1).permutation(x)
    for name, f in (("igamma", scipy.special.gammainc), ("igammac", scipy.special.gammaincc)):
        wanted = f(a.astype(np.float64), x.astype(np.float64))
        got = getattr(torchlike, name)(torchlike.tensor(a), torchlike.tensor(x)).numpy()
        kept = wanted > 1e-37
        np.testing.assert_allclose(got[kept], wanted[kept], rtol=2e-7)


@pytest.mark.parametrize("name", [*SCIPY, "spherical_bessel_j0"])
def test_bessel_edges(name):
    forward(call(name), EDGES)
    forward(call(name), EDGES[[0, 5, 6, 7, 8]].astype(np.float32))
    forward(call(name), np.array([1, 2, 3]))
    forward(call(name), np.abs(MATRIX[0]) + 1)
    assert not call(name)(torchlike, torchlike.ones(2, requires_grad=True)).requires_grad


def test_bessel_refuses():
    check_error(call("bessel_j0"), HALF, match="bessel_j0.*Half")
    check_error(call("airy_ai"), COMPLEX, match="airy_ai.*Complex")


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    x, n = np.linspace(-2, 2, 17)[:, None], np.arange(-1.0, 12.0)[None]
    forward(call(name), x, n, tol=10)
    forward(lambda t, x: (call(name)(t, x, 3), call(name)(t, 0.5, x.abs() * 4)), MATRIX)
    forward(call(name), INTS, np.array(2))
    forward(call(name), x, np.array([[2.5, -0.5, -1.5]]))
    forward(call(name), np.array([np.inf, -np.inf]), np.array([[1.0], [2.0]]))
    assert not call(name)(torchlike, torchlike.ones(2, requires_grad=True), 2).requires_grad


def test_polynomials_refuse():
    check_error(lambda t, x: t.special.hermite_polynomial_h(x, x), HALF, match="hermite.*Half")
    check_error(lambda t, x: t.special.legendre_polynomial_p(x, x), COMPLEX, match="legendre.*Complex")
    check_error(lambda t: t.special.legendre_polynomial_p(1.0, 2), match="legendre.*combination")


def test_the_namespace():
    """Every public function of torch.special that torchlike declares is callable, and bools are numbers."""
    for name in torchlike.special.__all__:
        assert callable(getattr(torchlike.special, name)) and hasattr(torch.special, name), name
    forward(call("entr"), BOOLS)
    with pytest.raises(AttributeError, match="special' has no attribute 'no_such'"):
        _ = torchlike.special.no_such


# -- incomplete gamma functions of large orders ----------------------------------------------------


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
@pytest.mark.parametrize("dtype, rtol", [("float64", 1e-6), ("float32", 1e-3)])
def test_large_orders(name, dtype, rtol):
    """Of which XLA's series would take sqrt(a) terms, and not end where a + 1 == a."""
    order = np.repeat([150.0, 201.0, 1e4, 1e6, 1e8, 1e12], 9)
    sigma = np.tile([-4.0, -2.0, -0.5, -1e-3, 0.0, 1e-3, 0.5, 2.0, 4.0], 6)
    order = order.astype(dtype)
    x = (order + sigma * np.sqrt(order)).astype(dtype)
    ours = getattr(torchlike.special, name)(torchlike.tensor(order), torchlike.tensor(x))
    theirs = getattr(torch.special, name)(torch.tensor(order), torch.tensor(x))
    assert str(ours.dtype) == str(theirs.dtype)
    exact = getattr(scipy.special, name)(order.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(ours.numpy(), exact, rtol=rtol)


@pytest.mark.parametrize("sigma", [-7.0, -5.0, 5.0])
def test_large_orders_far_from_the_middle(sigma):
    """PyTorch and SciPy end their series early there; of an order this large it is the normal distribution."""
    order = torchlike.tensor(1e16, dtype=torchlike.float64)
    found = torchlike.special.gammainc(order, order + sigma * 1e8)
    np.testing.assert_allclose(found.item(), scipy.special.ndtr(sigma), rtol=1e-5)


def test_orders_beyond_all_terms():
    for dtype, order in ((torchlike.float64, 1e300), (torchlike.float32, 1e30)):
        x = torchlike.tensor(order, dtype=dtype)
        assert torchlike.special.gammainc(x, x).item() == 0.5 == torchlike.special.gammaincc(x, x).item()
        assert torchlike.special.gammainc(x, x * 2).item() == 1.0 and torchlike.special.gammainc(x, x / 2).item() == 0.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_far_out(dtype):
    """PyTorch's are inf, 0 or of no digits in the left tail, quotients of what is 0 there."""

    def slopes(f, x):
        point = torchlike.tensor(x, dtype=getattr(torchlike, dtype), requires_grad=True)
        return torchlike.autograd.grad(f(point).sum(), point)[0].numpy()

    x = np.array([30, 1e3, 1e5, 1e10, 1e18])
    tol = 64 * np.finfo(dtype).eps
    wanted = x * (1 + 1 / x**2 - 2 / x**4 + 10 / x**6)
    np.testing.assert_allclose(slopes(torchlike.special.log_ndtr, -x), wanted, rtol=max(tol, 1e-9))
    np.testing.assert_allclose(slopes(torchlike.special.digamma, x), scipy.special.polygamma(1, x), rtol=tol)


@pytest.mark.parametrize("name", [n for n in SCIPY if "_y" in n or "_k" in n])
def test_bessel_functions_at_the_ends_of_float64(name):
    ends = np.array([np.finfo(np.float64).tiny, np.finfo(np.float64).max])[: 1 if "_y" in name else 2]
    got = getattr(torchlike.special, name)(torchlike.tensor(ends)).numpy()
    np.testing.assert_allclose(got, SCIPY[name](ends), rtol=1e-13)


@pytest.mark.parametrize("eps", [None, 0.0])
def test_logit_has_an_infinite_slope_at_both_zeros(eps):
    """Of many numbers: PyTorch's loop over the last few that fill no vector has +inf at -0."""

    def slopes(t):
        x = t.tensor([-0.0, 0.0, 1.0, 0.5] * 16, requires_grad=True)
        return t.autograd.grad(t.logit(x, eps).sum(), x)[0]

    agree(slopes)


@pytest.mark.parametrize("exponent", [200, -200, 127, 128, 1000, 2**31, -(2**31), 2**40])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ldexp_of_large_integers(dtype, exponent):
    """XLA takes what is subnormal for 0."""

    def scaled(t):
        x = t.tensor([0.0, 1e-4, 1.0, 1e4], dtype=getattr(t, dtype))
        return t.ldexp(x, t.tensor(exponent)), t.ldexp(x, t.tensor([exponent] * 4))

    ours, theirs = ([y.numpy() for y in scaled(t)] for t in (torchlike, torch))
    for a, b in zip(ours, theirs, strict=True):
        tiny = np.finfo(b.dtype).tiny
        np.testing.assert_array_equal(np.where(np.abs(a) < tiny, 0, a), np.where(np.abs(b) < tiny, 0, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeta_and_ldexp_at_the_ends(dtype):
    s = np.array([127, 127, 3, 3, 2.5, 1e5, 1e5, 1e5, 1e5, 2, 2.5, 2, np.inf, 3, np.nan, 1001])
    q = np.array([-0.5, -2.5, -2.25, -1.25, 3, 1, 0.5, 2, -0.5, 1e30, 1e16, np.inf, 2, np.nan, 1, 1.5])
    low = np.finfo(dtype).minexp
    x = np.array([3.0, -50.0, 1e5, 1e20, np.inf, -np.inf, 0.0, 2.5, 1e20, 3.0])
    e = np.array([-1, -1, -10, -25, -3, -100, -4, 0, -23, 300]) + low
    for f, arrays in ((lambda t: t.special.zeta, (s, q)), (lambda t: t.ldexp, (x, e))):
        ours, theirs = [f(t)(*[t.tensor(a.astype(dtype)) for a in arrays]).numpy() for t in (torchlike, torch)]
        np.testing.assert_allclose(ours, theirs, rtol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_upper_incomplete_gamma_of_small_orders(dtype):
    a, x = [v.reshape(-1).astype(dtype) for v in np.meshgrid([1e-30, 1e-10, 1e-5, 9e-4], [1e-30, 1e-3, 0.1, 0.5, 0.99])]
    got = torchlike.igammac(torchlike.tensor(a), torchlike.tensor(x)).numpy()
    wanted = scipy.special.gammaincc(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(got, wanted, rtol=64 * np.finfo(dtype).eps)
