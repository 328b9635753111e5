"""Bessel functions of orders 0 and 1, and the Airy function; they have no derivatives, as in PyTorch.

J, Y and Ai left of -2.09 are those of `cephes.py`. The others, of small arguments: integrals of periodic functions over
equidistant points, which converge geometrically (Neumann's expansion of K, DLMF 10.8.3). Large ones: Hankel's
asymptotic expansions (DLMF 10.40). In between, K and Ai are integrals of rapidly decaying functions (DLMF 10.32.9,
9.5.7), for which equidistant points converge as fast. Terms cancel: of 32 bits five digits would be left of some, so
all is computed in 64.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._ops import cephes
from torchlike._ops._elementwise import in_64_bits, unary

LARGE = 25.0  # from here on the asymptotic expansions are exact to float64
_TERMS = 20


def _hankel(order):
    """The coefficients a_k of the asymptotic expansions (DLMF 10.17.1)."""
    a = [1.0]
    for k in range(1, _TERMS):
        a.append(a[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return a


def _series(coefficients, x):
    total = jnp.zeros_like(x)
    for c in reversed(coefficients):
        total = total / x + c
    return total


def _angles(points):
    """The equidistant angles of the first quadrant, for means over a full turn of 4 * points."""
    return (np.arange(points) + 0.5) * math.pi / (2 * points)


def _mean(f, x, *arrays):
    """The mean of ``f(x, *values)`` over the points that the arrays hold."""
    return jnp.mean(f(x[..., None], *(np.asarray(a, x.dtype) for a in arrays)), -1)


_FINE = _angles(32)
_HALVES = np.arange(1, 15)
_STEADY = (np.cos(2 * np.outer(_FINE, _HALVES)) / _HALVES).sum(1)  # Neumann's sum over even orders 2k of cos(2k t) / k


def _log_half(x):
    return lax.log(x) + (np.euler_gamma - math.log(2))  # x / 2 may be subnormal, which is 0 for XLA


def _j_large(order, x):
    p, q, angle = cephes.wave(order, x)
    return p * lax.cos(angle) - q * lax.sin(angle)


def _y_large(order, x):
    p, q, angle = cephes.wave(order, x)
    return p * lax.sin(angle) + q * lax.cos(angle)


def _by_size(x, limit, small, large):
    """``small(x)`` below the limit and ``large(x)`` from there, each kept inside its own range."""
    below = x < limit
    return jnp.where(below, small(jnp.where(below, x, 1)), large(jnp.where(below, limit, x)))


def _j(order, small):
    def f(x):
        value = _by_size(lax.abs(x), cephes.NEAR, small, lambda x: _j_large(order, x))
        return jnp.where(x != x, x, value * jnp.copysign(1, x).astype(x.dtype) ** order)

    return f


def _positive(f, at_zero):
    """A function of positive numbers: a pole at 0, NaN below."""

    def whole(x):
        value = f(jnp.where(x > 0, x, 1))
        return jnp.where(x > 0, value, jnp.where(x == 0, at_zero, np.nan))

    return whole


def _y(order, small):
    return _positive(lambda x: _by_size(x, cephes.NEAR, small, lambda x: _y_large(order, x)), -np.inf)


def _i(order, x):
    return (lax.bessel_i0e if order == 0 else lax.bessel_i1e)(x) * lax.exp(lax.abs(x))


def _k0_small(x):
    even = _mean(lambda x, c, w: w * jnp.cosh(x * c), x, np.cos(_FINE), _STEADY)
    return lax.exp(x) * (2 * even - _log_half(x) * _i(0, x))


def _k1_small(x):
    even = _mean(lambda x, c, w: w * c * jnp.sinh(x * c), x, np.cos(_FINE), _STEADY)
    return lax.exp(x) * (_i(0, x) / x + _log_half(x) * _i(1, x) - 2 * even)


_STEP = 0.12
_TIMES = np.arange(33) * _STEP
_ENDS = np.where(np.arange(33) == 0, 0.5, 1.0) * _STEP


def _k_middle(order, x):
    lift = np.cosh(order * _TIMES) * _ENDS
    return 33 * _mean(lambda x, c, w: w * lax.exp(-x * c), x, np.cosh(_TIMES) - 1, lift)


def _k_scaled(order, small):
    """``exp(x) * K_order(x)``."""

    def large(x):
        return math.sqrt(math.pi / 2) / lax.sqrt(x) * _series(_hankel(order), x)

    def beyond(x):
        return _by_size(x, LARGE, lambda x: _k_middle(order, jnp.maximum(x, 2)), large)

    return _positive(lambda x: _by_size(x, 2.0, small, beyond), np.inf)


_k0_scaled, _k1_scaled = _k_scaled(0, _k0_small), _k_scaled(1, _k1_small)


def _k(scaled):
    def f(x):
        return jnp.where(x == np.inf, 0, scaled(x) * lax.exp(-jnp.maximum(x, 0)))

    return f


# -- the Airy function -----------------------------------------------------------------------------

_AIRY_STEP = 0.125
_AIRY = (np.arange(56) + 0.5) * _AIRY_STEP
_AI0 = 3 ** (-2 / 3) / math.gamma(2 / 3)  # Ai(0) and -Ai'(0)
_AI1 = 3 ** (-1 / 3) / math.gamma(1 / 3)


def _airy_near(x):
    """The Maclaurin series (DLMF 9.4.1)."""
    cube = x * x * x
    f = g = jnp.ones_like(x)
    for k in range(24, 0, -1):
        f = 1 + f * cube / ((3 * k - 1) * (3 * k))
        g = 1 + g * cube / ((3 * k) * (3 * k + 1))
    return _AI0 * f - _AI1 * x * g


def _airy_right(x):
    root = lax.sqrt(x)
    bend = 1 / (3 * root * lax.sqrt(root))
    decay = np.exp(-(_AIRY**2)) * _AIRY_STEP
    total = len(_AIRY) * _mean(lambda c, w, s: w * lax.cos(c * s), bend, decay, _AIRY**3)
    return lax.exp(-2 / 3 * x * root) * total / (math.pi * lax.sqrt(root))


def _airy(x):
    near = _airy_near(jnp.clip(x, cephes.AIRY_LEFT, 1.5))
    right = _airy_right(jnp.where(x > 1.5, x, 2))
    left = cephes.airy_left(jnp.where(x < cephes.AIRY_LEFT, -x, 3))
    value = jnp.where(x > 1.5, right, jnp.where(x < cephes.AIRY_LEFT, left, near))
    return jnp.where(jnp.isfinite(x), value, np.nan)


def _spherical(x):
    safe = jnp.where((x == 0) | (lax.abs(x) == np.inf), 1, x)
    return jnp.where(x == 0, 1, jnp.where(lax.abs(x) == np.inf, 0, lax.sin(safe) / safe))


def _declare(name, f, doc, shows):
    def kernel(x):
        return in_64_bits(f, x)

    return unary("special_" + name, kernel, {}, variants="out", kinds="bif", half=False, doc=doc, shows=shows)


_FIRST, _SECOND = "Bessel function of the first kind", "Bessel function of the second kind"
OPERATORS = {
    name: _declare(name, f, doc + ".", shows)
    for name, f, doc, shows in (
        ("bessel_j0", _j(0, cephes.j0_near), f"The {_FIRST}, of order 0", "1.0 -> 0.7652"),
        ("bessel_j1", _j(1, cephes.j1_near), f"The {_FIRST}, of order 1", "1.0 -> 0.4401"),
        ("bessel_y0", _y(0, cephes.y0_near), f"The {_SECOND}, of order 0", "1.0 -> 0.0883"),
        ("bessel_y1", _y(1, cephes.y1_near), f"The {_SECOND}, of order 1", "1.0 -> -0.7812"),
        ("modified_bessel_i0", lambda x: _i(0, x), f"The modified {_FIRST}, of order 0", "1.0 -> 1.2661"),
        ("modified_bessel_i1", lambda x: _i(1, x), f"The modified {_FIRST}, of order 1", "1.0 -> 0.5652"),
        ("modified_bessel_k0", _k(_k0_scaled), f"The modified {_SECOND}, of order 0", "1.0 -> 0.4210"),
        ("modified_bessel_k1", _k(_k1_scaled), f"The modified {_SECOND}, of order 1", "1.0 -> 0.6019"),
        (
            "scaled_modified_bessel_k0",
            _k0_scaled,
            "``exp(input) * modified_bessel_k0(input)``",
            "1.0 -> 1.1445",
        ),
        (
            "scaled_modified_bessel_k1",
            _k1_scaled,
            "``exp(input) * modified_bessel_k1(input)``",
            "1.0 -> 1.6362",
        ),
        ("spherical_bessel_j0", _spherical, "``sin(input) / input``, 1 at 0", "1.0 -> 0.8415"),
        ("airy_ai", _airy, "The Airy function", "1.0 -> 0.1353"),
    )
}
