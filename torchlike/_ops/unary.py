"""Functions of one tensor, element by element."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._decl.op import pointwise
from torchlike._decl.words import aten
from torchlike._ops import _complex, _composed, _derivatives, _vector_math
from torchlike._ops._complex import exponential, inverse, logarithm, square_root
from torchlike._ops._elementwise import (
    conj,
    demand,
    demand_real,
    direction,
    is_reduced,
    kind,
    modulus,
    on_complex,
    precise_log1p,
    round_to,
    rounded_product,
    unary,
    wide,
    wide_dtype,
    widely,
)


def _zero(grad):
    return jnp.zeros_like(grad)


# -- signs and absolute values ------------------------------------------------------------------


@pointwise("neg(Tensor self) -> Tensor", out="exact", vjp={"self": lambda grad: -grad}, operator="neg", numbers="")
def neg(self):
    """Elementwise ``-input``. RuntimeError for bool tensors."""
    if self.dtype == np.bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported; invert a mask with `~` or logical_not()"
        )
    return -self


abs_ = unary(
    "abs",
    modulus,
    lambda grad, self: grad * aten.sgn(self),
    dtype="same",
    kinds="ifc",
    out="exact parts",
    operator="abs",
    doc="Elementwise absolute value; the modulus of complex numbers.",
    shows="-2.0 -> 2.",
)


def _sgn_grad(grad, self, result):
    if kind(self) != "c":
        return _zero(grad)
    size = jnp.abs(self)
    along = (grad * jnp.conj(result)).real * result
    return jnp.where(size == 0, 0, (grad - along) / size)


sgn = unary(
    "sgn",
    direction,
    _sgn_grad,
    jvp={"self": lambda dot, self, result: _sgn_grad(dot, self, result)},  # jax's transpose has NaN at 0
    dtype="same",
    out="exact",
    doc="Elementwise ``input / |input|``, 0 at 0; the sign of real numbers.",
    shows="-2.0 -> -1.",
)


@pointwise("sign(Tensor self) -> Tensor", out="exact", vjp={"self": _zero}, numbers="")
def sign(self):
    """Elementwise sign: -1, 0 or 1 (0 for NaN). NotImplementedError for complex tensors: see sgn."""
    if kind(self) == "c":
        raise NotImplementedError("sign() does not take complex tensors: use sgn(), the direction of each element")
    return direction(self)


# -- powers, exponentials and logarithms ----------------------------------------------------------

sqrt = unary(
    "sqrt",
    square_root,
    lambda grad, result: grad / (2 * conj(result)),
    doc="Elementwise square root.",
    shows="9.0 -> 3.",
)


def _rsqrt_grad(grad, result):
    cube = conj(aten["pow.Tensor_Scalar"](result, 3))
    return -0.5 * grad * cube


rsqrt = unary(
    "rsqrt",
    lambda x: inverse(square_root(x)),
    _rsqrt_grad,
    doc="Elementwise ``1 / sqrt(input)``.",
    shows="4.0 -> 0.5000",
    autocast={"cuda": "fp32"},
)


def _reciprocal_grad(grad, result):
    square = conj(result * result)
    return -grad * square


reciprocal = unary(
    "reciprocal",
    inverse,
    _reciprocal_grad,
    doc="Elementwise ``1 / input``.",
    shows="4.0 -> 0.2500",
    autocast={"cuda": "fp32"},
)


def _real_on_axis(f, at_zero=None):
    """``f`` whose imaginary part is that of a real argument, with its sign; ``at_zero``: the real part likewise."""

    def whole(x):
        y, real, imag = f(x), x.real, x.imag
        kept = y.real if at_zero is None else jnp.where(at_zero(real, imag), real, y.real)
        return lax.complex(kept, jnp.where(imag == 0, jnp.copysign(y.imag, imag), y.imag))

    return on_complex(f, whole, lambda x, y, dot: jax.jvp(f, (x,), (dot,))[1])


def _odd(real, imag):
    return real == 0


exp = unary(
    "exp",
    on_complex(lax.exp, exponential, lambda x, y, dot: dot * y),
    lambda grad, result: grad * conj(result),
    doc="Elementwise exponential.",
    shows="0.5 -> 1.6487",
    autocast={"cuda": "fp32"},
)


_complex_exp2 = on_complex(lax.exp2, _complex.power_of_two, lambda x, y, dot: dot * y * math.log(2))


_real_exp2 = _vector_math.power_of_two(lambda x: lax.pow(jnp.full_like(x, 2), x))


def power_of_two(x):
    """``2 ** x``, exact where ``x`` is an integer."""
    return _complex_exp2(x) if kind(x) == "c" else _real_exp2(x)


exp2 = unary(
    "exp2",
    power_of_two,
    lambda grad, result: grad * conj(result) * math.log(2),
    doc="Elementwise ``2 ** input``.",
    shows="3.0 -> 8.",
)
_expm1_on_axis = _real_on_axis(lax.expm1, lambda real, imag: (real == 0) & (imag == 0))


def _complex_expm1(x):
    y = _expm1_on_axis(x)
    return jnp.where(x.real < jnp.inf, y, lax.complex(y.real, jnp.where(x.imag == 0, jnp.nan, y.imag)))


_expm1 = on_complex(lax.expm1, _complex_expm1, lambda x, y, dot: dot * (y + 1))
expm1 = unary(
    "expm1",
    _expm1,
    lambda grad, result: grad * (conj(result) + 1),
    doc="Elementwise ``exp(input) - 1``, accurate near 0.",
    shows="1e-3 -> 0.0010",
    autocast={"cuda": "fp32"},
)
log = unary(
    "log",
    logarithm,
    lambda grad, self: grad / conj(self),
    doc="Elementwise natural logarithm.",
    shows="2.0 -> 0.6931",
    autocast={"cuda": "fp32"},
)


def _log_to_base(base):
    scale = math.log(base)

    @jax.custom_jvp
    def real(x):
        y = logarithm(x) / scale
        whole = lax.round(y)
        power = lax.pow(jnp.full_like(x, base), lax.abs(whole))
        exact = jnp.where(whole < 0, 1 / power, power) == x
        return jnp.where(exact, whole, y)

    # What rounds exact logarithms has no slope.
    real.defjvp(lambda primals, dots: (real(*primals), dots[0] / (primals[0] * scale)))
    quick = _vector_math.logarithm_to(base, real)

    def f(x):
        if kind(x) != "c":
            return quick(x)
        y = logarithm(x)
        return lax.complex(jnp.real(y) / scale, jnp.imag(y) / scale)  # complex division makes NaN of log(0)

    return f


log2 = unary(
    "log2",
    _log_to_base(2),
    lambda grad, self: grad / (conj(self) * math.log(2)),
    doc="Elementwise logarithm to base 2.",
    shows="8.0 -> 3.",
    autocast={"cuda": "fp32"},
)
log10 = unary(
    "log10",
    _log_to_base(10),
    lambda grad, self: grad / (conj(self) * math.log(10)),
    doc="Elementwise logarithm to base 10.",
    shows="1000.0 -> 3.",
    autocast={"cuda": "fp32"},
)
log1p = unary(
    "log1p",
    _real_on_axis(precise_log1p, lambda real, imag: (real == 0) & (imag == 0)),
    lambda grad, self: grad / (conj(self) + 1),
    doc="Elementwise ``log(1 + input)``, accurate near 0.",
    shows="1e-3 -> 0.0010",
    autocast={"cuda": "fp32"},
)

# -- trigonometric and hyperbolic functions ----------------------------------------------------------


def _half_exp(x):
    """``exp(x) / 2`` of numbers that are not negative; XLA adds log(1/2) to x, which costs 20 last digits."""
    root = lax.exp(x / 2)
    return root / 2 * root


def _product(a, b):
    """``a * b``, and 0 where one is, whatever the other."""
    zero = jnp.zeros_like(a)
    return jnp.where((a == 0) | (b == 0), jnp.copysign(zero, a) * jnp.copysign(zero + 1, b), a * b)


def _undirected(a, b):
    """Where what grows as ``exp(a)`` does is infinite, whatever its direction."""
    return jnp.isinf(a) & ~jnp.isfinite(b)


@jax.custom_jvp
def precise_cosh(x):
    if jnp.iscomplexobj(x):
        a, b = x.real, x.imag
        y = lax.complex(precise_cosh(a) * lax.cos(b), _product(precise_sinh(a), lax.sin(b)))
        return jnp.where(_undirected(a, b), lax.complex(jnp.abs(a), b * jnp.nan), y)
    half = _half_exp(lax.abs(x))
    return half + 0.25 / half


@jax.custom_jvp
def precise_sinh(x):
    if jnp.iscomplexobj(x):
        a, b = x.real, x.imag
        y = lax.complex(_product(precise_sinh(a), lax.cos(b)), _product(lax.sin(b), precise_cosh(a)))
        return jnp.where(_undirected(a, b), lax.complex(jnp.abs(a), b * jnp.nan), y)
    half = _half_exp(jnp.maximum(lax.abs(x), 1))
    return jnp.where(lax.abs(x) < 1, lax.sinh(x), lax.sign(x) * (half - 0.25 / half))


precise_cosh.defjvp(lambda primals, tangents: (precise_cosh(*primals), tangents[0] * precise_sinh(*primals)))
precise_sinh.defjvp(lambda primals, tangents: (precise_sinh(*primals), tangents[0] * precise_cosh(*primals)))


def _turned(f):
    """``f(i x)`` for complex numbers."""
    return lambda x: f(lax.complex(-x.imag, x.real))


@jax.custom_jvp
def _sin(x):
    if kind(x) != "c":
        return _vector_math.sin(x)
    y = _turned(precise_sinh)(x)
    return lax.complex(y.imag, jnp.where(_undirected(x.imag, x.real), jnp.inf, -y.real))


@jax.custom_jvp
def _cos(x):
    return _turned(precise_cosh)(x) if kind(x) == "c" else _vector_math.cos(x)


_sin.defjvp(lambda primals, tangents: (_sin(*primals), tangents[0] * _cos(*primals)))
_cos.defjvp(lambda primals, tangents: (_cos(*primals), -tangents[0] * _sin(*primals)))


def _complex_tan(x):
    y = lax.tan(x)
    return lax.complex(jnp.where(x.real == 0, x.real, y.real), jnp.where(x.imag == 0, x.imag, y.imag))


sin = unary(
    "sin",
    _sin,
    lambda grad, self: grad * conj(aten["cos"](self)),
    doc="Elementwise sine.",
    shows="0.5 -> 0.4794",
)
cos = unary(
    "cos",
    _cos,
    lambda grad, self: grad * -conj(aten["sin"](self)),
    doc="Elementwise cosine.",
    shows="0.5 -> 0.8776",
)
tan = unary(
    "tan",
    on_complex(_vector_math.tan, _complex_tan, lambda x, y, dot: dot * (1 + y * y)),
    lambda grad, result: grad * conj(1 + rounded_product(result, result)),
    backward=_derivatives.tan,
    doc="Elementwise tangent.",
    shows="0.5 -> 0.5463",
    autocast={"cuda": "fp32"},
)


def _inverse_root(x):
    if not is_reduced(x):
        return 1 / lax.sqrt(x)
    return round_to(1 / lax.sqrt(round_to(x.astype(np.float32), x.dtype)), x.dtype).astype(x.dtype)


asin = unary(
    "asin",
    on_complex(_vector_math.asin, _complex.asin, lambda x, y, dot: dot / lax.sqrt(1 - x * x)),
    lambda grad, self: grad * conj(_inverse_root(1 + rounded_product(-self, self))),
    backward=_derivatives.asin,
    doc="Elementwise arc sine.",
    shows="0.5 -> 0.5236",
    autocast={"cuda": "fp32"},
)
acos = unary(
    "acos",
    on_complex(_vector_math.acos, _complex.acos, lambda x, y, dot: -dot / lax.sqrt(1 - x * x)),
    lambda grad, self: -grad * conj(_inverse_root(1 + rounded_product(-self, self))),
    backward=_derivatives.acos,
    doc="Elementwise arc cosine.",
    shows="0.5 -> 1.0472",
    autocast={"cuda": "fp32"},
)


atan = unary(
    "atan",
    on_complex(_vector_math.atan, _complex.atan, lambda x, y, dot: dot / (x * x + 1)),
    lambda grad, self: grad / conj(rounded_product(self, self) + 1),
    doc="Elementwise arc tangent.",
    shows="0.5 -> 0.4636",
)


sinh = unary(
    "sinh",
    precise_sinh,
    lambda grad, self: grad * conj(aten["cosh"](self)),
    doc="Elementwise hyperbolic sine.",
    shows="0.5 -> 0.5211",
    autocast={"cuda": "fp32"},
)
cosh = unary(
    "cosh",
    precise_cosh,
    lambda grad, self: grad * conj(aten["sinh"](self)),
    doc="Elementwise hyperbolic cosine.",
    shows="0.5 -> 1.1276",
    autocast={"cuda": "fp32"},
)


_complex_tanh = _real_on_axis(lax.tanh, _odd)


def _tanh(x):
    """XLA's of 32 bits is three units below 1 from 8 to 20, where ``1 - tanh(x) ** 2`` would not be 0."""
    if kind(x) == "c":
        return _complex_tanh(x)
    if x.dtype != np.float32:
        return lax.tanh(x)
    return jnp.where(lax.abs(x) > 9.011, lax.sign(x), lax.tanh(x))


