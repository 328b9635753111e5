"""Numbers rounded to what an integer type keeps of them, and given back as floats."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._decl.op import op
from torchlike._ops._elementwise import wide_dtype


def _steps(self, scale, zero_point, wraps=False):
    """The integers that ``self`` is rounded to, as floats, before they are clamped.

    ``wraps``: what is no integer of 64 bits becomes the least of them.
    """
    x = self.astype(wide_dtype(self))
    inverse = (1 / scale).astype(x.dtype)
    if not _broken(zero_point):
        steps = jnp.round(x * inverse) + zero_point.astype(x.dtype)
    else:
        steps, wraps = jnp.round(x * inverse + zero_point.astype(x.dtype)), True
    return jnp.where(steps < 2.0**63, steps, -jnp.inf) if wraps else steps


def _broken(zero_point):
    """Whether zero points need not be whole numbers; PyTorch takes other steps then."""
    return jnp.issubdtype(zero_point.dtype, jnp.floating)


def _dequantized(self, scale, zero_point, quant_min, quant_max, wide=np.float32, wraps=False):
    """The numbers that the integers of ``self`` stand for, computed in the dtype ``wide``."""
    steps = _steps(self, scale, zero_point, wraps)
    kept = jnp.where(steps > quant_min, jnp.where(steps < quant_max, steps, quant_max), quant_min).astype(wide)
    return ((kept - zero_point.astype(wide)) * scale.astype(wide)).astype(self.dtype)


def _within(self, scale, zero_point, quant_min, quant_max):
    """Which elements are not clamped."""
    steps = _steps(self, scale, zero_point)
    return (steps >= quant_min) & (steps <= quant_max)


def _passed(grad, self, scale, zero_point, quant_min, quant_max):
    """The gradient of what was not clamped; of the rest, 0 times it."""
    return jnp.where(_within(self, scale, zero_point, quant_min, quant_max), grad, grad * 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3, 4, 5, 6))
def _straight_through(self, scale, zero_point, quant_min, quant_max, wide=np.float32, wraps=False):
    """As :func:`_dequantized`; its derivative in a function of jax is that of :func:`_passed`, too."""
    return _dequantized(self, scale, zero_point, quant_min, quant_max, wide, wraps)


@_straight_through.defjvp
def _straight_through_jvp(quant_min, quant_max, wide, wraps, primals, tangents):
    shown = _straight_through(*primals, quant_min, quant_max, wide, wraps)
    return shown, _passed(tangents[0], *primals, quant_min, quant_max)


def _along(self, numbers, axis):
    """``numbers`` in the shape that lies along an axis of ``self``."""
    return numbers.reshape([-1 if d == axis else 1 for d in range(self.ndim)])


@op("_fake_quantize_per_tensor(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
    aten=False, variants="", autocast={"cpu": "fp32"}, node="FakeQuantizePerTensorAffineCachemaskBackward",
    saved="", strides=True,
    vjp={"self": _passed})  # fmt: skip
def per_tensor(self, scale, zero_point, quant_min, quant_max):
    return _straight_through(self, scale, zero_point, quant_min, quant_max)


@op("_fake_quantize_per_channel(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min, int quant_max) "
    "-> Tensor",
    aten=False, variants="", node="FakeQuantizePerChannelAffineCachemaskBackward", saved="", strides=True,
    vjp={"self": lambda grad, self, scale, zero_point, axis, quant_min, quant_max: _passed(
        grad, self, _along(self, scale, axis), _along(self, zero_point, axis), quant_min, quant_max)})  # fmt: skip
def per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    wide = jax.dtypes.canonicalize_dtype(np.float64) if _broken(zero_point) else wide_dtype(self)
    scale, zero_point = _along(self, scale, axis), _along(self, zero_point, axis)
    return _straight_through(self, scale, zero_point, quant_min, quant_max, wide, True)


@op("_fake_quantize_within(Tensor self, Tensor scale, Tensor zero_point, int quant_min, int quant_max) -> Tensor",
    aten=False, variants="", strides=True)  # fmt: skip
def within(self, scale, zero_point, quant_min, quant_max):
    return _within(self, scale, zero_point, quant_min, quant_max)
