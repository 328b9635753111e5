"""Special functions: error functions, gammas, Bessel functions and their like."""

import functools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl import rules
from torchlike._decl.op import op, pointwise
from torchlike._decl.words import aten
from torchlike._ops import _derivatives, _incomplete_gamma
from torchlike._ops._elementwise import (
    broadcast,
    demand,
    in_64_bits,
    is_reduced,
    precise_log1p,
    round_to,
    unary,
    widely,
)

_SQRT_PI = math.sqrt(math.pi)


def _special(name, f, vjp=None, doc=None, **options):
    """A function of ``torch.special`` alone: no method, no name in ``torch`` itself."""
    return unary("special_" + name, f, vjp, variants="out", kinds="bif", doc=doc, **options)


# -- error functions -------------------------------------------------------------------------------


def bounded_erf(x):
    """The error function within -1 and 1, beyond which XLA's goes by a last digit: ``log(1 - erf(x))`` was NaN."""
    return jnp.clip(lax.erf(x), -1, 1)


erf = unary(
    "erf",
    bounded_erf,
    lambda grad, self: (2 / _SQRT_PI) * lax.exp(-aten["pow.Tensor_Scalar"](self, 2)) * grad,
    kinds="bif",
    doc="The error function.",
    shows="0.5 -> 0.5205",
)


@functools.cache
def _weideman(n):
    """(L, coefficients from the highest) of Weideman's rational expansion of the Faddeeva function with n terms.

    SIAM J. Numer. Anal. 31 (1994), 1497: w(z) = 2 p(Z) / (L - iz)^2 + 1 / (sqrt(pi) (L - iz)), Z = (L + iz) / (L - iz).
    """
    length = math.sqrt(n / math.sqrt(2))
    t = length * np.tan(np.arange(1 - 2 * n, 2 * n) * math.pi / (4 * n))
    samples = np.concatenate([[0], np.exp(-t * t) * (length**2 + t * t)])
    return length, np.fft.fft(np.fft.fftshift(samples)).real[n:0:-1] / (4 * n)


_TERMS = {np.dtype(np.float32): 16, np.dtype(np.float64): 40}  # to four units in the last place


def _scaled_tail(x):
    """``exp(x ** 2) * erfc(x)`` of numbers that are not negative."""
    length, coefficients = _weideman(_TERMS[x.dtype])
    r = 1 / (length + x)
    z, p = 2 * length * r - 1, jnp.zeros_like(x)
    for c in coefficients.tolist():
        p = p * z + c
    return (2 * p * r + 1 / _SQRT_PI) * r


