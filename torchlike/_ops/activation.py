"""Activation functions. The derivative at each kink is PyTorch's, and at NaN that of its vectorized loops."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dims import wrap_dim
from torchlike._decl.op import Inplace, op, pointwise
from torchlike._ops import _composed, _derivatives
from torchlike._ops._elementwise import demand, demand_real, inexact, kind, scalar_name, wide, wide_dtype
from torchlike._ops.random import numbers, uniform01
from torchlike._ops.special import bounded_erf

_SQRT_HALF = math.sqrt(0.5)


def _wide(f, x, *others):
    """``f`` of arrays and numbers in the dtype that PyTorch computes ``x`` in, rounded once at the end."""
    dtype = wide_dtype(x)
    return f(x.astype(dtype), *(jnp.asarray(o).astype(dtype) for o in others)).astype(x.dtype)


def _activation(schema, f, df, *, dispatched=None, rounded="", doc="", **options):
    """Declare ``f(x, *numbers)`` whose derivative is ``df(x, *numbers)``.

    ``rounded``: which of "result grad" is computed with numbers that were rounded to the dtype of ``x``.
    """
    name = schema.partition("(")[0]

    def kernel(self, *numbers):
        demand(dispatched or f"{name}_cpu", self, "f")
        demand_real(self, *numbers)
        return _wide(f, self, *_rounded("result" in rounded, self, numbers))

    def formula(grad, self, *numbers):
        return _wide(lambda x, g, *n: df(x, g, *n), self, grad, *_rounded("grad" in rounded, self, numbers))

    arguments = [part.split("=")[0].split()[-1] for part in schema.partition("(")[2].split(")")[0].split(",")[1:]]
    kernel, formula = _named(kernel, ["self", *arguments]), _named(formula, ["grad", "self", *arguments])
    kernel.__doc__ = doc
    options = {"variants": "", "numbers": "", **options}
    return with_inplace(pointwise(schema, vjp={"self": formula}, **options)(kernel))


def _rounded(wanted, x, numbers):
    return [jnp.asarray(n).astype(x.dtype) for n in numbers] if wanted else numbers


def with_inplace(op):
    """Give an operator the in-place form that only functions use (Tensor has no such method)."""
    op.inplace = Inplace(op)
    return op


def _named(function, names):
    """``function`` with named instead of starred parameters, which is how declarations read it."""
    given = ", ".join(names)
    return eval(f"lambda {given}: function({given})", {"function": function, "__name__": __name__})


def _passed(mask, grad):
    return jnp.where(mask, grad, 0)


leaky_relu = _activation(
    "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    lambda x, slope: jnp.where(x > 0, x, x * slope),
    lambda x, grad, slope: jnp.where(x > 0, grad, grad * slope),
    held="negative_slope:wide:floats",
    node="LeakyReluBackward LeakyReluBackward1",
    backward=(
        "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result) -> Tensor",
        {"self_is_result": False},
    ),
)

# in evaluation, by the mean slope
rrelu = _activation(
    "rrelu(Tensor self, Scalar negative_slope) -> Tensor",
    lambda x, slope: jnp.where(x > 0, x, x * slope),
    lambda x, grad, slope: jnp.where(x > 0, grad, grad * slope),
    dispatched="leaky_relu_cpu",
    held="negative_slope:wide:floats",
    aten=False,
    node="RreluWithNoiseBackward RreluWithNoiseBackward1",
    strides=False,
    saved={"self!": "self", "training": lambda: False},
)


def _elu(x, alpha, scale, input_scale):
    low = jnp.where(x < 0, x, 0)
    return jnp.where(x < 0, jnp.expm1(low * input_scale) * alpha, x) * scale


def _elu_back(x, grad, alpha, scale, input_scale):
    start = input_scale * alpha  # the slope on the left of 0, and at 0, where it is constant for PyTorch
    below = start * jnp.exp(jnp.where(x < 0, x, 0) * input_scale)
    above = jnp.exp(jnp.where(x != x, x, 0))  # 1, or NaN in every order
    return grad * scale * jnp.where(x < 0, below, jnp.where(x == 0, start, above))


elu = _activation(
    "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    _elu,
    _elu_back, held="alpha:wide:floats scale:wide:floats input_scale:wide:floats", node="EluBackward EluBackward1",
    backward=(
        "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, "
        "Tensor self_or_result) -> Tensor",
        {"is_result": False, "self_or_result": "self"},
    ),
)  # fmt: skip

_ALPHA, _SCALE = _composed.ALPHA, _composed.SCALE
selu = _activation(
    "selu(Tensor self) -> Tensor",
    lambda x: _elu(x, x.dtype.type(_ALPHA), x.dtype.type(_SCALE), 1),
    lambda x, grad: _elu_back(x, grad, x.dtype.type(_ALPHA), x.dtype.type(_SCALE), 1),
    dispatched="elu_cpu",
    node="EluBackward EluBackward1",
    saved={"alpha": lambda: _ALPHA, "scale": lambda: _SCALE, "input_scale": lambda: 1, "self": "self"},
    aten={"out": None, "calls": _composed.selu, "calls_inplace": _composed.selu_},
    variants="function",
    backward=(
        "elu_backward",
        {"alpha": _ALPHA, "scale": _SCALE, "input_scale": 1, "is_result": False, "self_or_result": "self"},
    ),
    doc="The scaled :func:`elu` that keeps mean 0 and variance 1 from layer to layer.",
)


celu = _activation(
    "celu(Tensor self, Scalar alpha=1.) -> Tensor",
    lambda x, alpha: _elu(x, alpha, 1, 1 / alpha),
    lambda x, grad, alpha: _elu_back(x, grad, alpha, 1, 1 / alpha),
    dispatched="elu_cpu", variants="function", node="CeluBackward CeluBackward1", held="alpha:wide:floats",
    backward=_derivatives.CELU, doc="As :func:`elu`, with a slope that is 1 at 0 whatever ``alpha``.",
)  # fmt: skip


def _cdf(x):
    return 0.5 * (1 + bounded_erf(x * _SQRT_HALF))


def _tanh_inner(x):
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)


def _gelu_tanh_back(x):
    t = jnp.tanh(_tanh_inner(x))
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner


def _gelu_back(x, approximate):
    if approximate == "tanh":
        return _gelu_tanh_back(x)
    return _cdf(x) + x * jnp.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))


@pointwise("gelu(Tensor self, *, str approximate=\"none\") -> Tensor", numbers="", variants="", out="exact",
           vjp={"self": lambda grad, self, approximate:
                _wide(lambda x, g: g * _gelu_back(x, approximate), self, grad)},
           backward='gelu_backward(Tensor grad_output, Tensor self, *, str approximate="none") -> Tensor')  # fmt: skip
def gelu(self, approximate):
    demand("GeluKernelImpl", self, "f")
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, not {approximate!r}")
    if approximate == "tanh":
        return _wide(lambda x: 0.5 * x * (1 + jnp.tanh(_tanh_inner(x))), self)
    return _wide(lambda x: x * _cdf(x), self)


@with_inplace
@pointwise(
    "silu(Tensor self) -> Tensor",
    numbers="",
    variants="",
    vjp={"self": lambda grad, self: _wide(lambda x, g: g * jnp.conj(_silu_slope(x)), self, grad)},
    backward="silu_backward(Tensor grad_output, Tensor self) -> Tensor",
)
def silu(self):
    demand("silu_cpu", self, "fc")
    return _wide(lambda x: x / (1 + jnp.exp(-x)), self)


def _silu_slope(x):
    s = lax.logistic(x)
    return s * (1 + x * (1 - s))


def _softplus(x):
    return jnp.where(x > 0, x, 0) + jnp.log1p(jnp.exp(-jnp.where(x > 0, x, -x)))  # smooth at 0 for jax too


def _mish_back(x, grad):
    t = jnp.tanh(_softplus(x))
    return grad * (t + x * lax.logistic(x) * (1 - t * t))


mish = _activation("mish(Tensor self) -> Tensor", lambda x: x * jnp.tanh(_softplus(x)), _mish_back,
                   backward="mish_backward(Tensor grad_output, Tensor self) -> Tensor")  # fmt: skip


def _softplus_scaled(x, beta, threshold):
    linear = x * beta > threshold
    return jnp.where(linear, x, jnp.log1p(jnp.exp(jnp.where(linear, 0, x * beta))) / beta)


def _softplus_back(x, grad, beta, threshold):
    linear = x * beta > threshold
    z = jnp.exp(jnp.where(linear, 0, x * beta))
    z = jnp.where(x * beta == threshold, lax.stop_gradient(z), z)
    return jnp.where(linear, grad, grad * z / (1 + z))


softplus = _activation(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    _softplus_scaled,
    _softplus_back,
    held="beta:wide:floats threshold:wide:floats", out="exact", aten={"inplace": None}, autocast={"cuda": "fp32"},
    backward="softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
)  # fmt: skip

hardshrink = _activation(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    lambda x, lambd: jnp.where((x >= -lambd) & (x <= lambd), 0, x),
    lambda x, grad, lambd: _passed((x < -lambd) | (x > lambd), grad),
    variants="function method out",
    held="lambd:floats", out="exact", aten={"inplace": None}, rounded="result grad",
    backward="hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
    doc="The elements outside [-lambd, lambd]; 0 in place of the others.",
)  # fmt: skip

softshrink = _activation(
    "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    lambda x, lambd: jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, x * 0)),
    lambda x, grad, lambd: _passed((x < -lambd) | (x > lambd), grad),
    dispatched="softshrink_check",
    out="exact",
    aten={"inplace": None},
    rounded="grad",
    backward="softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
)

_SIXTH = float(np.float32(1 / 6))  # the constant is a float32 in PyTorch, for float64 tensors too

hardsigmoid = _activation(
    "hardsigmoid(Tensor self) -> Tensor",
    lambda x: _clipped(x + 3, 0, 6) / 6,
    lambda x, grad: _passed((x > -3) & (x < 3), grad * _SIXTH),
    backward="hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
)

hardswish = _activation(
    "hardswish(Tensor self) -> Tensor",
    lambda x: x * _clipped(x + 3, 0, 6) / 6,
    lambda x, grad: jnp.where(x <= -3, 0, jnp.where(x >= 3, grad, grad * _hardswish_slope(x))),
    backward="hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
)


def _hardswish_slope(x):
    """Between the bends; constant elsewhere, infinity and NaN included."""
    inside = (x > -3) & (x < 3)
    return jnp.where(inside, x, jnp.where(x != x, lax.stop_gradient(x), 0)) / 3 + 0.5


def _clipped(x, low, high):
    """``x`` in [low, high]; NaN stays, as does that of a bound, which may be above the other (``high`` wins)."""
    x = jnp.where((x < low) | (low != low), low, x)
    return jnp.where((x > high) | (high != high), high, x)


def _hardtanh(name, self, min_val, max_val):
    if kind(self) == "b":
        raise RuntimeError(f"Bool inputs not supported for hardtanh ({name}); convert the input with .to(torch.int64)")
    if kind(self) == "c":
        raise NotImplementedError(f"clamp is not supported for complex types ({name})")
    return _clipped(self, jnp.asarray(min_val).astype(self.dtype), jnp.asarray(max_val).astype(self.dtype))


@with_inplace
@pointwise("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", numbers="", variants="",
           held="min_val:floats max_val:floats",
           vjp={"self": lambda grad, self, min_val, max_val:
                _passed((self > jnp.asarray(min_val).astype(self.dtype))
                        & (self < jnp.asarray(max_val).astype(self.dtype)), grad)},
           backward="hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, "
                    "Scalar max_val) -> Tensor")  # fmt: skip
def hardtanh(self, min_val, max_val):
    return _hardtanh("hardtanh", self, min_val, max_val)


@with_inplace
@pointwise("relu6(Tensor self) -> Tensor", numbers="", variants="", node="HardtanhBackward",
           aten={"out": None, "calls": _composed.relu6, "calls_inplace": _composed.relu6_},
           vjp={"self": lambda grad, self: _passed((self > 0) & (self < 6), grad)},
           saved={"max_val": lambda: 6, "min_val": lambda: 0, "self": "self"},
           backward=("hardtanh_backward", {"min_val": 0, "max_val": 6}))  # fmt: skip
def relu6(self):
    return _hardtanh("relu6", self, 0, 6)


@pointwise("softsign(Tensor self) -> Tensor", aten={"own": True, "calls": _composed.softsign}, numbers="", variants="",
           node="DivBackward", saved="")  # fmt: skip
def softsign(self):
    if kind(self) == "b":
        raise NotImplementedError("\"abs_cpu\" not implemented for 'Bool': softsign takes numbers; convert the input")
    if kind(self) == "i":  # 1 + |x| wraps in its dtype
        return inexact(self) / inexact(1 + _modulus(self))
    return _wide(lambda x: x / (1 + _modulus(x)), self)


def _modulus(x):
    """The absolute value, with derivative 0 at 0."""
    if not jnp.iscomplexobj(x):
        return jnp.where(x > 0, x, jnp.where(x < 0, -x, x * 0))
    zero = x == 0
    return jnp.where(zero, 0, jnp.abs(jnp.where(zero, 1, x)))


@pointwise(
    "tanhshrink(Tensor self) -> Tensor",
    aten={"own": True, "calls": _composed.tanhshrink},
    numbers="",
    variants="",
    node="SubBackward",
    vjp={"self": lambda grad, self: _wide(lambda x, g: g * jnp.conj(jnp.tanh(x) ** 2), self, grad)},
    saved={"alpha": lambda: 1, "~self": "self"},
)
def tanhshrink(self):
    if kind(self) == "b":
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported (tanhshrink); convert the input"
        )
    x = inexact(self)
    return x - jnp.tanh(x)


@op("log_sigmoid(Tensor self) -> Tensor", variants="", node="LogSigmoidBackward",
    aten={"out": "out", "calls": _composed.log_sigmoid}, backward=_derivatives.LOG_SIGMOID,
    vjp={"self": lambda grad, self: _wide(lambda x, g: g * lax.logistic(-x), self, grad)})  # fmt: skip
def log_sigmoid(self):
    demand("log_sigmoid_cpu", self, "f")
    return _wide(lambda x: jnp.where(x < 0, x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x))), self)


# ----- with weights, noise or halves -----


def _prelu_weight(self, weight):
    """``weight`` shaped to broadcast along the channels of ``self``, after PyTorch's checks."""
    if weight.dtype != self.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {scalar_name(self)} and {scalar_name(weight)}")
    if weight.size != 1:
        if self.ndim == 0:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with more than one weight.")
        channels = self.shape[1] if self.ndim > 1 else 1
        if channels != weight.size:
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.size} and "
                f"channel size = {channels}."
            )
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    return weight.reshape((1, -1) + (1,) * (self.ndim - 2) if self.ndim > 1 else (1,) * self.ndim)