tanh = unary(
    "tanh",
    _tanh,
    lambda grad, result: widely(lambda g, y: g * conj(1 - y * y), grad, result),
    backward=("tanh_backward(Tensor grad_output, Tensor output) -> Tensor", {"output": "result"}),
    doc="Elementwise hyperbolic tangent.",
    shows="0.5 -> 0.4621",
)


def _acosh_slope(x):
    return 1 / (lax.sqrt(x - 1) * lax.sqrt(x + 1)) if kind(x) == "c" else _inverse_root(rounded_product(x, x) - 1)


asinh = unary(
    "asinh",
    on_complex(lax.asinh, _complex.asinh, lambda x, y, dot: dot / lax.sqrt(x * x + 1)),
    lambda grad, self: grad * conj(_inverse_root(rounded_product(self, self) + 1)),
    backward=_derivatives.asinh,
    doc="Elementwise inverse hyperbolic sine.",
    shows="0.5 -> 0.4812",
)
acosh = unary(
    "acosh",
    on_complex(lax.acosh, _complex.acosh, lambda x, y, dot: dot * _acosh_slope(x)),
    lambda grad, self: grad * conj(_acosh_slope(self)),
    backward=_derivatives.acosh,
    doc="Elementwise inverse hyperbolic cosine.",
    shows="1.5 -> 0.9624",
)
atanh = unary(
    "atanh",
    on_complex(lax.atanh, _complex.atanh, lambda x, y, dot: dot / (1 - x * x)),
    lambda grad, self: grad / conj(1 - rounded_product(self, self)),
    backward=_derivatives.atanh,
    doc="Elementwise inverse hyperbolic tangent.",
    shows="0.5 -> 0.5493",
)