def _exp_square(x, sign):
    """``exp(sign * x ** 2)``; the square is exact, as its rounding error would be one of the exponential.

    XLA makes one exponential of a product of two, but not of this.
    """
    x = jnp.minimum(lax.abs(x), 40)
    bits = jnp.finfo(x.dtype)
    high = lax.reduce_precision(x, bits.nexp, (bits.nmant - 1) // 2)
    return lax.exp(sign * high * high) * (1 + lax.expm1(sign * (x - high) * (x + high)))


@jax.custom_jvp
def precise_erfc(x):
    """The complementary error function; XLA's of 32 bits is wrong by 60 units in the last place at 9."""
    if x.dtype != np.float32:
        return lax.erfc(x)
    tail = _exp_square(x, -1) * _scaled_tail(lax.abs(x))
    return jnp.where(lax.abs(x) < 0.5, lax.erfc(x), jnp.where(x < 0, 2 - tail, tail))


@precise_erfc.defjvp
def _erfc_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return precise_erfc(x), t * (-2 / _SQRT_PI) * lax.exp(-x * x)


erfc = unary(
    "erfc",
    precise_erfc,
    lambda grad, self: grad * (-2 / _SQRT_PI) * lax.exp(-self * self),
    backward=_derivatives.erfc,
    kinds="bif",
    doc="The complementary error function, ``1 - erf(input)``.",
    shows="0.5 -> 0.4795",
)


def precise_erf_inv(x):
    """The inverse error function; that of 32 bits is wrong by 100 units in the last place towards 1 and -1."""
    return in_64_bits(lax.erf_inv, x)


erfinv = unary(
    "erfinv",
    precise_erf_inv,
    lambda grad, self: grad * (_SQRT_PI / 2) * lax.exp(lax.square(precise_erf_inv(self))),
    backward=_derivatives.erfinv,
    kinds="bif",
    doc="The inverse of the error function.",
    shows="0.5 -> 0.4769",
    autocast={"cuda": "fp32"},
)


def _logit_grad(grad, self, eps):
    slope = grad / (self * (1 - self))
    if eps is None:
        return jnp.where((self < 0) | (self > 1), np.nan, slope)
    return jnp.where((self >= eps) & (self <= 1 - eps), slope, 0)


@pointwise(
    "logit(Tensor self, float? eps=None) -> Tensor",
    held="eps:floats",
    dtype="int_to_float",
    numbers="",
    vjp={"self": _logit_grad},
    backward="logit_backward(Tensor grad_output, Tensor self, float? eps=None) -> Tensor",
)
def logit(self, eps):
    """``log(p / (1 - p))``; with ``eps`` the input is first limited to ``[eps, 1 - eps]``."""
    demand("logit", self, "f")

    def stepwise(x):  # PyTorch rounds after each of the steps
        return round_to(x, self.dtype) if is_reduced(self) else x

    def odds(p):
        if eps is not None:
            low = stepwise(eps.astype(p.dtype))
            high = stepwise((1 - (low if is_reduced(self) else eps)).astype(p.dtype))
            p = jnp.where(p < low, low, jnp.where(p > high, high, p))  # ``eps`` may be above one half
        return lax.log(stepwise(p / stepwise(1 - p)))

    return widely(odds, self)


# -- gamma functions -------------------------------------------------------------------------------


@jax.custom_jvp
def hurwitz(s, q):
    """The sum over n >= 0 of ``(q + n) ** -s``; from the left of 0 to 1 terms, which cancel, are added one by one."""
    s, q = jnp.broadcast_arrays(s, q)
    first = q
    pole = (q <= 0) & (lax.floor(q) == q)
    defined = (q > 0) | (lax.floor(s) == s)

    def step(state):
        total, q = state
        left = (first < 0) & (q < 1)
        return total + jnp.where(left, lax.pow(q, -s), 0), q + left.astype(q.dtype)

    start = jnp.zeros_like(q), jnp.where(pole | ~defined, 1, q)
    total, right = lax.while_loop(lambda state: jnp.any((first < 0) & (state[1] < 1)), step, start)
    value = total + _zeta_right(s, right)
    value = jnp.where(pole, np.inf, jnp.where(defined, value, np.nan))
    value = jnp.where((s == np.inf) & (q <= 1), jnp.where(q == 1, 1, np.inf), value)
    return jnp.where(s == 1, np.inf, jnp.where(s < 1, np.nan, value))


def _zeta_right(s, q):
    """Of positive ``q``: the first term alone where no other counts, the integral where no single term does."""
    many, late = s > 1e3, q > 1 / jnp.finfo(q.dtype).eps
    value = jnp.where(many, lax.pow(q, -s), lax.zeta(jnp.where(many, 2, s), jnp.where(late, 1, q)))
    value = jnp.where(late & ~many, lax.pow(q, 1 - s) / (s - 1), value)
    return jnp.where((s == np.inf) | (q == np.inf), np.nan, value)


@hurwitz.defjvp
def _hurwitz_jvp(primals, tangents):
    (s, q), (_, dq) = primals, tangents
    return hurwitz(s, q), -s * hurwitz(s + 1, q) * dq


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def polygamma_value(n, x):
    """The ``n``-th derivative of digamma (``n`` a Python int)."""
    if n == 0:
        poles = jnp.where(x == 0, lax.div(jnp.full_like(x, -1), x), np.nan)  # -inf at 0, +inf at -0
        return jnp.where((x <= 0) & (lax.floor(x) == x), poles, lax.digamma(x))
    if n == 1:
        small = x < 0.5
        y = hurwitz(jnp.full_like(x, 2), jnp.where(small, 1 - x, x))
        y = jnp.where(x == np.inf, 0, y)
        return jnp.where(small, lax.square(math.pi / lax.sin(math.pi * x)) - y, y)
    return (-1.0) ** (n + 1) * math.factorial(n) * hurwitz(jnp.full_like(x, n + 1), x)


@polygamma_value.defjvp
def _polygamma_jvp(n, primals, tangents):
    return polygamma_value(n, *primals), polygamma_value(n + 1, *primals) * tangents[0]


def _digamma(x):
    return polygamma_value(0, x)


def precise_lgamma(x):
    """The logarithm of the gamma function; that of 32 bits loses the digits of its small values near 1 and 2."""
    value = in_64_bits(lax.lgamma, x)
    zero = (x == 1) | (x == 2)  # where XLA's is 1e-15; subtracted, so that the derivative stays
    return value - lax.stop_gradient(jnp.where(zero, value, 0))


lgamma = unary(
    "lgamma",
    precise_lgamma,
    lambda grad, self: grad * _digamma(self),
    backward=_derivatives.lgamma,
    kinds="bif",
    doc="The logarithm of the absolute value of the gamma function.",
    shows="4.0 -> 1.7918",
)
digamma = unary(
    "digamma",
    _digamma,
    lambda grad, self: grad * widely(lambda x: polygamma_value(1, x), self),
    backward=_derivatives.digamma,
    kinds="bif",
    doc="The derivative of ``lgamma``.",
    shows="2.0 -> 0.4228",
)


@op(
    "polygamma(int n, Tensor self) -> Tensor",
    dtype="int_to_float",
    variants="function inplace out",
    node="PolygammaBackward PolygammaBackward1",
    strides=True,
    vjp={"self": lambda grad, self, n: grad * polygamma_value(n + 1, self)},
    backward=_derivatives.polygamma,
)
def polygamma(n, self):
    """The ``n``-th derivative of ``digamma``. RuntimeError for a negative ``n``."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n. It got {n}")
    demand("polygamma", self, "f")
    return widely(lambda x: polygamma_value(n, x), self)


def _shifts(p):
    return [(1 - i) / 2 for i in range(1, p + 1)]


def _mvlgamma(x, p):
    total = p * (p - 1) / 4 * math.log(math.pi)
    for shift in _shifts(p):
        total = total + precise_lgamma(x + shift)
    return total


def _mvlgamma_grad(grad, self, p):
    slope = _digamma(jnp.where(self == 0, self - lax.stop_gradient(self), self))  # -0 is 0 here
    for shift in _shifts(p)[1:]:
        slope = slope + _digamma(self + shift)
    return grad * slope


@pointwise("mvlgamma(Tensor self, int p) -> Tensor", dtype="int_to_float but bool", numbers="",
           vjp={"self": _mvlgamma_grad})  # fmt: skip
def mvlgamma(self, p):
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    demand("mvlgamma", self, "f")
    if p < 1:
        raise RuntimeError(f"p has to be greater than or equal to 1, but got {p} (mvlgamma)")
    return widely(lambda x: _mvlgamma(x, p), self)


def _density(grad, self, other):
    return grad * lax.exp((self - 1) * lax.log(other) - other - lax.lgamma(self))


def _no_derivative(what):
    return rules.undefined(NotImplementedError(f"the derivative for '{what}' is not implemented."))


def _at_edges(value, a, x, low, high):
    """PyTorch's values at orders 0, inf and NaN: ``low`` is that at x = 0, ``high`` that at x = inf."""
    value = jnp.where(((a == 0) & (x > 0)) | ((a != a) & (x == np.inf)), high, value)
    value = jnp.where((a != a) & (x == 0), low, value)
    return jnp.where((a == np.inf) & ~(x < 0), jnp.where(x == np.inf, np.nan, low), value)


def _incomplete(name, f, sign, doc):
    low, high = (0, 1) if sign > 0 else (1, 0)  # in 32 bits small values of the upper one keep two digits

    def kernel(self, other):
        self, other = broadcast(name, self, other)
        demand(name, self, "f")
        return widely(lambda a, x: _at_edges(in_64_bits(f, a, x), a, x, low, high), self, other)

    kernel.__doc__ = doc
    return pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        dtype="promote",
        numbers="",
        vjp={
            "self": _no_derivative(f"{name}: input"),
            "other": lambda grad, self, other: sign * _density(grad, self, other),
        },
    )(kernel)


