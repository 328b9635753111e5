"""Functions of three tensors, element by element: selection, clamping, interpolation."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from torchlike._base import promotion
from torchlike._base.dtypes import from_np
from torchlike._decl.op import op, pointwise
from torchlike._decl.words import aten
from torchlike._ops import _derivatives
from torchlike._ops._complex import quotient
from torchlike._ops._elementwise import broadcast, conj, demand_real, fused, kind, once, scalar_name, wide_dtype, widely


def _mask(condition):
    return condition if condition.dtype == np.bool_ else condition != 0


@op(
    "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    out="exact",
    dtype="promote",
    policy="self other",
    numbers="self other",
    strides=True,
    variants="function out",
    held="self:long other:long",
    vjp={
        "other": lambda grad, condition: aten["where.self"](_mask(condition), aten.scalar_tensor(0, grad), grad),
        "self": lambda grad, condition: aten["where.self"](_mask(condition), grad, aten.scalar_tensor(0, grad)),
    },
)
def where(condition, self, other):
    """``input`` where the condition holds, ``other`` elsewhere; the three shapes broadcast.

    >>> import torchlike as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if condition.dtype not in (np.bool_, np.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{scalar_name(condition)}; compare it with something or convert it with .bool()"
        )
    condition, self, other = broadcast("where", condition, self, other)
    return jnp.where(_mask(condition), self, other)


# -- clamping ------------------------------------------------------------------------------------


def _clamped(name, self, low, high):
    """``self`` between bounds that may be None; a NaN bound or element gives NaN."""
    if kind(self) == "c":
        raise NotImplementedError(f"{name} is not supported for complex types, which have no order")
    if low is None and high is None:
        raise RuntimeError(f"torch.{name}: At least one of 'min' or 'max' must not be None")
    bounds = [b for b in (low, high) if b is not None]
    self, *bounds = broadcast(name, self, *bounds)
    if low is not None:
        self = jnp.where((self < bounds[0]) | (bounds[0] != bounds[0]), bounds[0], self)
    if high is not None:
        self = jnp.where((self > bounds[-1]) | (bounds[-1] != bounds[-1]), bounds[-1], self)
    return self


def _clamp_self(grad, self, min, max):
    zero = aten.scalar_tensor(0.0, grad)
    inside = below = None
    if min is not None:
        inside = self >= min
    if max is not None:
        below = self <= max
    if inside is None or below is None:
        inside = below if inside is None else inside
    else:
        inside = aten.logical_and_(inside, below) if inside.shape == below.shape else inside & below
    return jnp.where(inside, grad, zero)


def _clamp_min(grad, self, min, max):
    taken = self < min
    return jnp.where(taken if max is None else taken & (min < max), grad, 0)


def _clamp_max(grad, self, min, max):
    taken = self > max
    return jnp.where(taken if min is None else taken | (max < min), grad, 0)


def _clamp_self_jvp(dot, self, min, max):
    """Forwards one bound alone wins ties, and where anything is NaN; of two bounds neither does."""
    if max is None:
        return jnp.where(self > min, dot, 0)
    if min is None:
        return jnp.where(self < max, dot, 0)
    return jnp.where((self < min) | (self > max), 0, dot)


def _clamp_min_jvp(dot, self, min, max):
    return jnp.where(self > min, 0, dot) if max is None else _clamp_min(dot, self, min, max)


def _clamp_max_jvp(dot, self, min, max):
    return jnp.where(self < max, 0, dot) if min is None else _clamp_max(dot, self, min, max)


def _refuse_bool(name, self):
    if kind(self) == "b":
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'; convert the input with .to(torch.int64)")


