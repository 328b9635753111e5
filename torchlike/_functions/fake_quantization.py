"""Rounding floats to what an integer type would keep of them, with a gradient."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dim
from torchlike._base.state import no_grad
from torchlike._core.dispatch.dispatch import call
from torchlike._core.quantized.quantize import parameters
from torchlike._core.tensor.tensor import Tensor, fresh
from torchlike._functions._install import function
from torchlike._ops import fake_quantization


def _demand_range(quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise RuntimeError(
            f"`quant_min` should be less than or equal to `quant_max`: they are {quant_min} and {quant_max}"
        )


def _demand_floats(kernel: str, input: Tensor) -> None:
    if not input.is_floating_point():
        raise NotImplementedError(
            f"\"{kernel}_type_handling\" not implemented for '{input.dtype.scalar_name}': convert it to a float first"
        )


def _demand_inside(within: bool, quant_min: int, quant_max: int) -> None:
    if not within:
        raise RuntimeError(f"`zero_point` must be between `quant_min` and `quant_max`: {quant_min} and {quant_max}")


def as_number(value: Tensor | float, kind: np.dtype) -> Tensor:
    """A scale or zero point as a tensor of no dimensions."""
    if not isinstance(value, Tensor):
        return fresh(jnp.asarray(value, kind))
    if value.numel() != 1:
        raise RuntimeError(f"a Tensor with {value.numel()} elements cannot be converted to Scalar")
    return value.reshape(()).to(dtypes.from_np(kind))


@function()
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Tensor | float, zero_point: Tensor | int, quant_min: int, quant_max: int
) -> Tensor:
    """``(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``.

    The gradient goes through where nothing was clamped. ``scale`` and ``zero_point``: numbers, or tensors with one
    element, which have no gradient.

    Raises:
        RuntimeError: ``zero_point``, given as a number, is not between ``quant_min`` and ``quant_max``.
        NotImplementedError: ``input`` has no floats.

    >>> import torchlike as torch
    >>> torch.fake_quantize_per_tensor_affine(torch.tensor([-1.0, 0.12, 0.9]), 0.25, 0, -2, 1)
    tensor([-0.5000,  0.0000,  0.2500])
    """
    whole = all(isinstance(x, int | np.integer | Tensor) for x in (zero_point, quant_min, quant_max))
    if not whole or not isinstance(input, Tensor) or not isinstance(scale, int | float | np.number | Tensor):
        raise TypeError(
            "fake_quantize_per_tensor_affine() takes (Tensor input, float scale, int zero_point, int quant_min, "
            f"int quant_max), or a Tensor scale and zero_point, but got ({type(input).__name__}, "
            f"{type(scale).__name__}, {type(zero_point).__name__}, ...)"
        )
    if isinstance(scale, Tensor) and scale.requires_grad:
        raise RuntimeError(
            "The function '_fake_quantize_per_tensor_affine_cachemask_tensor_qparams' is not differentiable with "
            "respect to argument 'scale'. This input cannot have requires_grad True: detach() it."
        )
    _demand_range(quant_min, quant_max)
    if not isinstance(zero_point, Tensor):
        _demand_inside(quant_min <= zero_point <= quant_max, quant_min, quant_max)
    _demand_floats("fake_quantize_tensor_cachemask_kernel", input)
    numbers = as_number(scale, np.dtype(np.float32)), as_number(zero_point, np.dtype(np.int32))
    return call(fake_quantization.per_tensor, (input, *numbers), (quant_min, quant_max))


@function()
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As :func:`fake_quantize_per_tensor_affine`, with a scale and a zero point for each place along ``axis``.

    Args:
        scale: of one dimension, float32. zero_point: likewise, int32 or floats, which need not be whole numbers.

    Raises:
        RuntimeError: they do not fit ``input``, or an int32 zero point is not between ``quant_min`` and ``quant_max``.
    """
    if scale.dtype not in (dtypes.float32, dtypes.bfloat16):
        raise RuntimeError(f"Scale must be Float or BFloat16, found {scale.dtype.scalar_name}")
    if zero_point.dtype not in (dtypes.int32, dtypes.float32, dtypes.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {zero_point.dtype.scalar_name}")
    if scale.ndim != 1 or zero_point.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor, and zero point too")
    if scale.numel() != zero_point.numel():
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    place = wrap_dim(axis, input.ndim) if axis >= input.ndim else axis
    if place < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")
    if scale.numel() != input.shape[place]:
        raise RuntimeError(
            f"dimensions of scale and zero-point are not consistent with input tensor: {scale.numel()} for "
            f"{input.shape[place]} places along axis {axis}"
        )
    _demand_range(quant_min, quant_max)
    if zero_point.dtype is dtypes.int32 and zero_point.numel():
        _demand_inside(bool(((zero_point >= quant_min) & (zero_point <= quant_max)).all()), quant_min, quant_max)
    _demand_floats("fake_quantize_channel_cachemask_cpu", input)
    inputs = input, scale.detach().to(dtypes.float32), zero_point.detach()
    return call(fake_quantization.per_channel, inputs, (place, quant_min, quant_max))


@function()
def fused_moving_avg_obs_fake_quant(
    input: Tensor, observer_on: Tensor, fake_quant_on: Tensor, running_min: Tensor, running_max: Tensor, scale: Tensor,
    zero_point: Tensor, averaging_const: float, quant_min: int, quant_max: int, ch_axis: int,
    per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> Tensor:  # fmt: skip
    """``input`` rounded as the other functions here do, by a range that follows it.

    Args:
        observer_on: whether ``running_min`` and ``running_max`` are changed in place: moving averages in which
            ``input`` counts by ``averaging_const``.
        fake_quant_on: whether ``scale`` and ``zero_point`` become what follows from these, and ``input`` is rounded;
            a copy is returned otherwise.
        per_row_fake_quant: each place along ``ch_axis`` has numbers of its own.
        symmetric_quant: 0 is in the middle of the integers.
    """
    with no_grad():
        if observer_on.item():
            _track(input.detach(), running_min, running_max, averaging_const, ch_axis if per_row_fake_quant else None)
        if fake_quant_on.item():
            ranges = zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist(), strict=True)
            found = [parameters(a, b, quant_min, quant_max, symmetric=symmetric_quant, short=True) for a, b in ranges]
            for target, numbers in ((scale, [q.scale for q in found]), (zero_point, [q.zero_point for q in found])):
                new = fresh(jnp.asarray(numbers, target.dtype.np))
                target.resize_(new.shape if per_row_fake_quant else target.shape).copy_(new)
    if not fake_quant_on.item():
        return input.clone()
    if per_row_fake_quant:
        return fake_quantize_per_channel_affine(input, scale, zero_point, ch_axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


def _track(x: Tensor, running_min: Tensor, running_max: Tensor, constant: float, axis: int | None) -> None:
    """Let the moving averages follow the least and the greatest number, of each place along an axis if one is given."""
    rows = x.reshape(-1) if axis is None else x.transpose(0, axis).flatten(1)
    low, high = rows.aminmax(dim=-1)
    for running, new in ((running_min, low), (running_max, high)):
        if not running.numel() or running.isinf().any():
            running.resize_(new.shape).copy_(new)
        else:
            running.copy_(running + constant * (new - running))