igamma = _incomplete(
    "igamma", _incomplete_gamma.igamma, 1, "The lower incomplete gamma function of order ``input``, normalised."
)
igammac = _incomplete(
    "igammac", _incomplete_gamma.igammac, -1, "The upper incomplete gamma function of order ``input``, normalised."
)


def _zeta(self, other):
    """The Hurwitz zeta function: the sum over n >= 0 of ``(n + other) ** -input``."""
    self, other = broadcast("zeta", self, other)
    demand("zeta", self, "f")
    return widely(hurwitz, self, other)


_ZETA_GRADS = {
    "self": _no_derivative("zeta"),
    "other": lambda grad, self, other: grad * -self * hurwitz(self + 1, other),
}
_ZETA_GRAD = {"other": _ZETA_GRADS["other"]}
zeta = op(
    "special_zeta(Tensor self, Tensor other) -> Tensor",
    dtype="int_to_float",
    variants="out",
    strides=True,
    vjp=_ZETA_GRADS,
)(_zeta)
zeta_self = op(
    "special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor",
    dtype="int_to_float",
    variants="out",
    policy="self other",
    strides=True,
    vjp=_ZETA_GRAD,
)(_zeta)
zeta_other = op(
    "special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor",
    dtype="int_to_float",
    variants="out",
    policy="self other",
    strides=True,
    vjp={"self": _no_derivative("zeta")},
)(_zeta)