def _clamp(self, min, max):
    """The elements limited to ``[min, max]``; either may be None, both may be tensors or numbers.

    RuntimeError if both are None. At a bound the derivative is 1.

    >>> import torchlike as torch
    >>> torch.clamp(torch.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if (min is None) == (max is None):
        _refuse_bool("clamp", self)
    return _clamped("clamp", self, min, max)


def _clamp_numbers(self, min, max):
    _refuse_bool("clamp", self)
    return _clamp(self, min, max)


clamp = pointwise(
    "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    out="exact",
    dtype="promote",
    numbers="",
    policy="self min max",
    held="min max",
    node="ClampBackward1",
    vjp={"self": _clamp_self},
)(_clamp_numbers)
clamp_tensor = pointwise(
    "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
    dtype="promote",
    numbers="",
    vjp={"self": _clamp_self, "min": _clamp_min, "max": _clamp_max},
    jvp={"self": _clamp_self_jvp, "min": _clamp_min_jvp, "max": _clamp_max_jvp},
    backward=_derivatives.CLAMP,
)(_clamp)


def _bounded(name, doc):
    """The kernels of clamp_min or clamp_max for a tensor and for a number, which refuses bools."""
    if name == "clamp_min":

        def by_tensor(self, min):
            return _clamped(name, self, min, None)

        def by_number(self, min):
            _refuse_bool(name, self)
            return _clamped(name, self, min, None)

    else:

        def by_tensor(self, max):
            return _clamped(name, self, None, max)

        def by_number(self, max):
            _refuse_bool(name, self)
            return _clamped(name, self, None, max)

    by_tensor.__doc__ = by_number.__doc__ = doc
    return by_tensor, by_number


_above, _above_number = _bounded("clamp_min", "The elements, none below ``min`` (a number or a tensor).")
_below, _below_number = _bounded("clamp_max", "The elements, none above ``max`` (a number or a tensor).")
clamp_min = pointwise(
    "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
    dtype="promote",
    numbers="",
    node="ClampMinBackward1",
    backward=_derivatives.CLAMP_MIN,
    vjp={
        "self": lambda grad, self, min: jnp.where(self >= min, grad, 0),
        "min": lambda grad, self, min: jnp.where(self < min, grad, 0),
    },
    jvp={
        "self": lambda dot, self, min: jnp.where(self >= min, dot, 0),
        "min": lambda dot, self, min: jnp.where(self >= min, 0, dot),
    },
)(_above)
clamp_min_scalar = pointwise(
    "clamp_min(Tensor self, Scalar min) -> Tensor",
    out="exact",
    dtype="promote",
    policy="self min",
    held="min",
    numbers="",
    vjp={
        "self": lambda grad, self, min: _clamp_self(grad, self, min, None),
    },
)(_above_number)
clamp_max = pointwise(
    "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
    dtype="promote",
    numbers="",
    node="ClampMaxBackward1",
    backward=_derivatives.CLAMP_MAX,
    vjp={
        "self": lambda grad, self, max: jnp.where(self <= max, grad, 0),
        "max": lambda grad, self, max: jnp.where(self > max, grad, 0),
    },
    jvp={
        "self": lambda dot, self, max: jnp.where(self <= max, dot, 0),
        "max": lambda dot, self, max: jnp.where(self <= max, 0, dot),
    },
)(_below)
clamp_max_scalar = pointwise(
    "clamp_max(Tensor self, Scalar max) -> Tensor",
    out="exact",
    dtype="promote",
    policy="self max",
    held="max",
    numbers="",
    vjp={
        "self": lambda grad, self, max: _clamp_self(grad, self, None, max),
    },
)(_below_number)

# -- interpolation and fused products ---------------------------------------------------------------


def _promoted(*arrays):
    """The arrays in the dtype that PyTorch promotes them to: those without dimensions give way."""
    categories = [promotion.TENSOR if a.ndim else promotion.ZERO_DIM for a in arrays]
    kind = promotion.result_type(zip([from_np(a.dtype) for a in arrays], categories, strict=True)).np
    return [a.astype(kind) for a in arrays]


def _lerp(self, end, weight):
    """``input + weight * (end - input)``; RuntimeError unless the dtypes agree (a 0-dim weight is promoted).

    >>> import torchlike as torch
    >>> torch.lerp(torch.zeros(2), torch.ones(2), 0.25)
    tensor([0.2500, 0.2500])
    """
    for other, what in ((end, "end"), (weight, "weight")):
        if not getattr(other, "weak_type", False) and other.dtype != self.dtype:
            if what == "weight" and not weight.ndim:
                self, end, weight = _promoted(self, end, weight)
                break
            raise RuntimeError(
                f"expected dtype {from_np(self.dtype)} for `{what}` but got dtype {from_np(other.dtype)}; "
                "convert it with .to(dtype)"
            )
    demand_real(self, weight)
    number = getattr(weight, "weak_type", False)  # that PyTorch computes with as it is
    self, end, weight = broadcast("lerp", self, end, weight.astype(wide_dtype(self) if number else self.dtype))
    if kind(self) in "bi":
        raise NotImplementedError(
            f"\"lerp\" not implemented for '{scalar_name(self)}'; it takes floating point tensors"
        )

    def mix(a, b, w):
        # From the nearer end, so that weights 0 and 1 give the ends exactly.
        return jnp.where(jnp.abs(w) < 0.5, fused(a, w, b - a), fused(b, a - b, 1 - w))

    return widely(mix, self, end, weight)


_LERP: dict[str, Any] = {wrt: formula for wrt, (formula, _) in _derivatives.LERP.items()}
lerp_tensor = pointwise(
    "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
    out="exact",
    node="LerpBackward1",
    numbers="",
    vjp=_LERP,
    saved="end self weight!",
    backward=_derivatives.LERP,
)(_lerp)
lerp = pointwise(
    "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    numbers="",
    vjp={"end": _LERP["end"], "self": lambda grad, weight: grad * (1 - conj(weight))},
    held="weight:wide:floats",
)(_lerp)


def _value(value, self):
    """The factor ``value`` of a fused operator in the dtype that computes it; integers drop its fraction."""
    if isinstance(value, int):
        return value
    demand_real(self, value)
    return value.astype(wide_dtype(self))


def _scaled(value, x):
    return once(x) if isinstance(value, int) and value == 1 else value * x


@pointwise(
    "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    dtype="promote",
    held="value:wide:negative",
    numbers="",
    vjp={
        "self": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * conj(tensor2 * value),
        "tensor2": lambda grad, tensor1, value: grad * conj(tensor1 * value),
    },
    autocast={"cuda": "promote"},
)
def addcmul(self, tensor1, tensor2, value):
    """``input + value * tensor1 * tensor2``; the shapes broadcast.

    >>> import torchlike as torch
    >>> torch.addcmul(torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), value=0.5)
    tensor([2.5000, 5.0000])
    """
    if kind(self) == "b":
        raise NotImplementedError("\"addcmul_cpu_out\" not implemented for 'Bool'; convert the tensors to integers")
    value = _value(value, self)
    return widely(lambda a, b, c: fused(a, _scaled(value, b), c), *broadcast("addcmul", self, tensor1, tensor2))


@pointwise(
    "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    dtype="of_quotient",
    held="value:wide",
    numbers="",
    saved="tensor1 tensor2! value",
    backward=_derivatives.ADDCDIV,
    vjp={
        "self": lambda grad: grad,
        "tensor1": lambda grad, tensor2, value: grad * conj(value / tensor2),
        "tensor2": lambda grad, tensor1, tensor2, value: -grad * conj(value * tensor1 / (tensor2 * tensor2)),
    },
    autocast={"cuda": "promote"},
)
def addcdiv(self, tensor1, tensor2, value):
    """``input + value * tensor1 / tensor2``; the shapes broadcast. RuntimeError for integer tensors.

    >>> import torchlike as torch
    >>> torch.addcdiv(torch.ones(2), torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0]), value=2)
    tensor([2., 2.])
    """
    value = _value(value, self)
    return widely(lambda a, b, c: a + quotient(_scaled(value, b), c), *broadcast("addcdiv", self, tensor1, tensor2))
