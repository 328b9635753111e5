"""Complex functions as C has them where a part is infinite or NaN, in which XLA's lose the other one."""

import math

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._ops._elementwise import at_cuts, kind, on_complex


def finite(x):
    """Where both parts are."""
    return jnp.isfinite(x.real) & jnp.isfinite(x.imag)


def _smith(a, b):
    """The quotient by the larger part of ``b``, whose square may be beyond all numbers."""
    wide = lax.abs(b.real) >= lax.abs(b.imag)
    ratio = jnp.where(wide, b.imag, b.real) / jnp.where(wide, b.real, b.imag)
    size = jnp.where(wide, b.real + b.imag * ratio, b.real * ratio + b.imag)
    real = jnp.where(wide, a.real + a.imag * ratio, a.real * ratio + a.imag)
    imag = jnp.where(wide, a.imag - a.real * ratio, a.imag * ratio - a.real)
    zero, none = b == 0, lax.abs(b.real)
    return lax.complex(jnp.where(zero, a.real / none, real / size), jnp.where(zero, a.imag / none, imag / size))


@jax.custom_jvp
def _rounded(x):
    """``x``, which the compiler must round before it adds to it: the select keeps it out of fused multiply-adds."""
    return jnp.where(x == x, x, jnp.nan)


_rounded.defjvp(lambda primals, dots: (_rounded(*primals), *dots))


def product(a, b):
    """``a * b`` of arrays of one dtype and shape; of complex ones, each of the four products is rounded, as PyTorch's.

    With fused multiply-adds the last bit would depend on how the compiler groups what surrounds it.
    """
    if kind(a) != "c":
        return a * b
    real = _rounded(a.real * b.real) - _rounded(a.imag * b.imag)
    return lax.complex(real, _rounded(a.real * b.imag) + _rounded(a.imag * b.real))


@jax.custom_jvp
def _complex_quotient(a, b):
    return _smith(a, b)


@_complex_quotient.defjvp
def _(primals, dots):
    q = _complex_quotient(*primals)
    return q, lax.div(dots[0] - q * dots[1], primals[1])


def quotient(a, b):
    """``a / b`` of arrays of one dtype and shape."""
    return _complex_quotient(a, b) if kind(b) == "c" else lax.div(a, b)


def inverse(x):
    """``1 / x``."""
    return _complex_quotient(jnp.ones_like(x), x) if kind(x) == "c" else 1 / x


def exponential(x):
    """``exp(x)``; infinity has one in every direction, -infinity 0."""
    a, b, y = x.real, x.imag, lax.exp(x)
    end = jnp.isinf(a) & ~jnp.isfinite(b)
    real = jnp.where(end, jnp.where(a > 0, jnp.inf, 0), y.real)
    imag = jnp.where(end, jnp.where(a > 0, jnp.nan, jnp.copysign(0, b)), y.imag)
    return lax.complex(real, jnp.where(b == 0, jnp.copysign(imag, b), imag))


def logarithm(x):
    """``log(x)``, of which a part is infinite where one of ``x`` is."""
    y = lax.log(x)
    if kind(x) != "c":
        return y
    return lax.complex(jnp.where(jnp.isinf(x.real) | jnp.isinf(x.imag), jnp.inf, y.real), y.imag)


def _root(x):
    a, b, y = x.real, x.imag, at_cuts(lax.sqrt)(x)
    real = jnp.where(jnp.isinf(b) | (a == jnp.inf), jnp.inf, y.real)
    imag = jnp.where(jnp.isinf(b), b, jnp.where((a == -jnp.inf) & jnp.isnan(b), jnp.inf, y.imag))
    return lax.complex(real, imag)


# ``sqrt(x)``, also on the sides of its cut.
square_root = on_complex(lax.sqrt, _root, lambda x, y, dot: lax.div(dot, 2 * y))


