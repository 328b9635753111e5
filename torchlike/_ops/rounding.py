"""Rounding and the parts of floating point numbers, element by element."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl.op import op, pointwise
from torchlike._ops import _derivatives
from torchlike._ops._elementwise import demand, kind, unary, widely


def _zero(grad):
    return jnp.zeros_like(grad)


def _rounding(name, f, doc, **options):
    whole = lambda x: x if kind(x) == "i" else f(x)  # noqa: E731
    return unary(name, whole, _zero, dtype="same", kinds="if", out="exact", doc=doc, **options)


def _toward_zero(x):
    return jnp.where(x < 0, lax.ceil(x), lax.floor(x))


floor = _rounding("floor", lax.floor, "The largest integer not above each element.", shows="-1.5 -> -2.")
ceil = _rounding("ceil", lax.ceil, "The smallest integer not below each element.", shows="-1.5 -> -1.")
trunc = _rounding("trunc", _toward_zero, "Each element without its fractional part.", shows="-1.5 -> -1.")
round_ = _rounding(
    "round",
    lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "The nearest integer, the even one of two; ``decimals`` keeps that many digits.",
    shows="2.5 -> 2.",
)
frac = unary(
    "frac",
    lambda x: x - _toward_zero(x),
    lambda grad: grad,
    dtype="same",
    kinds="f",
    out="exact",
    doc="The fractional part of each element, with its sign.",
    shows="-1.5 -> -0.5000",
)


@pointwise(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    out="exact",
    vjp={"self": _zero},
    node="RoundBackward1",
    numbers="",
    runtime="decimals",
)
def round_decimals(self, decimals):
    demand("round", self, "f")

    def rounded(x):
        scale = 10.0 ** jnp.abs(decimals).astype(x.dtype)
        up, down = jnp.where(decimals < 0, x / scale, x * scale), jnp.where(decimals < 0, scale, 1 / scale)
        even = lax.round(up, lax.RoundingMethod.TO_NEAREST_EVEN)
        return jnp.where(decimals < 0, even * down, even / scale)

    return widely(rounded, self)


# -- parts of floating point numbers ---------------------------------------------------------------


def _replaced(x, nan, posinf, neginf):
    most = jnp.finfo(x.dtype)
    high = most.max if posinf is None else posinf.astype(x.dtype)
    low = most.min if neginf is None else neginf.astype(x.dtype)
    ends = jnp.where(x == np.inf, high, jnp.where(x == -np.inf, low, x))  # which may be NaN
    return jnp.where(x != x, 0 if nan is None else nan.astype(x.dtype), ends)


@pointwise(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    out="exact",
    numbers="",
    vjp={"self": lambda grad, self: grad * jnp.isfinite(self).astype(grad.dtype)},
    backward=_derivatives.finite,
)
def nan_to_num(self, nan, posinf, neginf):
    """NaN and infinities replaced: by 0 and the largest numbers of the dtype, or by the numbers given.

    >>> import torchlike as torch
    >>> torch.nan_to_num(torch.tensor([torch.nan, torch.inf, 1.0]), posinf=9.0)
    tensor([0., 9., 1.])
    """
    if kind(self) in "bi":
        return self
    if kind(self) == "c":
        return lax.complex(*(_replaced(x, nan, posinf, neginf) for x in (jnp.real(self), jnp.imag(self))))
    return _replaced(self, nan, posinf, neginf)


@op(
    "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    out="exact",
    strides=True,
    variants="function method out",
    vjp={"self": lambda grad, exponent: grad / lax.exp2(exponent.astype(grad.dtype))},
)
def frexp(self):
    """Mantissas in [0.5, 1) and integer exponents with ``input = mantissa * 2 ** exponent``."""
    if kind(self) != "f":
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {self.dtype}")
    mantissa, exponent = jnp.frexp(self)
    return mantissa, exponent.astype(np.int32)
