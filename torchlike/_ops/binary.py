"""Functions of two tensors, element by element, that are not arithmetic: extrema, angles, logarithms."""

import operator

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl.op import op, pointwise
from torchlike._decl.words import aten
from torchlike._ops import _derivatives, _vector_math
from torchlike._ops._elementwise import (
    broadcast,
    conj,
    demand,
    direction,
    is_reduced,
    kind,
    no_derivative,
    round_to,
    rounded_product,
    scalar_name,
    ties_share,
    wide,
    widely,
)
from torchlike._ops.unary import power_of_two

# -- extrema -------------------------------------------------------------------------------------


def _demand_order(name, x):
    if kind(x) == "c":
        raise RuntimeError(f"{name} not implemented for complex tensors, which have no order; use it on abs()")


def _extreme(name, f, gives_way, wins, doc):
    """maximum or minimum: NaN if either is; equal elements share the gradient. A NaN has the second one's tangent."""

    def kernel(self, other):
        _demand_order(name, self)
        return f(*broadcast(name, self, other))

    kernel.__doc__ = doc
    return pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        dtype="promote",
        numbers="",
        variants="function method out",
        vjp=ties_share(gives_way, wins),
        jvp={
            "self": lambda dot, self, other: jnp.where(self == other, dot / 2, jnp.where(wins(self, other), dot, 0)),
            "other": lambda dot, self, other: jnp.where(self == other, dot / 2, jnp.where(wins(self, other), 0, dot)),
        },
    )(kernel)


maximum = _extreme(
    "maximum", lax.max, operator.lt, operator.gt, "The larger of the elements of two tensors; NaN if either is."
)
minimum = _extreme(
    "minimum", lax.min, operator.gt, operator.lt, "The smaller of the elements of two tensors; NaN if either is."
)


def _extreme_number(name, f, holds, doc, tangents=None):
    """fmax or fmin: a NaN gives way to a number; the first operand wins ties, but not those of fmax forwards."""

    def mine(a, b):
        return holds(a, b) | (b != b) if kind(a) == "f" else holds(a, b)

    def kernel(self, other):
        _demand_order(name, self)
        self, other = broadcast(name, self, other)
        return jnp.where(mine(self, other), self, other)

    kernel.__doc__ = doc
    return pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        dtype="promote",
        numbers="",
        variants="function method out",
        vjp={
            "self": lambda grad, self, other: jnp.where(mine(self, other), grad, 0),
            "other": lambda grad, self, other: jnp.where(mine(self, other), 0, grad),
        },
        jvp=tangents,
        backward=_derivatives.first_of(f"{'ge' if name == 'fmax' else 'le'}.Tensor"),
    )(kernel)


fmax = _extreme_number(
    "fmax",
    None,
    lambda a, b: a >= b,
    "The larger of two elements; a number wins over NaN.",
    {
        "self": lambda dot, self, other: jnp.where((self > other) | (other != other), dot, 0),
        "other": lambda dot, self, other: jnp.where((self > other) | (other != other), 0, dot),
    },
)
fmin = _extreme_number("fmin", None, lambda a, b: a <= b, "The smaller of two elements; a number wins over NaN.")


# -- angles and signs ----------------------------------------------------------------------------


def _over_square(grad, numerator, other):
    square = rounded_product(numerator, numerator) + rounded_product(other, other)
    return grad * numerator * jnp.where(square == 0, 0, 1 / square)


@pointwise(
    "atan2(Tensor self, Tensor other) -> Tensor",
    dtype="int_to_float",
    numbers="",
    vjp={
        "self": lambda grad, self, other: _over_square(grad, other, self),
        "other": lambda grad, self, other: _over_square(-grad, self, other),
    },
    backward={"self, other": _derivatives.atan2},
    autocast={"cuda": "promote"},
)
def atan2(self, other):
    """The angle of the point (``other``, ``input``) in [-pi, pi].

    >>> import torchlike as torch
    >>> torch.atan2(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 0.0]))
    tensor([ 1.5708, -1.5708])
    """
    demand("atan2", self, "f")
    return widely(_vector_math.atan2, *broadcast("atan2", self, other))