def _sigmoid_grad(grad, result):
    if kind(result) == "c":
        return grad * conj((1 - result) * result)
    if grad.dtype == np.float16:  # PyTorch rounds each step of these, and no step of bfloat16
        return grad * (1 - result) * result
    return widely(lambda g, y: g * (1 - y) * y, grad, result)


sigmoid = unary(
    "sigmoid",
    on_complex(lax.logistic, _complex.logistic, lambda x, y, dot: dot * (1 - y) * y),
    _sigmoid_grad,
    backward=("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", {"output": "result"}),
    doc="Elementwise ``1 / (1 + exp(-input))``.",
    shows="0.5 -> 0.6225",
)


# -- angles and parts of complex numbers -----------------------------------------------------------


def _sinc(x):
    turn = math.pi * jnp.where(x == 0, 1, x)
    return jnp.where(x == 0, 1, lax.sin(turn) / turn)


def _sinc_slope(self):
    turn = math.pi * self
    return (lax.cos(turn) - lax.sin(turn) / turn) / self  # XLA would make a / turn / self a / (turn * self), 0 / 0


sinc = unary(
    "sinc",
    _sinc,
    lambda grad, self: jnp.where(self == 0, 0, grad * conj(_sinc_slope(self))),
    backward=_derivatives.sinc,
    jvp={"self": lambda dot, self: dot * jnp.where(self == 0, 0, _sinc_slope(self))},
    doc="``sin(pi x) / (pi x)``, 1 at 0.",
    shows="0.5 -> 0.6366",
)


