"""Functions of many float32 numbers on the CPU, as loops that LLVM makes vector instructions of.

XLA calls the C library there for each element, ten to thirty times as long. Here float64 holds what is between, so
that results are rounded once: they differ from the exact ones by at most 0.51 units in the last place.

The polynomials interpolate at Chebyshev nodes, with relative errors below 1e-10. An angle x is reduced to
x - q pi / 2, |x - q pi / 2| <= pi / 4, by a pi / 2 in two parts, the first of 25 bits, so that its product with any
q < 2 ** 28 is exact (W. J. Cody, W. Waite, Software Manual for the Elementary Functions, 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._ops._elementwise import is_large

_MANY = (
    1 << 16
)  # elements; for fewer XLA's functions, whose programs are shorter: these here take 80 ms more to compile
_SIN = (0.9999999999956688, -0.16666666631563162, 0.008333328779736226, -0.00019839201388559692, 2.717338055746829e-06)
_COS = (0.9999999999999444, -0.4999999999935047, 0.041666666543813194, -0.001388888038869402, 2.4798927696218343e-05,
        -2.7173353546655085e-07)  # fmt: skip
_ATAN = (0.9999999999992436, -0.33333333276849636, 0.1999999304596702, -0.142853862605561, 0.11103451563136532,
         -0.08992503246718883, 0.06973970393191921, -0.03765104129649976)  # fmt: skip
_LOG = (2.000000000008368, 0.6666666524633386, 0.4000038490789066, 0.28535036086892196, 0.2361664955601621)
_POWER = (0.9999999999595618, 0.6931471805568324, 0.24022651213498092, 0.055504109063258665, 0.009618025613318034,
          0.0013333478473685416, 0.00015469729214118296, 1.5303700711365693e-05)  # fmt: skip
_TINY = np.float32(2.0**-100)
_FAR = np.float32(2.0**28)  # quotients from here on are left to XLA
_EXPONENT = 52  # bits of a float64's fraction, above which its exponent stands
_INFINITE = 0x7FF << _EXPONENT


def _parts_of_half_pi() -> tuple[float, float]:
    high = np.ldexp(np.rint(np.ldexp(math.pi / 2, 24)), -24)
    return float(high), float(math.pi / 2 - high + 6.123233995736766e-17)  # what pi / 2 itself leaves over


_HIGH, _LOW = _parts_of_half_pi()


def _polynomial(z: Any, coefficients: tuple[float, ...]) -> Any:
    found = coefficients[-1]
    for c in coefficients[-2::-1]:
        found = found * z + c
    return found


def _turned(x: Any) -> tuple[Any, Any, Any]:
    """(quarters of a turn, sine, cosine) of x >= 0, the latter of the rest of at most pi / 4."""
    quarters = lax.round(x * (2 / math.pi), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = (x - quarters * _HIGH) - quarters * _LOW
    z = rest * rest
    return quarters.astype(np.int32), rest * _polynomial(z, _SIN), _polynomial(z, _COS)


def _sin(x: Any) -> Any:
    quarters, sine, cosine = _turned(lax.abs(x))
    found = jnp.where(quarters & 1, cosine, sine)
    return jnp.where((quarters & 2 != 0) != jnp.signbit(x), -found, found)


def _cos(x: Any) -> Any:
    quarters, sine, cosine = _turned(lax.abs(x))
    found = jnp.where(quarters & 1, sine, cosine)
    return jnp.where((quarters + 1) & 2, -found, found)


def _tan(x: Any) -> Any:
    quarters, sine, cosine = _turned(lax.abs(x))
    odd = quarters & 1
    found = jnp.where(odd, -cosine, sine) / jnp.where(odd, sine, cosine)
    return jnp.where(jnp.signbit(x), -found, found)


def _angle(rise: Any, run: Any) -> Any:
    """The angle of a slope ``rise / run``, neither of them negative and not both 0."""
    steep, middle = rise > 2.414213562373095 * run, rise > 0.4142135623730951 * run
    above = jnp.where(steep, -run, jnp.where(middle, rise - run, rise))
    below = jnp.where(steep, rise, jnp.where(middle, rise + run, run))
    y = above / below
    return jnp.where(steep, math.pi / 2, jnp.where(middle, math.pi / 4, 0)) + y * _polynomial(y * y, _ATAN)


def _atan(x: Any) -> Any:
    return jnp.copysign(_angle(lax.abs(x), jnp.ones_like(x)), x)


def _asin(x: Any) -> Any:
    return jnp.copysign(_angle(lax.abs(x), lax.sqrt((1 - x) * (1 + x))), x)


def _acos(x: Any) -> Any:
    found = _angle(lax.sqrt((1 - x) * (1 + x)), lax.abs(x))
    return jnp.where(x < 0, math.pi - found, found)


def _atan2(y: Any, x: Any) -> Any:
    rise, run = lax.abs(y), lax.abs(x)
    even = jnp.isinf(rise) & jnp.isinf(run)
    rise, run = jnp.where(even, 1, rise), jnp.where(even | (rise == 0) & (run == 0), 1, run)
    found = _angle(rise, run)
    return jnp.copysign(jnp.where(jnp.signbit(x), math.pi - found, found), y)


def _logarithm(x: Any, unit: float) -> Any:
    """The logarithm to the base whose natural logarithm is 1 / ``unit``."""
    bits = lax.bitcast_convert_type(x, np.int64)
    power = (bits >> _EXPONENT) - 1023
    m = lax.bitcast_convert_type(bits & ((1 << _EXPONENT) - 1) | (1023 << _EXPONENT), np.float64)
    high = m > math.sqrt(2)
    m, power = jnp.where(high, m / 2, m), jnp.where(high, power + 1, power).astype(np.float64)
    s = (m - 1) / (m + 1)
    found = power * (math.log(2) * unit) + s * _polynomial(s * s, _LOG) * unit
    beyond = jnp.where(bits << 1 == 0, -jnp.inf, jnp.where(bits == _INFINITE, jnp.inf, jnp.nan))
    return jnp.where((bits > 0) & (bits < _INFINITE), found, beyond)


def _exp2(x: Any) -> Any:
    within = jnp.clip(x, -300, 300)  # of float32 others are 0 or infinite
    whole = lax.round(within, lax.RoundingMethod.TO_NEAREST_EVEN)
    scale = lax.bitcast_convert_type((whole.astype(np.int64) + 1023) << _EXPONENT, np.float64)
    return jnp.where(x != x, x, _polynomial(within - whole, _POWER) * scale)


def _rem(x: Any, y: Any) -> Any:
    rest = x - lax.round(x / y, lax.RoundingMethod.TO_NEAREST_EVEN) * y  # exact
    over = (rest != 0) & ((rest < 0) != (x < 0))  # the quotient was rounded up
    return jnp.copysign(jnp.where(over, rest + jnp.copysign(y, x), rest), x)


def _tiny(x: Any) -> Any:
    return lax.abs(x) < _TINY


def _less(x: Any, y: Any) -> Any:
    return lax.abs(x) < lax.abs(y)


def _far(x: Any) -> Any:
    return lax.abs(x) >= _FAR


def _many_times(x: Any, y: Any) -> Any:
    far = (lax.abs(x) >= _FAR * lax.abs(y)) & jnp.isfinite(x)
    return (far | (lax.abs(y) < _TINY)) & (y != 0)


def _vectorised(
    usual: Callable[..., Any], f: Callable[..., Any], beyond: Callable[..., Any] | None = None,
    kept: Callable[..., Any] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """``usual``, a function of jax, computed by ``f``, a function of float64.

    Args:
        beyond: tells of numbers for which ``f`` is not made: if there is one, ``usual`` computes all.
        kept: tells of numbers that are their own values, as the smallest ones, which arithmetic here takes for 0.
    """

    def quick(*xs: Any) -> Any:
        found = f(*[x.astype(np.float64) for x in xs]).astype(np.float32)
        return found if kept is None else jnp.where(kept(*xs), xs[0], found)

    def on_cpu(*xs: Any) -> Any:
        return quick(*xs) if beyond is None else lax.cond(jnp.any(beyond(*xs)), usual, quick, *xs)

    @jax.custom_jvp
    def many(*xs: Any) -> Any:
        return lax.platform_dependent(*xs, cpu=on_cpu, default=usual)

    @many.defjvp
    def _(xs: Any, dots: Any) -> Any:
        return many(*xs), jax.jvp(usual, xs, dots)[1]

    return lambda *xs: many(*xs) if all(map(_applies, xs)) else usual(*xs)


def _applies(x: Any) -> bool:
    """Whether ``x`` is an array of many float32, with float64 beside it."""
    return x.dtype == np.float32 and is_large(x, _MANY + 1)


sin = _vectorised(lax.sin, _sin, _far, kept=_tiny)
cos = _vectorised(lax.cos, _cos, _far)
tan = _vectorised(lax.tan, _tan, _far, kept=_tiny)
atan = _vectorised(lax.atan, _atan, kept=_tiny)
asin = _vectorised(lax.asin, _asin, kept=_tiny)
acos = _vectorised(lax.acos, _acos)
atan2 = _vectorised(lax.atan2, _atan2)
rem = _vectorised(lax.rem, _rem, _many_times, kept=_less)


def logarithm_to(base: int, usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``usual``, the logarithm to ``base``, computed so."""
    return _vectorised(usual, partial(_logarithm, unit=1 / math.log(base)))


def power_of_two(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``usual``, which is ``2 ** x``, computed so."""
    return _vectorised(usual, _exp2)