def _boxed(x, far):
    """The corner of a square that an infinite number lies at; 0 for parts that are NaN beside ``far`` ones."""
    inside = [jnp.where(jnp.isnan(p) & far, jnp.copysign(0, p), p) for p in (x.real, x.imag)]
    own = jnp.isinf(x.real) | jnp.isinf(x.imag)
    return [jnp.where(own, jnp.copysign(jnp.where(jnp.isinf(p), 1.0, 0.0), p).astype(p.dtype), p) for p in inside]


def _product(x, y):
    """``x * y``, an infinite one where a factor is, though both parts be NaN."""
    parts = x.real * y.real, x.imag * y.imag, x.real * y.imag, x.imag * y.real
    plain = parts[0] - parts[1], parts[2] + parts[3]
    far = jnp.isinf(x.real) | jnp.isinf(x.imag) | jnp.isinf(y.real) | jnp.isinf(y.imag)
    (a, b), (c, d) = _boxed(x, far), _boxed(y, far)
    again = jnp.isnan(plain[0]) & jnp.isnan(plain[1]) & far
    ends = jnp.inf * (a * c - b * d), jnp.inf * (a * d + b * c)
    return lax.complex(*[jnp.where(again, end, p) for end, p in zip(ends, plain, strict=True)])


def power(base, exponent):
    """``base ** exponent``: ``exp(exponent * log(base))`` where XLA's own is not finite."""
    plain = lax.pow(base, exponent)
    usual = finite(base) & finite(exponent) & finite(plain) & (base != 0)
    return jnp.where(usual, plain, exponential(_product(exponent, logarithm(base))))


def power_of_two(x):
    """``2 ** x``."""
    return exponential(lax.complex(x.real * math.log(2), x.imag * math.log(2)))


def logistic(x):
    """``1 / (1 + exp(-x))``."""
    return inverse(1 + exponential(-x))


def _unknown_beside(zero, other, y, known):
    """``y`` with the real part ``known`` where a part of the argument is zero and the other one NaN."""
    return lax.complex(jnp.where((zero == 0) & jnp.isnan(other), known, y.real), y.imag)


def asin(x):
    """The arc sine."""
    return _unknown_beside(x.real, x.imag, at_cuts(lax.asin)(x), x.real)


def acos(x):
    """The arc cosine."""
    return _unknown_beside(x.real, x.imag, at_cuts(lax.acos)(x), math.pi / 2)


def acosh(x):
    """The inverse hyperbolic cosine."""
    y = at_cuts(lax.acosh)(x)
    return lax.complex(y.real, jnp.where((x.real == 0) & jnp.isnan(x.imag), math.pi / 2, y.imag))


def asinh(x):
    """The inverse hyperbolic sine; on the cut the zero's sign decides."""
    y = lax.asinh(x)
    imag = jnp.where((x.imag == 0) & jnp.isnan(x.real), x.imag, y.imag)
    return lax.complex(jnp.copysign(y.real, x.real), imag)


def atanh(x):
    """The inverse hyperbolic tangent."""
    real, imag = x.real, x.imag
    y = lax.atanh(x)
    inside = lax.abs(real) < 1
    turn = jnp.where((imag == 0) & inside, imag, y.imag)
    size = jnp.where(real == 0, real, y.real)
    lost, far = jnp.isnan(real) | jnp.isnan(imag), jnp.isinf(real) | jnp.isinf(imag)
    half_turn = jnp.copysign(math.pi / 2, imag).astype(imag.dtype)
    turn = jnp.where(lost, jnp.where(jnp.isinf(imag), half_turn, jnp.nan), jnp.where(far, half_turn, turn))
    gone = jnp.where(far, jnp.copysign(jnp.zeros_like(real), real), jnp.where(real == 0, real, jnp.nan))
    return lax.complex(jnp.where(lost, gone, size), turn)


def atan(x):
    """The arc tangent."""
    y = atanh(lax.complex(-x.imag, x.real))
    return lax.complex(y.imag, -y.real)
