"""The incomplete gamma functions, also of large orders: XLA's series takes sqrt(a) terms there, and loses its digits.

Temme's expansion (DLMF 8.12) for large ``a`` and ``x`` near it, with ``h * h / 2 = x/a - 1 - log(x/a)``, h of the sign
of ``x - a``: the lower function is ``erfc(-h sqrt(a/2)) / 2 - R``, the upper one ``erfc(h sqrt(a/2)) / 2 + R``, and
``R = exp(-a h h / 2) / sqrt(2 pi a) * sum of c_k(h) / a**k``.
"""

from functools import cache

import jax.numpy as jnp
import numpy as np
from jax import lax

_LEAST = 200  # orders below are few terms of XLA's series
_NEAR = 0.3  # how far x may be from a, in parts of a: beyond, each term of the series is a third less than the last
_SMALL = 1e-3  # orders below, and arguments below 1, have an upper function near 0
# of log(gamma(1 + a)) / a
_LOG_GAMMA = [-np.euler_gamma, np.pi**2 / 12, -0.40068563438653143, np.pi**4 / 360, -0.20738555102867398]
_ORDERS, _POWERS = 8, 17  # c_k for k < 8 leave 200**-8, powers of h below 17 some 1e-17


def igamma(a, x):
    """The lower one, normalised; ``a`` and ``x`` are floats of one dtype and shape."""
    return _split(lax.igamma, -1, a, x)


def igammac(a, x):
    """The upper one, 1 - :func:`igamma`."""
    small = (a > 0) & (a < _SMALL) & (x >= 0) & (x < 1)
    near = _upper_small(jnp.where(small, a, _SMALL), jnp.where(small, x, 1))
    return jnp.where(small, near, _split(lax.igammac, 1, a, x))


def _upper_small(a, x):
    """Of small orders and arguments (DLMF 8.7.1), whose digits a difference from 1 loses."""
    total = jnp.zeros_like(x)
    for n in range(18, 0, -1):
        total = -x / n * (1 / (a + n) + total)
    power = a * (jnp.log(x) - _polynomial(_LOG_GAMMA, a))  # the logarithm of x ** a / gamma(1 + a)
    return -jnp.expm1(power) - jnp.exp(power) * a * total


def _split(series, sign, a, x):
    near = (a > _LEAST) & (lax.abs(x - a) < _NEAR * a)
    one = jnp.ones_like(a)
    return jnp.where(near, _temme(sign, jnp.where(near, a, 1e3), jnp.where(near, x, 1e3)),
                     series(jnp.where(near, one, a), jnp.where(near, one, x)))  # fmt: skip


def _temme(sign, a, x):
    part = (x - a) / a
    s = part / (2 + part)  # log(1 + part) = 2 atanh(s): what is left of part - log(1 + part) has no cancellation
    squared = s * s
    tail = jnp.zeros_like(s)
    for n in range(25, 1, -2):
        tail = squared * (tail + 1 / n)
    half = 2 * squared / (1 - s) - 2 * s * tail  # h * h / 2
    h = jnp.sign(part) * jnp.sqrt(2 * half)
    total = jnp.zeros_like(h)
    for row in reversed(_coefficients()):
        total = total / a + _polynomial(row, h)
    rest = jnp.exp(-a * half) / jnp.sqrt(2 * np.pi * a) * total
    return lax.erfc(sign * h * jnp.sqrt(a / 2)) / 2 + sign * rest


def _polynomial(row, h):
    value = jnp.zeros_like(h)
    for factor in reversed(row):
        value = value * h + factor
    return value


@cache
def _coefficients():
    """The coefficients of h**n in c_k, a row for each k, by the recurrences of DLMF 8.12(ii)."""
    from fractions import Fraction  # its import takes 1 % of ours

    count = _POWERS + 2 * _ORDERS
    powers = [Fraction(0), Fraction(1)]  # x/a - 1 as a series in h
    for i in range(2, count + 3):
        earlier = sum(j * powers[j] * powers[i - j + 1] for j in range(2, i))
        powers.append((powers[i - 1] - earlier) / (i + 1))
    rows = [[Fraction(-1, 3)] + [(i + 2) * powers[i + 2] for i in range(1, count + 1)]]
    stirling = Fraction(1)
    for k in range(1, _ORDERS):
        stirling *= 2 * k + 1
        first, before = (-1) ** k * stirling * powers[2 * k + 1], rows[-1]
        rows.append([first * rows[0][i] + (i + 2) * before[i + 2] for i in range(len(before) - 2)])
    return [[float(x) for x in row[:_POWERS]] for row in rows]