def _hypot(a, b):
    a, b = lax.abs(a), lax.abs(b)
    long, short = lax.max(a, b), lax.min(a, b)
    ratio = short / jnp.where(long == 0, 1, long)
    length = long * lax.sqrt(1 + ratio * ratio)
    return jnp.where((a == np.inf) | (b == np.inf), np.inf, length)


@pointwise(
    "hypot(Tensor self, Tensor other) -> Tensor",
    dtype="promote",
    numbers="",
    vjp={
        "other": lambda grad, other, result: grad * other / result,
        "self": lambda grad, self, result: grad * self / result,
    },
)
def hypot(self, other):
    """``sqrt(input ** 2 + other ** 2)`` without overflow on the way."""
    demand("hypot", self, "f")
    return widely(_hypot, *broadcast("hypot", self, other))


def _copysign(self, other):
    """The magnitudes of ``input`` with the signs of ``other``."""
    demand("copysign", self, "f")
    return widely(jnp.copysign, *broadcast("copysign", self, other))


def _copysign_grad(grad, self, result):
    return grad * jnp.where(self == 0, 0, result / self)


copysign = pointwise(
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    aten={"out": "out"},
    dtype="int_to_float",
    numbers="",
    vjp={
        "self": _copysign_grad,
        "other": lambda grad: jnp.zeros_like(grad),
    },
    saved="result! self",
    backward=_derivatives.COPYSIGN,
)(_copysign)
copysign_scalar = pointwise(
    "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
    dtype="int_to_float",
    policy="self other",
    numbers="",
    node="CopysignBackward1",
    vjp={"self": _copysign_grad},
    backward=_derivatives.copysign,
)(_copysign)


@pointwise(
    "nextafter(Tensor self, Tensor other) -> Tensor",
    dtype="promote",
    numbers="",
    vjp={
        "self": lambda grad, self, other: jnp.where(self == other, 0, grad),
        "other": lambda grad: jnp.zeros_like(grad),
    },
    backward=_derivatives.NEXTAFTER,
)
def nextafter(self, other):
    """The next representable number after ``input`` towards ``other``."""
    demand("nextafter", self, "f")
    return lax.nextafter(*broadcast("nextafter", self, other))


@pointwise(
    "heaviside(Tensor self, Tensor values) -> Tensor",
    out="exact",
    numbers="",
    vjp={"self, values": no_derivative("heaviside")},
)
def heaviside(self, values):
    """0 for negative elements, 1 for positive ones, ``values`` at zero."""
    if "c" in kind(self) + kind(values):
        raise RuntimeError("heaviside is not implemented for complex tensors, which have no order.")
    if self.dtype != values.dtype:
        raise RuntimeError(
            "heaviside is not yet implemented for tensors with different dtypes. "
            f"(got {self.dtype}, {values.dtype}; convert one with .to(dtype))"
        )
    self, values = broadcast("heaviside", self, values)
    return jnp.where(self == 0, values, (self > 0).astype(self.dtype))


# -- logarithms ----------------------------------------------------------------------------------

_LOG2 = float(np.log(2.0))


@pointwise(
    "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    aten={"inplace": "", "out": "out"},
    dtype="float_and_exponent",
    numbers="",
    vjp={
        "self": lambda grad, other: grad * conj(aten.exp2(other)),
        "other": lambda grad, result: grad * conj(result) * _LOG2,
    },
    saved="other result!",
)
def ldexp(self, other):
    """``input * 2 ** other``."""
    self, other = broadcast("ldexp", self, other)
    if kind(other) == "i":
        return _scaled_by_integers(self, other.astype(np.int32))  # as wide as C's, which PyTorch calls
    if jnp.iscomplexobj(self) or jnp.iscomplexobj(other):
        return self * power_of_two(other.astype(self.dtype))
    if is_reduced(other) or other.dtype != self.dtype:  # the power is of its dtype, maybe infinite there
        power = round_to(power_of_two(wide(other)), other.dtype) if is_reduced(other) else power_of_two(other)
        return self * power.astype(self.dtype)
    return _scaled(self, other)


