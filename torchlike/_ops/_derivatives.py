"""What PyTorch composes some derivatives of, call by call, for those who look on; declarations refer to it.

Each function is ``backward=`` of its operator: a formula in words, beside the ``vjp`` that runs where nobody looks.
"""

from math import pi, sqrt

import jax.numpy as jnp
import numpy as np

from torchlike._base.dtypes import from_np
from torchlike._decl.words import aten, later, spelled, unseen
from torchlike._ops._elementwise import conj


def less(number, x):
    """``number - x``."""
    return aten["sub_.Tensor"](aten["fill_.Scalar"](aten.empty_like(x), number), x)


def over(number, x):
    """``number / x``."""
    return aten["div_.Tensor"](aten["fill_.Scalar"](aten.empty_like(x), number), x)


def square(x):
    return aten["pow.Tensor_Scalar"](x, 2)


def without(x, mask):
    """``x`` with 0 where the mask holds."""
    return aten["masked_fill.Scalar"](x, mask, 0)


def _zero(like):
    return aten.scalar_tensor(0, like)


def expand(grad, self_aval):
    return aten.expand(grad, [*self_aval.shape])


expand.whole = "expand"


# -- one tensor ----------------------------------------------------------------------------------------


def asin(grad, self):
    return grad * conj(aten.rsqrt(-self * self + 1))


def acos(grad, self):
    return grad * conj(-aten.rsqrt(-self * self + 1))


def asinh(grad, self):
    return grad * conj(aten.rsqrt(square(self) + 1))


def acosh(grad, self):
    if jnp.iscomplexobj(self):
        return grad * conj(1 / (aten.sqrt(self - 1) * aten.sqrt(self + 1)))
    return grad * aten.rsqrt(self * self - 1)


def atanh(grad, self):
    rest = conj(less(1, square(self)))
    return aten["mul.Scalar"](grad, 1) / rest


def tan(grad, result):
    return grad * conj(square(result) + 1)


def erfc(grad, self):
    return (-2 / sqrt(pi)) * aten.exp(-square(self)) * grad


def erfinv(grad, self):
    return (sqrt(pi) / 2) * aten.exp(square(aten.erfinv(self))) * grad


def lgamma(grad, self):
    return grad * aten.digamma(self)


def digamma(grad, self):
    return grad * aten.polygamma(1, self)


def polygamma(grad, self, n):
    return grad * aten.polygamma(n + 1, self)


def sinc(grad, self):
    turns = self * pi
    squares = self * self * pi
    sine = aten.sin(turns)
    slope = conj((turns * aten.cos(turns) - sine) / squares)
    found = grad * slope
    zero = _zero(grad)
    return aten["where.self"](squares == 0, zero, found)


def i0(grad, self):
    return grad * aten.special_i1(self)


def i0e(grad, self, result):
    signed = aten.sgn(self) * result
    return grad * (aten.special_i1e(self) - signed)


def _inverse_beside_zero(self):
    """Where a number is not tiny, and its inverse there."""
    eps = float(np.finfo(self.dtype).eps)
    large = aten.abs(self) > eps
    return large, aten.reciprocal(aten["where.self"](large, self, aten.scalar_tensor(eps, self)))


def i1(grad, self, result):
    large, inverse = _inverse_beside_zero(self)
    product = result * inverse
    return grad * aten["where.self"](large, aten.i0(self) - product, aten.scalar_tensor(0.5, self))


def i1e(grad, self, result):
    large, inverse = _inverse_beside_zero(self)
    product = result * (aten.sgn(self) + inverse)
    return grad * aten["where.self"](large, aten.special_i0e(self) - product, aten.scalar_tensor(0.5, self))


def entr(grad, self):
    return grad * -(aten.log(self) + 1)


def ndtri(grad, result):
    return grad * (aten.exp(square(result) / 2) * sqrt(2 * pi))


def ndtr(grad, self):
    turned = aten.exp(-square(self * sqrt(0.5))) * (2 / sqrt(pi)) * grad
    return turned * (sqrt(0.5) / 2)