# -- Bessel functions ------------------------------------------------------------------------------


def _smooth(x, slope):
    """A slope that holds ``i1(x) / x``; its limit 1/2 near 0 (PyTorch's value for NaN too)."""
    proper = lax.abs(x) > jnp.finfo(x.dtype).eps
    return jnp.where(proper, slope(jnp.where(proper, x, 1)), 0.5)


@jax.custom_jvp
def _i0(x):
    return lax.exp(lax.abs(x)) * lax.bessel_i0e(x)


@jax.custom_jvp
def _i1(x):
    return lax.exp(lax.abs(x)) * lax.bessel_i1e(x)


_i0.defjvps(lambda t, result, x: t * _i1(x))
_i1.defjvps(lambda t, result, x: t * _i1_slope(x, result))


def _i1_slope(x, result):
    return _smooth(x, lambda x: _i0(x) - result / x)


def _i1e_slope(x, result):
    return _smooth(x, lambda x: lax.bessel_i0e(x) - lax.sign(x) * result - result / x)


i0 = unary(
    "i0",
    _i0,
    lambda grad, self: grad * _i1(self),
    backward=_derivatives.i0,
    kinds="bif",
    doc="The modified Bessel function of the first kind, of order 0.",
    shows="0.5 -> 1.0635",
)
i0e = _special(
    "i0e",
    lax.bessel_i0e,
    lambda grad, self, result: grad * (lax.bessel_i1e(self) - lax.sign(self) * result),
    "``exp(-|input|) * i0(input)``.",
    backward=_derivatives.i0e,
    node="SpecialI0EBackward",
    shows="0.5 -> 0.6450",
)
i1 = _special(
    "i1",
    _i1,
    lambda grad, self, result: grad * _i1_slope(self, result),
    "The modified Bessel function of the first kind, of order 1.",
    backward=_derivatives.i1,
    shows="0.5 -> 0.2579",
)
i1e = _special(
    "i1e",
    lax.bessel_i1e,
    lambda grad, self, result: grad * _i1e_slope(self, result),
    "``exp(-|input|) * i1(input)``.",
    backward=_derivatives.i1e,
    node="SpecialI1EBackward",
    shows="0.5 -> 0.1564",
)