def _prelu_back(grad, self, weight):
    slope = _prelu_weight(self, weight)
    zero = self == 0
    to_weight = jnp.where((self > 0) | zero, 0, grad * self)
    # at 0 the derivative is the slope, but PyTorch differentiates it once more as if it were 1
    at_zero = grad + lax.stop_gradient(grad * slope - grad)
    axes = tuple(i for i in range(self.ndim) if slope.shape[i] == 1)
    to_self = jnp.where(self > 0, grad, jnp.where(zero, at_zero, grad * slope))
    return to_self, jnp.sum(to_weight, axes).reshape(weight.shape)


@op("prelu(Tensor self, Tensor weight) -> Tensor", aten={"out": None, "calls": _composed.prelu}, strides=True,
    vjp={"self, weight": _prelu_back}, node="PreluKernelBackward", backward=_derivatives.PRELU,
    jvp={"self": lambda dot, self, weight: jnp.where(self >= 0, dot, dot * _prelu_weight(self, weight)),
         "weight": lambda dot, self, weight: jnp.where(self >= 0, 0, self * _prelu_weight(self, dot))},
         autocast="lower_precision_fp")  # fmt: skip
def prelu(self, weight):
    """``x`` where positive, else ``weight * x``, with one weight or one for each channel (dimension 1)."""
    slope = _prelu_weight(self, weight)
    demand("prelu_cpu", self, "f")
    return jnp.where(self > 0, self, self * slope)