CELU = (
    "elu_backward",
    {"scale": 1, "input_scale": lambda alpha: 1 / alpha, "is_result": False, "self_or_result": "self"},
)
LOG_SIGMOID = (
    "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    {"buffer": lambda self: jnp.exp(-jnp.abs(self))},
)


# -- two tensors ---------------------------------------------------------------------------------------


def atan2(grad, self, other):
    second = other * other
    squares = self * self + second
    inverse = aten.reciprocal(squares)
    inverse = without(inverse, squares == 0)
    return grad * (inverse * other), grad * (inverse * -self)


def first_of(holds):
    """The first operand where it ``holds``, or the other is NaN."""

    def mine(self, other):
        return aten.logical_or_(aten[holds](self, other), aten.isnan(other))

    return {
        "other": (lambda grad, self, other: without(grad, mine(self, other)), {}),
        "self": (lambda grad, self, other: without(grad, aten.logical_not_(mine(self, other))), {}),
    }


def quotient(mode):
    """Of the divisor of a remainder."""

    def other(grad, self, other):
        whole = aten["div.Tensor_mode"](self, other, rounding_mode=mode)
        return -grad * whole

    return {"self": (lambda grad: grad, {}), "other": (other, {})}


def copysign(grad, self, result):
    unit = result / self
    return grad * aten["masked_fill_.Scalar"](unit, self == 0, 0)


COPYSIGN = {
    "other": (lambda grad, other_aval: aten.zeros([*other_aval.shape], grad), {}),
    "self": (copysign, {}),
}


def _moved(grad, self, other):
    there = self != other
    return aten["where.self"](there, grad, _zero(grad))


NEXTAFTER = {"other": (lambda grad, other_aval: aten.zeros([*other_aval.shape], grad), {}), "self": (_moved, {})}


def _of_polar(grad, result):
    grad = conj(grad)
    to_abs = jnp.real(grad * aten.sgn(result))
    return to_abs, jnp.real(grad * aten["mul.Scalar"](result, 1j))


POLAR = {"abs, angle": (_of_polar, {})}


def times_log(name, edge, shift):
    """Of ``self * log(other + shift)``, where ``name`` computes it: of tensors."""

    def to_self(grad, self, other):
        slope = aten[name](grad, other)
        out = other <= edge
        still = aten["bitwise_and.Tensor"](self == 0, out)
        return without(slope, still)

    def to_other(grad, self, other):
        divisor = other + shift if shift else other
        return grad * self / divisor

    return {"other": (to_other, {}), "self": (to_self, {})}


def finite(grad, self):
    inside = aten.abs(self) != np.inf
    return grad * aten["mul.Tensor"](self == self, inside)


def pow_base(grad, self, exponent):
    slope = grad * conj(exponent * aten["pow.Tensor_Tensor"](self, exponent - 1))
    zero = _zero(slope)
    return aten["where.self"](exponent == 0, zero, slope)


def pow_exponent(grad, self, exponent, result):
    positive = (exponent.real if jnp.iscomplexobj(exponent) else exponent) >= 0
    still = jnp.logical_and(self == 0, positive)
    return _unless_still(grad, still, conj(result * aten.log(self)))


def _unless_still(grad, still, slope):
    return grad * aten["where.self"](still, _zero(slope), slope)


def pow_of_number(grad, self, exponent, result):
    if self == 0:
        still = (exponent.real if jnp.iscomplexobj(exponent) else exponent) >= 0
        return _unless_still(grad, still, conj(result * jnp.asarray(-np.inf, result.dtype)))
    number = complex(self) if jnp.iscomplexobj(result) else float(self)
    logarithm = np.log(number) if isinstance(number, complex) or number > 0 else np.nan
    return grad * conj(result * jnp.asarray(logarithm, result.dtype))


def shaped(name, like, *args, **kwargs):
    """A call of an operator that is no declared one, with a result as ``like``."""
    return spelled(name, lambda *_, **__: jnp.zeros(like.shape, like.dtype), *args, **kwargs)