# -- entropy, normal distribution --------------------------------------------------------------------


def _entr(x):
    inner = jnp.where(x > 0, -x * lax.log(jnp.where(x > 0, x, 1)), jnp.where(x == 0, 0, -np.inf))
    return jnp.where(x != x, x, inner)


entr = _special(
    "entr",
    _entr,
    lambda grad, self: grad * (-lax.log(self) - 1),
    "``-x * log(x)``, 0 at 0, -inf below.",
    backward=_derivatives.entr,
    shows="0.5 -> 0.3466",
)


def _ndtri_slope(grad, result):
    return grad * math.sqrt(2 * math.pi) * lax.exp(lax.square(result) / 2)


@jax.custom_jvp
def _ndtri(x):
    """With a derivative by its result: that of its steps is NaN at 0 and 1, where this is infinite."""
    return jax.scipy.special.ndtri(x)


@_ndtri.defjvp
def _ndtri_jvp(primals, tangents):
    out = _ndtri(*primals)
    return out, _ndtri_slope(tangents[0], out)


ndtri = _special(
    "ndtri",
    _ndtri,
    _ndtri_slope,
    "The quantile function of the standard normal distribution.",
    backward=_derivatives.ndtri,
    shows="0.5 -> 0.",
    half=False,
)


def _log_ndtr_slope(grad, self, result):
    """By the scaled function in the left tail, where the exponents of the quotient cancel."""
    tail = (self < -1) & (self > -np.inf)
    left = math.sqrt(2 / math.pi) / _scaled_tail(jnp.where(tail, -self, 1) * math.sqrt(0.5))
    return grad * jnp.where(tail, left, lax.exp(-result - lax.square(self) / 2) / math.sqrt(2 * math.pi))


@jax.custom_jvp
def _log_ndtr(x):
    """By the scaled function in the left tail, by the right one's small probability elsewhere."""
    y = lax.abs(x) * math.sqrt(0.5)
    left = lax.log(_scaled_tail(y) / 2) - x / 2 * x
    return jnp.where(x < -1, left, precise_log1p(-precise_erfc(jnp.maximum(x, -1) * math.sqrt(0.5)) / 2))


@_log_ndtr.defjvp
def _log_ndtr_jvp(primals, tangents):
    out = _log_ndtr(*primals)
    return out, _log_ndtr_slope(tangents[0], primals[0], out)


log_ndtr = _special(
    "log_ndtr",
    _log_ndtr,
    _log_ndtr_slope,
    "The logarithm of ``ndtr``, accurate in the tail.",
    node="SpecialLogNdtrBackward",
    shows="0.5 -> -0.3689",
    half=False,
)
ndtr = _special(
    "ndtr",
    lambda x: 0.5 * precise_erfc(-x * math.sqrt(0.5)),
    lambda grad, self: grad / math.sqrt(2 * math.pi) * lax.exp(-lax.square(self) / 2),
    "The distribution function of the standard normal distribution.",
    backward=_derivatives.ndtr,
    node="MulBackward1",
    saved={"other": lambda: 0.5, "~self": "self"},
    shows="0.5 -> 0.6915",
)


def _erfcx_slope(grad, self, result):
    return grad * (2 * self * result - 2 / _SQRT_PI)


@jax.custom_jvp
def _erfcx(x):
    tail = _scaled_tail(lax.abs(x))
    return jnp.where(x < 0, 2 * _exp_square(x, 1) - tail, tail)


@_erfcx.defjvp
def _erfcx_jvp(primals, tangents):
    out = _erfcx(*primals)
    return out, _erfcx_slope(tangents[0], primals[0], out)


erfcx = _special(
    "erfcx",
    _erfcx,
    _erfcx_slope,
    "The scaled complementary error function, ``exp(input ** 2) * erfc(input)``.",
    shows="0.5 -> 0.6157",
)