@op(
    "rrelu_with_noise(Tensor self, Tensor words, Scalar lower, Scalar upper) -> (Tensor result, Tensor noise)",
    variants="",
    nondiff=(1,),
    node="RreluWithNoiseBackward",
    vjp={"self": lambda grads, noise: grads[0] * noise},
    saved={**{n: n for n in ("lower", "upper", "noise", "self!")}, "training": lambda: True},
)
def rrelu_with_noise(self, words, lower, upper):
    """``x`` where positive, else ``x`` times a slope drawn from [lower, upper); and the slopes."""
    demand("rrelu_with_noise_out_cpu", self, "f")
    dtype = wide_dtype(self)
    low, high = jnp.asarray(lower).astype(dtype), jnp.asarray(upper).astype(dtype)
    drawn = numbers(words, self.shape, dtype, lambda words: uniform01(words, self.shape, dtype) * (high - low) + low)
    noise = jnp.where(self <= 0, drawn, 1).astype(self.dtype)
    return self * noise, noise


@op("glu(Tensor self, int dim=-1) -> Tensor", variants="", out="cast", layout=result_layouts.halved,
    backward="glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor")  # fmt: skip
def glu(self, dim):
    if self.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    axis = wrap_dim(dim, self.ndim)
    if self.shape[axis] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {self.shape[axis]} (glu)")
    demand("glu_cpu", self, "f")
    a, b = jnp.split(self, 2, axis)
    return _wide(lambda x, gate: x * lax.logistic(gate), a, b)