def _scaled_by_integers(x, e):
    """``x * 2 ** e`` in three factors, none of which is infinite or 0 where the product is neither."""
    if jnp.iscomplexobj(x):
        return x * power_of_two(e.astype(x.real.dtype))
    wide = x.astype(jnp.promote_types(x.dtype, np.float32))
    info = jnp.finfo(wide.dtype)
    e = jnp.clip(e, info.minexp - info.maxexp - info.nmant, info.maxexp - info.minexp + info.nmant)
    third = e // 3
    for part in (third, third, e - 2 * third):
        wide = wide * power_of_two(part.astype(wide.dtype))
    return wide.astype(x.dtype)


def _scaled(x, e):
    """``x * 2 ** e``, in two factors: XLA takes a power that is subnormal for 0, though the product is not."""
    info = jnp.finfo(x.dtype)
    rest = jnp.where(e <= info.minexp - info.nmant - 1, 0, power_of_two(jnp.minimum(e - info.minexp, 0)))
    return x * rest * power_of_two(jnp.maximum(e, info.minexp))


def _log_sum(a, b, exp, log1p, base):
    """``log(exp(a) + exp(b))`` from the larger one, so that neither overflows."""
    if jnp.iscomplexobj(a):
        swap = jnp.real(a) < jnp.real(b)
        a, b = jnp.where(swap, b, a), jnp.where(swap, a, b)
        same = jnp.isinf(jnp.real(a)) & (a == b)
        return jnp.where(same, a, a + log1p(exp(jnp.where(same, 0, b - a))))
    same = (a == b) & (lax.abs(a) == np.inf)
    gap = -lax.abs(jnp.where(same, 0, a - b))
    return jnp.where(same, a, lax.max(a, b) + log1p(exp(gap)))


def _weight(grad, mine, theirs, exp):
    """The share of ``mine`` in the sum: ``exp(mine) / (exp(mine) + exp(theirs))``."""
    return grad / conj(1 + exp(theirs - mine))


def _log1p2(x):
    return lax.log1p(x) / _LOG2


def _log_of_sum(name, exp, log1p, kinds, doc):
    def kernel(self, other):
        self, other = broadcast(name, self, other)
        demand(name, self, kinds)
        return widely(lambda a, b: _log_sum(a, b, exp, log1p, None), self, other)

    kernel.__doc__ = doc
    return pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        dtype="promote",
        numbers="",
        variants="function method out",
        vjp={
            "other": lambda grad, self, other: _weight(grad, other, self, exp),
            "self": lambda grad, self, other: _weight(grad, self, other, exp),
        },
    )(kernel)


logaddexp = _log_of_sum("logaddexp", lax.exp, lax.log1p, "fc", "``log(exp(input) + exp(other))`` without overflow.")
logaddexp2 = _log_of_sum(
    "logaddexp2", power_of_two, _log1p2, "f", "``log2(2 ** input + 2 ** other)`` without overflow."
)


def _times_log(x, y, log):
    return jnp.where((x == 0) & ~jnp.isnan(y), 0, x * log(jnp.where((x == 0) & ~jnp.isnan(y), 1, y)))