def _converted(name, x, factor):
    if kind(x) == "c":
        raise RuntimeError(f"{name} is not supported for complex tensors: an angle is a real number")
    return x * factor


deg2rad = unary(
    "deg2rad",
    lambda x: _converted("deg2rad", x, math.pi / 180),
    lambda grad: grad * (math.pi / 180),
    doc="Degrees as radians.",
    shows="90.0 -> 1.5708",
)
rad2deg = unary(
    "rad2deg",
    lambda x: _converted("rad2deg", x, 180 / math.pi),
    lambda grad: grad * (180 / math.pi),
    doc="Radians as degrees.",
    shows="3.0 -> 171.8873",
)


def _angle(x):
    if kind(x) == "c":
        return lax.atan2(jnp.imag(x), jnp.real(x))
    return jnp.where(x < 0, math.pi, jnp.where(x != x, x, 0)).astype(x.dtype)


def _angle_grad(grad, self):
    if kind(self) != "c":
        return _zero(grad)
    square = jnp.real(self * jnp.conj(self))
    return jnp.where(square == 0, 0, grad * 1j * self / square)


def _angle_dot(dot, self):
    if kind(self) != "c":
        return _zero(dot)
    square = jnp.real(self * jnp.conj(self))
    return jnp.where(square == 0, 0, jnp.imag(jnp.conj(self) * dot) / square)