def shaped_each(name, likes, *args):
    """As :func:`shaped`, of several results, of which those are None that have no ``like``."""
    there = [like for like in likes if like is not None]
    got = spelled(name, lambda *_: tuple([jnp.zeros(t.shape, t.dtype) for t in there]), *args)
    found = iter(got if isinstance(got, tuple) else (got,))
    return [None if like is None else next(found) for like in likes]


def _turned(x):
    return aten.clone(aten["transpose.int"](x, x.ndim - 2, x.ndim - 1))


CDIST = {
    "x1": (lambda grad, x1, x2, result, p: shaped("_cdist_backward", x1, grad, x1, x2, p, result), {}),
    "x2": (lambda grad, x1, x2, result, p: _to_second(grad, x1, x2, result, p), {}),
}


def _to_second(grad, x1, x2, result, p):
    grad, result = (_turned(x) for x in (grad, result))
    return shaped("_cdist_backward", x2, grad, x2, x1, p, result)


def pdist(grad, self, result, p):
    return shaped("_pdist_backward", self, grad, self, p, result)


def cross(axis):
    """Of a product along the dimension that ``axis`` tells, in a schema whose shapes broadcast."""
    return {
        "other": (lambda grad, self, dim: aten.linalg_cross(grad, conj(self), dim=axis(grad.shape, dim)), {}),
        "self": (lambda grad, other, dim: aten.linalg_cross(conj(other), grad, dim=axis(grad.shape, dim)), {}),
    }


def _kept(grad, condition):
    zero = _zero(grad)
    return aten["where.self"](condition(), grad, zero)


def _limits(grad, self, min, max, needs):
    if max is None:
        return _kept(grad, lambda: self < min), None
    if min is None:
        return None, _kept(grad, lambda: self > max)
    low = high = None
    zero = _zero(grad)
    if "min" in needs:
        low = aten.logical_and(self < min, min < max)
        low = aten["where.self"](low, grad, zero)
    if "max" in needs:
        high = aten.logical_or(self > max, max < min)
        high = aten["where.self"](high, grad, zero)
    return low, high


def _within(grad, self, min, max):
    if min is None or max is None:
        return _kept(grad, lambda: self >= min if max is None else self <= max)
    zero = _zero(grad)
    above = self >= min
    return aten["where.self"](aten.logical_and(above, self <= max), grad, zero)


CLAMP = {"min, max": (_limits, {}), "self": (_within, {})}
CLAMP_MIN = {
    "min": (lambda grad, self, min: _kept(grad, lambda: self < min), {}),
    "self": (lambda grad, self, min: _kept(grad, lambda: self >= min), {}),
}
CLAMP_MAX = {
    "max": (lambda grad, self, max: _kept(grad, lambda: self > max), {}),
    "self": (lambda grad, self, max: _kept(grad, lambda: self <= max), {}),
}


def times(x, number):
    return x if number == 1 else x * np.conj(number)


DIFFERENCE = {"other": (lambda grad, alpha: times(-grad, alpha), {}), "self": (lambda grad: grad, {})}
DIFFERENCE_TURNED = {"other": (lambda grad: grad, {}), "self": (lambda grad, alpha: times(-grad, alpha), {})}
LERP = {
    "end": (lambda grad, weight: grad * conj(weight), {}),
    "self": (lambda grad, weight: grad * conj(less(1, weight)), {}),
    "weight": (lambda grad, self, end: grad * conj(end - self), {}),
}


def _stacked(grad, count):
    return aten.expand(aten.unsqueeze(grad, 0), [count, *grad.shape])


def _batch_turned(x):
    return aten["transpose.int"](x, 1, 2)


def _to_first_batch(grad, batch2, alpha):
    grads = _stacked(grad, batch2.shape[0])
    return times(aten.bmm(grads, conj(_batch_turned(batch2))), alpha)


ADDBMM = {
    "batch1": (_to_first_batch, {}),
    "batch2": (
        lambda grad, batch1, alpha: times(
            aten.bmm(conj(_batch_turned(batch1)), _stacked(grad, batch1.shape[0])), alpha
        ),
        {},
    ),
    "self": (lambda grad, beta: times(grad, beta), {}),
}