# ----- softmax -----


def _softmax_input(name, self, dim, dtype):
    """The input in the dtype to compute in, the dtype of the result, and the axis."""
    axis = wrap_dim(dim, self.ndim)
    if dtype is not None:
        self = self.astype(dtype.np)
    demand(f"{name}_lastdim_kernel_impl", self, "f")
    result = self.dtype
    return wide(self), result, axis


def _softmaxed(name):
    """PyTorch casts before, and calls what ``softmax`` and ``log_softmax`` are of."""
    return {"calls": lambda aten, self, dim, dtype: aten[name](aten.cast(self, dtype), dim, False)}


def softmax_along(x, axis):
    """Softmax whose maximum is not differentiated through; a row of -inf gives NaN."""
    if x.ndim == 0:
        return x * 0 + 1
    if x.shape[axis] == 0:
        return x
    e = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis, keepdims=True)))
    return e / jnp.sum(e, axis, keepdims=True)


def log_softmax_along(x, axis):
    """Logarithm of :func:`softmax_along`."""
    if x.ndim == 0:
        return x * 0
    if x.shape[axis] == 0:
        return x
    shifted = x - lax.stop_gradient(jnp.max(x, axis, keepdims=True))
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis, keepdims=True))


def _softmax_back(grad, result, dim):
    def back(y, g):
        inner = g * y
        return inner - y * jnp.sum(inner, dim, keepdims=True) if y.ndim else inner - y * inner

    return _wide(back, result, grad)


