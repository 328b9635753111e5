"""Arithmetic on tensors and numbers."""

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl import rules
from torchlike._decl.op import op, pointwise
from torchlike._decl.words import aten
from torchlike._ops import _derivatives, _vector_math
from torchlike._ops._complex import inverse, product, quotient
from torchlike._ops._elementwise import (
    broadcast,
    conj,
    demand,
    demand_factor,
    fused,
    is_reduced,
    kind,
    no_derivative,
    once,
    round_to,
    widely,
)


def _number_last(self, other):
    """The operands as PyTorch has them: a number on the left has changed places."""
    return (1, 0) if self.weak_type else (0, 1)


def _plus(name, self, other, alpha, combine):
    self, other = broadcast(name, self, other)
    if isinstance(alpha, int):  # the default, 1; a given alpha is a traced value
        return combine(self, once(other))
    demand_factor(name, self, alpha)
    alpha = alpha.astype(self.dtype)  # short, as in PyTorch, where the arrays are
    if not jnp.issubdtype(self.dtype, np.floating):
        return combine(self, other * alpha)
    alpha = round_to(alpha.astype(np.float32), self.dtype) if is_reduced(self) else alpha
    return widely(lambda a, b: fused(a, b, alpha if combine is lax.add else -alpha), self, other)


@pointwise(
    "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    aten={"out": "out"},
    dtype="promote",
    operator="+",
    held="alpha",
    saved="alpha",
    edges=_number_last,
)
def add(self, other, alpha):
    """Elementwise ``input + alpha * other``; shapes broadcast, dtypes promote.

    RuntimeError if ``alpha`` is floating (or complex) and the result is not.

    >>> import torchlike as torch
    >>> torch.add(torch.tensor([1, 2]), torch.tensor([10, 20]), alpha=3)
    tensor([31, 62])
    """
    if self.dtype == np.bool_:
        demand_factor("add", self, alpha)
        self, other = broadcast("add", self, other)
        return self | (other & jnp.asarray(alpha).astype(np.bool_))
    return _plus("add", self, other, alpha, lax.add)


@pointwise(
    "_add_relu.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    aten={"own": False, "out": "out"},
    dtype="promote",
    held="alpha",
    numbers="other",
    variants="function out",
    vjp={"self, other": no_derivative("_add_relu")},
)
def add_relu(self, other, alpha):
    """Elementwise ``relu(input + alpha * other)``, which stays NaN for NaN; it has no derivative.

    RuntimeError for bool, unsigned, 16-bit floating and complex tensors.

    >>> import torchlike as torch
    >>> torch._add_relu(torch.tensor([1.0, -3.0]), 2)
    tensor([3., 0.])
    """
    if self.dtype.kind not in "if" or self.dtype.itemsize < 4 and self.dtype.kind == "f" or is_reduced(self):
        raise RuntimeError(f"Unsupported datatype for _add_relu: {self.dtype}; use relu(input + other)")
    return jnp.maximum(_plus("_add_relu", self, other, alpha, lax.add), 0)


def _without_bools(self, other):
    """The operands of a subtraction in their common dtype."""
    if self.dtype == np.bool_ or other.dtype == np.bool_:
        both = "two bool tensors" if self.dtype == other.dtype else "a bool tensor"
        raise RuntimeError(
            f"Subtraction, the `-` operator, with {both} is not supported. Use `^` or logical_xor() for the "
            "difference of two masks, `~` or logical_not() to invert one."
        )
    bound = {"self": self, "other": other}
    rules.promote(bound, ("self", "other"), dict(bound))
    return bound["self"], bound["other"]


@pointwise(
    "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    aten={"out": "out"},
    operator="-",
    held="alpha",
    saved="alpha",
    backward=_derivatives.DIFFERENCE,
)
def sub(self, other, alpha):
    """Elementwise ``input - alpha * other``; shapes broadcast, dtypes promote.

    RuntimeError if either is a bool tensor.

    >>> import torchlike as torch
    >>> torch.sub(torch.tensor([5, 6]), 1)
    tensor([4, 5])
    """
    return _plus("sub", *_without_bools(self, other), alpha, lax.sub)


def _rsub(self, other, alpha):
    self, other = _without_bools(self, other)
    return _plus("rsub", other, self, alpha, lax.sub)


rsub = op(
    "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    strides=True,
    variants="function",
    held="alpha",
    saved="alpha",
    backward=_derivatives.DIFFERENCE_TURNED,
)(_rsub)
rsub_scalar = op(
    "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
    strides=True,
    node="RsubBackward1",
    held="alpha",
    saved="alpha",
    variants="function",
    backward=_derivatives.DIFFERENCE_TURNED,
)(_rsub)