ADDR = {
    "self": (lambda grad, beta: times(grad, beta), {}),
    "vec1": (lambda grad, vec2, alpha: times(aten.mv(grad, conj(vec2)), alpha), {}),
    "vec2": (lambda grad, vec1, alpha: times(aten.mv(aten.t(grad), conj(vec1)), alpha), {}),
}


def _of_divisor(grad, tensor1, tensor2, value):
    squares = tensor2 * tensor2
    ratio = conj(aten["mul.Scalar"](tensor1, value) / squares)
    return -grad * ratio


ADDCDIV = {
    "self": (lambda grad: grad, {}),
    "tensor1": (lambda grad, tensor2, value: grad * conj(over(value, tensor2)), {}),
    "tensor2": (_of_divisor, {}),
}


# -- reductions ------------------------------------------------------------------------------------------


def _prelu(grad, self, weight, needs):
    shape = [1, weight.size][2 - min(self.ndim, 2) :] + [1] * (self.ndim - 2)
    slopes = unseen(lambda w: w.reshape(shape), weight)
    first, second = shaped_each("_prelu_kernel_backward", (grad, grad), grad, self, slopes)
    dims = [i for i, n in enumerate(shape) if n == 1]
    if "weight" not in needs:
        return first, None
    second = aten["sum.dim_IntList"](second, dims, True) if dims else second
    if [*weight.shape] != shape:
        second = later(lambda t: aten.view(t, [*weight.shape]), second)
    return first if "self" in needs else None, second


PRELU = {"self, weight": (_prelu, {})}


def softmin(grad, result, dim):
    return -shaped("_softmax_backward_data", grad, grad, result, dim, from_np(result.dtype))


def nansum(grad, self, dim, keepdim):
    there = aten.logical_not(aten.isnan(self))
    dims = sorted(d % self.ndim for d in dim or ()) if self.ndim and not keepdim else []
    for d in dims:
        grad = aten.unsqueeze(grad, d)
    return aten.expand(grad, [*self.shape]) * there


def spread_mean(grad, shape, count):
    """Of a mean, whose gradient has the reduced dimensions as 1 where it has not fewer."""
    return aten.expand(grad, [*shape]) / count


def running_product(grad, self, result, dim):
    """Before the first 0 by division, at the first 0 by the product of the others, 0 after it."""
    if not self.ndim or not self.size or self.shape[dim] == 1:
        return grad
    plain, self, result = self, conj(self), conj(result)
    weighted = result * grad
    zero = plain == 0
    none = aten.zeros([*self.shape], grad)
    return _after_zeros(grad, self, result, dim, weighted, aten.cumsum(zero, dim), none)


def _after_zeros(grad, self, result, dim, weighted, zeros, none):
    before = zeros == 0
    summed = aten.flip(without(weighted, aten.bitwise_not(before)), [dim])
    summed = aten.flip(aten.cumsum(summed, dim), [dim])
    usual = aten["where.self"](before, summed / self, none)
    since = zeros == 1
    place = spelled("max.dim", lambda x, dim, keep: (x, jnp.argmax(x, dim, keepdims=keep)), since, dim, True)[1]
    first = spelled("scatter_.value", lambda x, *_: x, aten.zeros_like(since), dim, place, 1)
    first = aten.logical_and_(first, since)
    since = spelled("bitwise_and_.Tensor", lambda x, y: x, since, aten.bitwise_not(first))
    rest = aten.cumprod(aten["masked_fill.Scalar"](self, aten.bitwise_not(since), 1), dim)
    mine = without(grad, zeros != 1)
    last = aten.relu_(place - 1)
    last = aten.gather(result, dim, last)
    last = aten["masked_fill_.Scalar"](last, place == 0, 1)
    at_zero = aten["sum.dim_IntList"](rest * mine, [dim], True) * last
    return aten["where.self"](first, at_zero, usual)


def trace(grad, self_aval):
    rows, columns = self_aval.shape
    n = rows * columns
    blank = aten.zeros([n], grad)
    step, stop = columns + 1, min(rows, columns) * (columns + 1)
    long = from_np(np.dtype("int64"))
    at = spelled("arange.start_step", lambda *at, dtype: jnp.arange(*at), 0, stop, step, dtype=long)
    return aten.view(aten["index_fill.int_Tensor"](blank, 0, at, grad), [rows, columns])


