"""From floats to quantized tensors and back."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.qschemes import per_channel_affine, per_channel_affine_float_qparams
from torchlike._base.state import no_grad
from torchlike._core.quantized import kernels
from torchlike._core.quantized.value import (
    KINDS,
    Affine,
    PerChannel,
    Quantized,
    Quantizer,
    demand_kind,
    quantized_of,
    range_of,
    tensor_of,
    unsupported,
)
from torchlike._core.tensor.tensor import Tensor, channels_last, channels_last_3d, fresh

_LEAST_SCALE = float(np.float32(6.1e-5))


def in_order(t: Tensor) -> Tensor:
    """``t`` row-major, or with channels last where it lies so."""
    if t.is_contiguous():
        return t
    for ndim, order in ((4, channels_last), (5, channels_last_3d)):
        if t.ndim == ndim and t.is_contiguous(memory_format=order):
            return t
    return t.contiguous()


def _as_ordered(out: Tensor, like: Tensor) -> Tensor:
    for ndim, order in ((4, channels_last), (5, channels_last_3d)):
        if like.ndim == ndim and not like.is_contiguous() and like.is_contiguous(memory_format=order):
            return out.contiguous(memory_format=order)
    return out.contiguous()


def _scalar(value: float, kind: Any) -> Tensor:
    return fresh(jnp.asarray(value, kind))


def _like(kind: dtypes.dtype) -> Tensor:
    return fresh(jnp.zeros((), KINDS[kind].np))


def along(numbers: Tensor, axis: int, ndim: int) -> Tensor:
    """Numbers of the places of a dimension, in the shape that lies along it."""
    return numbers.reshape([-1 if d == axis else 1 for d in range(ndim)])


def _pair(quantizer: Quantizer, ndim: int) -> tuple[Tensor, Tensor]:
    if isinstance(quantizer, Affine):
        return _scalar(quantizer.scale, np.float32), _scalar(quantizer.zero_point, np.int32)
    return along(quantizer.scale, quantizer.axis, ndim), along(quantizer.zero_point, quantizer.axis, ndim)


def quantized(x: Tensor, quantizer: Quantizer, kind: dtypes.dtype) -> Tensor:
    """``x``, of float32, as a quantized tensor."""
    with no_grad():
        x = x.detach()
        once = isinstance(quantizer, Affine) and kind is not dtypes.qint32
        make = kernels.codes_at_once if once else kernels.codes
        out = make(x, *_pair(quantizer, x.ndim), _like(kind))
        return tensor_of(_as_ordered(out, x), quantizer)


def per_tensor(x: Tensor, scale: float, zero_point: int, kind: dtypes.dtype) -> Tensor:
    """``torch.quantize_per_tensor`` of numbers."""
    demand_kind("quantize_per_tensor", kind)
    _demand_float32("quantize_per_tensor", x)
    _demand_zero_points("quantize_per_tensor", (zero_point,), kind)
    return quantized(x, Affine(float(scale), int(zero_point)), kind)


def _demand_float32(name: str, x: Tensor) -> None:
    if quantized_of(x) is not None:
        raise NotImplementedError(f"{name}(): the input is quantized already; use .dequantize() first")
    if x.dtype is not dtypes.float32:
        raise RuntimeError(
            f"{name}(): Quantize only works on Float Tensor, got {x.dtype.scalar_name}; use .float() first"
        )


def _demand_zero_points(name: str, zero_points: Any, kind: dtypes.dtype) -> None:
    low, high = range_of(kind)
    for zero_point in zero_points:
        if not low <= zero_point <= high:
            bound = "above upper" if zero_point > high else "below lower"
            raise RuntimeError(f"{name}(): zero_point {zero_point} is {bound} bound: {kind} holds {low} to {high}")


def channels(name: str, scales: Tensor, zero_points: Tensor, axis: int, shape: Any) -> PerChannel:
    """The quantizer of scales and zero points along a dimension of a tensor of ``shape``."""
    if scales.ndim != 1 or zero_points.ndim != 1:
        raise RuntimeError(f"{name}(): scales and zero_points must be tensors of one dimension")
    if scales.numel() != zero_points.numel():
        raise RuntimeError(f"{name}(): number of elements in scales and zero_points must match")
    if not 0 <= axis < len(shape):
        raise RuntimeError(
            f"{name}(): Channel axis out of range in per channel affine quantization. Got: {axis}, expected: "
            f"[0, {len(shape)})"
        )
    if scales.numel() != shape[axis]:
        raise RuntimeError(
            f"{name}(): length of scales must equal to channel, expected {shape[axis]} got, {scales.numel()}"
        )
    if zero_points.dtype.is_floating_point:
        floats = scales.detach().float(), zero_points.detach().float()
        return PerChannel(*floats, per_channel_affine_float_qparams, axis)
    return PerChannel(scales.detach().double(), zero_points.detach().long(), per_channel_affine, axis)


def per_channel(x: Tensor, scales: Tensor, zero_points: Tensor, axis: int, kind: dtypes.dtype) -> Tensor:
    """``torch.quantize_per_channel``."""
    demand_kind("quantize_per_channel", kind)
    _demand_float32("quantize_per_channel", x)
    found = channels("quantize_per_channel", scales, zero_points, axis, x.shape)
    if found.scheme is per_channel_affine:
        _demand_zero_points("quantize_per_channel", found.zero_point.tolist(), kind)
    return quantized(x, found, kind)


def parameters(
    low: float, high: float, least: int, most: int, reduce_range: bool = False, symmetric: bool = False,
    short: bool = False,
) -> Affine:  # fmt: skip
    """The scale and zero point with which integers from ``least`` to ``most`` reach from ``low`` to ``high``.

    ``symmetric``: 0 is the middle of the integers where numbers lie on both sides of it. ``short``: the zero point is
    that of the scale in float32.
    """
    if reduce_range:
        least, most = int(least / 2), most // 2
    symmetric = symmetric and low < 0 < high
    if symmetric:
        half = (most - least) // 2
        widest = max(abs(low / (half + 1)), abs(high / half))
        low, high = -widest * (half + 1), widest * half
    low, high = min(low, 0.0), max(high, 0.0)
    scale = (float(high) - low) / (most - least)
    if np.float32(scale) == 0 or np.isinf(np.float32(1) / np.float32(scale)):
        scale = 0.1
    if scale < _LEAST_SCALE:
        low, high, scale = _widened(low, high, scale)
    if symmetric:
        return Affine(scale, int(np.rint((least + most) / 2)))
    scale = float(np.float32(scale)) if short else scale
    return Affine(scale, _zero_point(low, high, scale, least, most))


def _widened(low: float, high: float, scale: float) -> tuple[float, float, float]:
    """The same range so wide that its scale is no smaller than fits."""
    least, given = _LEAST_SCALE, scale
    if low == 0:
        return low, high * least / given, least
    if high == 0:
        return low * least / given, high, least
    return low * least / given, high * least / given, least


def _zero_point(low: float, high: float, scale: float, least: int, most: int) -> int:
    at_low, at_high = least - low / scale, most - high / scale
    error_low = abs(least) + abs(low / scale)
    error_high = abs(most) + abs(high / scale)
    start = at_low if error_low < error_high else at_high
    return int(np.clip(np.rint(start), least, most))


def dequantized(t: Tensor) -> Tensor:
    """The float32 numbers that a quantized tensor stands for."""
    v = quantized_of(t)
    assert v is not None
    return value_numbers(v)


def value_numbers(v: Quantized) -> Tensor:
    """As :func:`dequantized`, of a value."""
    with no_grad():
        return _as_ordered(kernels.numbers(v.codes, *_pair(v.quantizer, v.ndim)), v.codes)


def in_passing(t: Tensor) -> Tensor:
    """The numbers of a quantized tensor as operators see them that round their results again at once."""
    v = quantized_of(t)
    assert v is not None
    with no_grad():
        return _as_ordered(kernels.numbers_at_once(v.codes, *_pair(v.quantizer, v.ndim)), v.codes)


def from_passing(x: Tensor, quantizer: Affine, kind: dtypes.dtype) -> Tensor:
    """What such an operator has computed, as a quantized tensor."""
    with no_grad():
        x = x.detach()
        out = kernels.codes_after(x, *_pair(quantizer, x.ndim), _like(kind))
        return tensor_of(_as_ordered(out, x), quantizer)


def again(x: Tensor, t: Tensor, name: str) -> Tensor:
    """``x`` quantized as the quantized tensor ``t`` is."""
    v = quantized_of(t)
    assert v is not None
    if not isinstance(v.quantizer, Affine):
        raise unsupported(f"{name} of channels with scales of their own")
    return quantized(x, v.quantizer, t.dtype)