def _times_log_family(name, log, edge, shift, nodes, overloads, variants, doc):
    """``input * log(other)`` with 0 where ``input`` is 0, for tensors and numbers in either place."""

    def kernel(self, other):
        self, other = broadcast(name, self, other)
        demand(f"{name.removeprefix('special_')}_cpu", self, "f")
        return widely(lambda x, y: _times_log(x, y, log), self, other)

    def wrt_self(grad, self, other):
        still = (self == 0) & (other <= edge)
        return jnp.where(still, 0, grad * log(jnp.where(still, 1, other)))

    def wrt_other(grad, self, other):
        return grad * self / (other + shift if shift else other)

    kernel.__doc__ = doc
    types = (("Tensor", "Tensor"), ("Scalar", "Tensor"), ("Tensor", "Scalar"))
    found = []
    for (x, y), node, overload in zip(types, nodes, overloads, strict=True):
        formulas = {n: f for n, f, t in (("self", wrt_self, x), ("other", wrt_other, y)) if t == "Tensor"}
        shown = _derivatives.times_log(name + overload, edge, shift) if (x, y) == types[0] else None
        form = variants if x == "Tensor" else variants.replace("method", "").replace("inplace", "")
        found.append(
            op(
                f"{name}{overload}({x} self, {y} other) -> Tensor",
                aten=name == "xlogy" and {"out": f"Out{overload[1:]}"} or None,
                dtype="int_to_float",
                policy="self other",
                variants=form,
                node=node,
                strides=True,
                vjp=formulas,
                backward=shown,
            )(kernel)
        )
    return found


xlogy, xlogy_self, xlogy_other = _times_log_family(
    "xlogy",
    lax.log,
    0,
    0,
    ("XlogyBackward0", "XlogyBackward1", "XlogyBackward2"),
    (".Tensor", ".Scalar_Self", ".Scalar_Other"),
    "function method inplace out",
    "``input * log(other)``, 0 where ``input`` is 0 and ``other`` is not NaN.",
)
xlog1py, xlog1py_self, xlog1py_other = _times_log_family(
    "special_xlog1py",
    lax.log1p,
    -1,
    1,
    ("SpecialXlog1PyBackward0", "SpecialXlog1PyBackward1", "SpecialXlog1PyBackward2"),
    ("", ".self_scalar", ".other_scalar"),
    "out",
    "``input * log1p(other)``, 0 where ``input`` is 0 and ``other`` is not NaN.",
)


# -- complex numbers from parts --------------------------------------------------------------------


def _demand_parts(name, first, second, names):
    for x in (first, second):
        if x.dtype not in (np.float16, np.float32, np.float64):
            raise RuntimeError(
                "Expected both inputs to be Half, Float or Double tensors but got "
                f"{scalar_name(first)} and {scalar_name(second)} ({name}()); convert them with .to(dtype)"
            )
    if first.dtype != second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_name(first)} but got scalar type {scalar_name(second)} for second "
            f"argument: {name}() takes {names[0]} and {names[1]} of one dtype; convert one with .to(dtype)"
        )
    if first.dtype == np.float16:
        raise NotImplementedError(f"{name}() of float16 makes torch.complex32, which jax lacks; use float32")
    return broadcast(name, first, second)


@op(
    "complex(Tensor real, Tensor imag) -> Tensor",
    out="exact",
    variants="function out",
    strides=True,
    vjp={
        "real": lambda grad: jnp.real(grad),
        "imag": lambda grad: jnp.imag(grad),
    },
    saved="imag? real?",
)
def complex_(real, imag):
    """Complex numbers from their real and imaginary parts, both float32 or both float64.

    >>> import torchlike as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    return lax.complex(*_demand_parts("complex", real, imag, ("real", "imag")))


@op(
    "polar(Tensor abs, Tensor angle) -> Tensor",
    out="exact",
    variants="function out",
    strides=True,
    vjp={
        "abs": lambda grad, result: jnp.real(jnp.conj(grad) * direction(result)),
        "angle": lambda grad, result: jnp.real(jnp.conj(grad) * result * 1j),
    },
    backward=_derivatives.POLAR,
    autocast={"cpu": "fp32"},
)
def polar(abs, angle):
    """Complex numbers from their moduli and angles, both float32 or both float64.

    >>> import torchlike as torch
    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    abs, angle = _demand_parts("polar", abs, angle, ("abs", "angle"))
    return lax.complex(abs * _vector_math.cos(angle), abs * _vector_math.sin(angle))