def _others(grad, x, dim):
    """The gradient of a product over ``dim``: each element's times the product of the others."""
    n, x = x.shape[dim], conj(x)
    if n == 1 and x.size:
        return grad
    if not x.size:
        return aten.expand(grad, [*x.shape])
    one = aten.ones([1 if d == dim else m for d, m in enumerate(x.shape)], x)
    before = aten.cumprod(aten.cat([one, aten["slice.Tensor"](x, dim, 0, n - 1)], dim), dim)
    turned = aten.flip(aten["slice.Tensor"](x, dim, 1, n), [dim])
    after = aten.flip(aten.cumprod(aten.cat([one, turned], dim), dim), [dim])
    return grad * (before * after)


def product(grad, self):
    if not self.ndim:
        return grad
    return aten.view(_others(grad, aten.view(self, [self.size]), 0), [*self.shape])


def product_along(grad, self, dim, keepdim):
    if not self.ndim:
        return grad
    if not keepdim:
        grad, _ = (aten.unsqueeze(grad, dim) for _ in range(2))  # the result is shown, too
    return _others(grad, self, dim % self.ndim)


# -- places ----------------------------------------------------------------------------------------------


def take(grad, self, index):
    return aten.put(aten.zeros_like(self), index, grad, True)


def masked_select(grad, self, mask_aval, index):
    shape = [*np.broadcast_shapes(self.shape, mask_aval.shape)]
    lead = len(shape) - len(mask_aval.shape)
    own = (0,) * lead + tuple([slice(0, n) for n in mask_aval.shape])

    def given(at):
        return jnp.zeros(np.prod(shape, dtype=int), bool).at[at].set(True).reshape(shape)[own]

    mask = unseen(given, index)
    return aten.masked_scatter(aten.zeros_like(aten.expand(self, shape)), mask, grad)


MASKED_SCATTER = {
    "self": (lambda grad, mask: without(grad, mask), {}),
    "source": (
        "masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
        {"sizes": lambda source_aval: list(source_aval.shape)},
    ),
}


def _put(grad, index, source_aval, accumulate):
    if accumulate:
        return grad
    return aten.put(grad, index, aten.zeros([*source_aval.shape], grad))


PUT = {
    "self": (_put, {}),
    "source": (lambda grad, index, source_aval: aten.view(aten.take(grad, index), [*source_aval.shape]), {}),
}


def unpooled(grad, indices, output_size):
    """The gradients at places that were told for each channel."""
    lead = [*indices.shape[: indices.ndim - len(output_size)]]
    places = aten.view(indices, [*lead, int(np.prod(indices.shape[len(lead) :]))])
    rows = aten.view(grad, [*lead, int(np.prod(grad.shape[len(lead) :]))])
    return aten.view(aten.gather(rows, -1, places), [*indices.shape])


def running_extreme(grad, self_aval, indices, dim):
    return aten.scatter_add(aten.zeros([*self_aval.shape], grad), dim, indices, grad)


# -- matrices, transforms --------------------------------------------------------------------------------


def r2c(grad, self_aval, dim, normalization, onesided):
    last, shape = dim[-1], [*self_aval.shape]
    if onesided and grad.shape[last] != shape[last]:
        size = [shape[last] if d == last else n for d, n in enumerate(grad.shape)]
        whole = aten.new_zeros(grad, size, options=True)
        aten.copy_(aten["slice.Tensor"](whole, last, 0, grad.shape[last]), grad)
        grad = whole
    return jnp.real(aten._fft_c2c(grad, [*dim], normalization, False))


def c2r(grad, dim, normalization):
    last, half = dim[-1], aten._fft_r2c(grad, [*dim], normalization, True)
    twice = grad.shape[last] - half.shape[last]
    if twice > 0:
        aten["mul_.Scalar"](aten["slice.Tensor"](half, last, 1, 1 + twice), 2)
    return half


__all__ = ["less", "over", "square", "times", "without"]