def _by(name, f, policy, self, other):
    """``f(self, other)`` in the promoted dtype; a lone ``other`` meets 16-bit floats in float32."""
    bound = {"self": self, "other": other}
    policy(bound, ("self", "other"), dict(bound))
    dtype = bound["self"].dtype
    if is_reduced(bound["self"]) and not other.ndim:
        return f(*broadcast(name, self.astype(np.float32), other.astype(np.float32))).astype(dtype)
    return f(*broadcast(name, *bound.values()))


def _product(a, b):
    return a & b if a.dtype == np.bool_ else product(a, b)


def _factors(self, other):
    return {"self": "other", "other": "self"} if self.weak_type else "self other"


def _times(grad, other):
    """``grad * other``, where a number is not rounded to 16 bits first."""
    factors = jnp.broadcast_arrays(grad, other)
    return widely(lax.mul, *factors) if is_reduced(grad) else product(*factors)


@pointwise("mul.Tensor(Tensor self, Tensor other) -> Tensor",
    aten={"out": "out"}, operator="*", saved=_factors, edges=_number_last,
           jvp="kernel", vjp={"other": lambda grad, self: _times(grad, conj(self)),
                              "self": lambda grad, other: _times(grad, conj(other))})  # fmt: skip
def mul(self, other):
    """Elementwise product; shapes broadcast, dtypes promote.

    >>> import torchlike as torch
    >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
    tensor([3., 6.])
    """
    if self.weak_type:
        self, other = other, self
    return _by("mul", _product, rules.promote, self, other)


def _over(grad, other):
    return widely(lax.div, *jnp.broadcast_arrays(grad, other)) if is_reduced(grad) else grad / other


def _div_other(grad, self, other):
    slope = conj((self / other) / other)
    return -grad * slope