def log_softmax_back(grad, result, dim):
    return _wide(lambda y, g: g - jnp.exp(y) * (jnp.sum(g, dim, keepdims=True) if y.ndim else g), result, grad)


# PyTorch casts before, in a node of its own; here a gradient is cast to the dtype of its input anyway.
_OF_RESULT = {"output": "result", "input_dtype": "result.dtype"}


def _rows_of_softmax(self, dim):
    return "self" if dim in (-1, self.ndim - 1) else ""


@op("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", aten=_softmaxed("_softmax"),
    rows=_rows_of_softmax,
    vjp={"self": _softmax_back},
    node="SoftmaxBackward", autocast={"cuda": "fp32"}, variants="function method out", backward=(
        "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        _OF_RESULT))  # fmt: skip
def softmax(self, dim, dtype):
    """Exponentials along ``dim``, scaled to sum 1; ``dtype`` is the dtype to cast to before."""
    x, result, axis = _softmax_input("softmax", self, dim, dtype)
    return softmax_along(x, axis).astype(result)


@op("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", variants="function",
    aten={"own": False, "out": None},
    rows=_rows_of_softmax, vjp={"self": _softmax_back}, node="SafeSoftmaxBackward", saved="dim result",
    backward=(
        "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        _OF_RESULT))  # fmt: skip
def safe_softmax(self, dim, dtype):
    """:func:`softmax` along ``dim``, whose rows of -inf are zeros."""
    x, result, axis = _softmax_input("softmax", self, dim, dtype)
    y = softmax_along(x, axis)
    return jnp.where(jnp.all(x == -jnp.inf, axis if x.ndim else (), keepdims=True), 0, y).astype(result)


_MASKS = {0: "(L, L)", 1: "(B, L)"}


def _whole_mask(x, mask, mask_type):
    """``mask`` in the shape of the scores [B, heads, L, L]; RuntimeError where it goes with no such ones."""
    if mask.dtype != np.bool_:
        raise RuntimeError("Mask should be a boolean tensor")
    if mask.shape == x.shape:
        return mask
    if mask_type is None and x.ndim == 4 and mask.ndim == 2:
        raise RuntimeError("Mask Type should be defined: 0 for a mask (L, L), 1 for (B, L)")
    if mask_type not in _MASKS or x.ndim != 4:
        raise RuntimeError("For mask_type == 2 mask shape should match input shape")
    b, _, n, last = x.shape
    if mask.shape != ((n, last) if mask_type == 0 else (b, last)) or n != last:
        raise RuntimeError(f"For mask_type == {mask_type} mask shape should be {_MASKS[mask_type]}")
    return mask if mask_type == 0 else mask[:, None, None]


def _masked_back(grad, result, mask, dim, mask_type):
    slope = _softmax_back(grad, result, result.ndim - 1 if dim is None else dim)
    return jnp.where(_whole_mask(result, mask, mask_type), 0, slope)


@op("_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor", variants="function",
    vjp={"self": _masked_back}, node="MaskedSoftmaxBackward", saved="dim mask result", aten=True, backward=(
        "_masked_softmax_backward(Tensor grad_output, Tensor output, Tensor mask, int? dim=None) -> Tensor",
        {"output": "result"}))  # fmt: skip
def masked_softmax(self, mask, dim, mask_type):
    """Softmax along ``dim`` (the last) of what ``mask`` does not hide; 0 where it does, NaN where it hides all.

    ``mask_type``: 0 for a mask [L, L] and 1 for [B, L] of scores [B, heads, L, L]; otherwise it has their shape.
    """
    axis = wrap_dim(-1 if dim is None else dim, self.ndim)
    demand("masked_softmax", self, "f")
    hidden = _whole_mask(self, mask, mask_type)
    x = jnp.where(hidden, -jnp.inf, wide(self))
    return softmax_along(x, axis).astype(self.dtype)


@op(
    "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    rows=_rows_of_softmax,
    aten=_softmaxed("_log_softmax"),
    vjp={"self": log_softmax_back},
    node="LogSoftmaxBackward",
    autocast={"cuda": "fp32"},
    variants="function method out",
    backward=(
        "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        _OF_RESULT,
    ),
)
def log_softmax(self, dim, dtype):
    """Logarithm of :func:`softmax`, computed without overflow."""
    x, result, axis = _softmax_input("log_softmax", self, dim, dtype)
    return log_softmax_along(x, axis).astype(result)


@op("softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    aten={"own": True, "calls": _composed.softmin},
    node="SoftmaxBackward", variants="", autocast={"cuda": "fp32"}, backward=_derivatives.softmin,
    vjp={"self": lambda grad, result, dim: -_softmax_back(grad, result, dim)})  # fmt: skip
def softmin(self, dim, dtype):
    """Softmax of the negated input."""
    if kind(self) == "b":
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported (softmin)")
    x, result, axis = _softmax_input("softmax", -self, dim, dtype)
    return softmax_along(x, axis).astype(result)


@op("_gumbel(Tensor self, Tensor words) -> Tensor", variants="", vjp={})
def gumbel(self, words):
    """Samples of the standard Gumbel distribution in the shape of ``self``."""
    demand("exponential", self, "f")
    if jnp.asarray(words).dtype != np.uint32:  # exponential samples
        return -jnp.log(jnp.asarray(words).reshape(self.shape).astype(self.dtype))
    return -jnp.log(-jnp.log(1 - uniform01(words, self.shape, wide_dtype(self)) * (1 - 2.0**-24) - 2.0**-26)).astype(
        self.dtype
    )


@op("_one_hot_argmax(Tensor self, int dim) -> Tensor", variants="", vjp={})
def one_hot_argmax(self, dim):
    """1 at the first maximum along ``dim``, 0 elsewhere."""
    axis = wrap_dim(dim, self.ndim)
    place = lax.broadcasted_iota(np.int32, self.shape, axis)
    return (place == jnp.argmax(self, axis, keepdims=True)).astype(self.dtype)