angle = unary(
    "angle",
    _angle,
    _angle_grad,
    jvp={"self": _angle_dot},
    variants="function method out",
    doc="The angle of complex numbers; 0 or pi for real ones.",
    shows="1j -> 1.5708",
)
conj_physical = unary(
    "conj_physical",
    conj,
    lambda grad: conj(grad),
    dtype="same",
    out="exact",
    aten={"calls": _composed.conj_physical},
    doc="Elementwise complex conjugate, as a new tensor.",
    shows="1 + 2j -> 1.-2.j",
)


# -- rectifiers ----------------------------------------------------------------------------------


@pointwise(
    "relu(Tensor self) -> Tensor",
    vjp={"self": lambda grad, result: jnp.where(result <= 0, 0, grad)},
    backward=("threshold_backward", {"self": "result", "threshold": 0}),
    numbers="",
    variants="function method inplace",
)
def relu(self):
    """Elementwise ``max(input, 0)``; the derivative at 0 is 0."""
    if kind(self) == "b":
        raise RuntimeError("Boolean inputs not supported for relu; convert the input with .to(torch.int64)")
    demand("relu", self, "if")
    return jnp.where(self < 0, 0, self)


@pointwise(
    "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    numbers="",
    variants="function out inplace",
    held="threshold:wide value",
    out="repeatable",
    node="ThresholdBackward ThresholdBackward1",
    vjp={"self": lambda grad, self, threshold: jnp.where(wide(self) <= threshold.astype(wide_dtype(self)), 0, grad)},
    backward="threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
)
def threshold(self, threshold, value):
    """The elements above ``threshold``, ``value`` in place of the others."""
    demand("threshold", self, "if")
    demand_real(self, threshold, value)
    return jnp.where(wide(self) <= threshold.astype(wide_dtype(self)), value.astype(self.dtype), self)