@pointwise(
    "div.Tensor(Tensor self, Tensor other) -> Tensor",
    aten={"out": "out"},
    operator="/",
    vjp={"other": _div_other, "self": lambda grad, other: _over(grad, conj(other))},
)
def div(self, other):
    """Elementwise quotient; integers divide as floats. ``rounding_mode`` may be None, "trunc" or "floor".

    >>> import torchlike as torch
    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    return _by("div", quotient, rules.int_to_float, self, other)


@op(
    "_rdiv(Scalar self, Tensor other) -> Tensor",
    aten={"calls": lambda aten, self, other: aten["mul.Tensor"](aten.reciprocal(other), self)},
    strides=True,
    variants="",
    node="MulBackward",
    saved={"other": "self", "~other": "other"},
    vjp={"other": _div_other},
    autocast={"cuda": "fp32"},
)
def over(self, other):
    """``number / tensor`` as PyTorch computes it: the number times the reciprocals."""
    bound = {"self": self, "other": other}
    rules.int_to_float(bound, ("self", "other"), dict(bound))
    number, x = bound.values()
    if kind(x) == "c" and kind(other) != "c":
        return number * lax.complex(1 / x.real, jnp.zeros_like(x.real))
    if is_reduced(x):
        return (self.astype(np.float32) * round_to(1 / x.astype(np.float32), x.dtype)).astype(x.dtype)
    return number * inverse(x)


def modulo(a, b):
    """The remainder with the sign of the divisor: ``a - b * floor(a / b)`` without its rounding."""
    a, b = jnp.broadcast_arrays(a, b)
    r = _vector_math.rem(a, b)
    wrong = (r != 0) & ((r < 0) != (b < 0))
    return jnp.where(wrong, r + b, r)


def floor_quotient(a, b):
    """``floor(a / b)``; floats as Python does it, from the exact remainder."""
    a, b = jnp.broadcast_arrays(a, b)
    if kind(a) != "f":
        q = lax.div(a, b)
        off = (lax.rem(a, b) != 0) & ((a < 0) != (b < 0))
        return jnp.where(off, q - 1, q)
    r = _vector_math.rem(a, b)
    q = (a - r) / b
    q = jnp.where((r != 0) & ((b < 0) != (r < 0)), q - 1, q)
    floor = lax.floor(q)
    floor = jnp.where(q - floor > 0.5, floor + 1, floor)
    ratio = a / b
    floor = jnp.where(q != 0, floor, jnp.copysign(jnp.zeros_like(q), ratio))
    return jnp.where(b == 0, ratio, floor)


def _integer_zero(self, other, rounding_mode="floor"):
    """PyTorch raises on an integer division by zero; floats give inf and NaN."""
    if rounding_mode is None or not (kind(self) in "bi" and kind(other) in "bi"):
        return None, None
    dtype = rules.common_dtype((self, other)).np  # in which a number may be 0 that is none
    return jnp.any(other.astype(dtype) == 0), RuntimeError(
        "ZeroDivisionError: integer division or modulo by zero; use floats for inf"
    )


def _rounded(name, self, other, rounding_mode):
    """The quotient rounded down or towards zero, in the promoted dtype."""

    def down(a, b):
        demand(name, a, "if")
        return widely(floor_quotient, a, b)

    def to_zero(a, b):
        demand(name, a, "if")
        if kind(a) == "i":
            return lax.div(a, b)
        return widely(lambda x, y: _trunc(round_to(x / y, a.dtype)), a, b)

    if rounding_mode == "floor":
        return _by(name, down, rules.promote, self, other)
    bound = {"self": self, "other": other}
    rules.promote(bound, ("self", "other"), dict(bound))
    return to_zero(*broadcast(name, *bound.values()))


def _trunc(x):
    return jnp.where(x < 0, lax.ceil(x), lax.floor(x))


@pointwise(
    "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
    aten={"out": "out_mode"},
    node="DivBackward2",
    check=_integer_zero,
    vjp={
        "self": lambda grad, other, rounding_mode: (
            grad / conj(other) if rounding_mode is None else aten.zeros_like(grad)
        ),
        "other": lambda grad, self, other, rounding_mode: (
            -grad * conj((self / other) / other) if rounding_mode is None else aten.zeros_like(grad)
        ),
    },
)
def div_mode(self, other, rounding_mode):
    if rounding_mode not in (None, "trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    if rounding_mode is None:
        bound = {"self": self, "other": other}
        rules.int_to_float(bound, ("self", "other"), dict(bound))
        return lax.div(*broadcast("div", *bound.values()))
    return _rounded("div", self, other, rounding_mode)


@pointwise(
    "floor_divide(Tensor self, Tensor other) -> Tensor",
    aten={"inplace": "Tensor"},
    operator="//",
    check=_integer_zero,
    vjp={"self, other": no_derivative("floor_divide")},
)
def floor_divide(self, other):
    """``floor(input / other)``; RuntimeError where an integer is divided by zero.

    >>> import torchlike as torch
    >>> torch.floor_divide(torch.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return _rounded("floor_divide", self, other, "floor")


def _remainder(self, other):
    """The remainder of division with the sign of ``other``; RuntimeError for an integer zero.

    >>> import torchlike as torch
    >>> torch.remainder(torch.tensor([5, -5]), 3)
    tensor([2, 1])
    """
    self, other = broadcast("remainder", self, other)
    demand("remainder", self, "if")
    return widely(modulo, self, other)


def _fmod(self, other):
    """The remainder of division with the sign of ``input``; RuntimeError for an integer zero.

    >>> import torchlike as torch
    >>> torch.fmod(torch.tensor([5, -5]), 3)
    tensor([ 2, -2])
    """
    self, other = broadcast("fmod", self, other)
    demand("fmod", self, "if")
    return widely(_vector_math.rem, self, other)


def _pass(grad):
    return grad


remainder = pointwise(
    "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
    dtype="promote",
    numbers="",
    check=_integer_zero,
    node="RemainderBackward1",
    vjp={
        "self": _pass,
        "other": lambda grad, self, other: -grad * lax.stop_gradient(floor_quotient(self, other)),
    },
    backward=_derivatives.quotient("floor"),
)(_remainder)
remainder_scalar = pointwise(
    "remainder.Scalar(Tensor self, Scalar other) -> Tensor",
    dtype="promote",
    policy="self other",
    numbers="",
    check=_integer_zero,
    vjp={"self": _pass},
)(_remainder)
remainder_from = op(
    "remainder.Scalar_Tensor(Scalar self, Tensor other) -> Tensor",
    dtype="promote",
    policy="self other",
    variants="function",
    check=_integer_zero,
    strides=True,
    vjp={"other": no_derivative("remainder")},
)(_remainder)
fmod = pointwise(
    "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
    dtype="promote",
    numbers="",
    check=_integer_zero,
    node="FmodBackward1",
    vjp={
        "self": _pass,
        "other": lambda grad, self, other: -grad * lax.stop_gradient(_trunc(self / other)),
    },
    backward=_derivatives.quotient("trunc"),
)(_fmod)
fmod_scalar = pointwise(
    "fmod.Scalar(Tensor self, Scalar other) -> Tensor",
    dtype="promote",
    policy="self other",
    numbers="",
    check=_integer_zero,
    vjp={"self": _pass},
)(_fmod)
