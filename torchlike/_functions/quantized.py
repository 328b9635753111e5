"""Quantized tensors under their public names: from numbers and back, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.qschemes import QScheme, per_tensor_affine
from torchlike._core.quantized import quantize
from torchlike._core.quantized.rules import moved
from torchlike._core.quantized.value import (
    OF_CODES,
    Affine,
    PerChannel,
    Quantized,
    demand_kind,
    quantized_of,
    range_of,
    tensor_of,
)
from torchlike._core.tensor.arguments import as_dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.sparse import LAYER
from torchlike._functions._install import FUNCTIONS, both, function, method

_moved = LAYER.moved
LAYER.moved = lambda t, device: moved(t, device) if t.is_quantized else _moved(t, device)


# -- from numbers and back -------------------------------------------------------------------------------


@function()
def quantize_per_tensor(
    input: Tensor | Sequence[Tensor], scale: float | Tensor, zero_point: int | Tensor, dtype: dtypes.dtype
) -> Any:
    """``input``, of float32, as integers ``round(input / scale + zero_point)`` that know what they stand for.

    A list of tensors with tensors of scales and zero points gives a tuple. No gradient flows through.

    Args:
        dtype: ``torch.quint8``, ``torch.qint8`` or ``torch.qint32``.

    Raises:
        RuntimeError: ``input`` is not of float32, or ``zero_point`` is no integer of that type.

    >>> import torchlike as torch
    >>> torch.quantize_per_tensor(torch.tensor([-1.0, 0.12, 90.0]), 0.25, 8, torch.quint8)
    tensor([-1.0000,  0.0000, 61.7500], size=(3,), dtype=torch.quint8,
           quantization_scheme=torch.per_tensor_affine, scale=0.25, zero_point=8)
    """
    kind = as_dtype("quantize_per_tensor", "dtype", dtype)
    if isinstance(input, list | tuple):
        numbers = zip(input, scale.tolist(), zero_point.tolist(), strict=True)  # type: ignore[union-attr]
        return tuple([quantize.per_tensor(x, s, z, kind) for x, s, z in numbers])
    if not isinstance(input, Tensor):
        raise TypeError(
            f"quantize_per_tensor(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    scale = scale.item() if isinstance(scale, Tensor) else scale
    return quantize.per_tensor(input, scale, int(zero_point), kind)


@function()
def quantize_per_tensor_dynamic(input: Tensor, dtype: dtypes.dtype, reduce_range: bool) -> Tensor:
    """As :func:`quantize_per_tensor`, with the scale and zero point that reach from the least number to the greatest.

    ``reduce_range``: leave out the last bit.
    """
    kind = as_dtype("quantize_per_tensor_dynamic", "dtype", dtype)
    if kind is dtypes.qint32:
        raise RuntimeError("quantize_per_tensor_dynamic(): dtype qint32 is not supported: use torch.quint8 or qint8")
    demand_kind("quantize_per_tensor_dynamic", kind)
    low, high = (input.min().item(), input.max().item()) if input.numel() else (0.0, 0.0)
    found = quantize.parameters(low, high, *range_of(kind), reduce_range)
    return quantize.per_tensor(input, found.scale, found.zero_point, kind)


@function()
def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: dtypes.dtype) -> Tensor:
    """As :func:`quantize_per_tensor`, with a scale and a zero point for each place along ``axis``.

    Zero points of floats need not be whole numbers.

    >>> import torchlike as torch
    >>> x = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    >>> q = torch.quantize_per_channel(x, torch.tensor([0.1, 0.7]), torch.tensor([0, 0]), 0, torch.qint8)
    >>> q.int_repr()
    tensor([[10, 20],
            [ 1,  3]], dtype=torch.int8)
    """
    kind = as_dtype("quantize_per_channel", "dtype", dtype)
    return quantize.per_channel(input, scales, zero_points, axis, kind)


@method()
def dequantize(self: Tensor) -> Tensor:
    """The numbers as float32: those that the integers of a quantized tensor stand for.

    >>> import torchlike as torch
    >>> torch.ones(2, dtype=torch.int8).dequantize()
    tensor([1., 1.])
    """
    return quantize.dequantized(self) if self.is_quantized else self.to(dtypes.float32)


@function("dequantize")
def _dequantize(input: Any = None, *, tensors: Any = None) -> Any:
    """The numbers as float32, of a tensor or of each of a list; see :meth:`Tensor.dequantize`."""
    given = tensors if input is None else input
    if isinstance(given, Tensor):
        return dequantize(given)
    return tuple([dequantize(t) for t in given])


# -- what they are made of -------------------------------------------------------------------------------


def _value(name: str, t: Any) -> Quantized:
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(t).__name__}")
    v = quantized_of(t)
    if v is None:
        raise NotImplementedError(
            f"{name}(): it is for quantized tensors, but got one of {t.dtype}; make one by torch.quantize_per_tensor"
        )
    return v


def _affine(name: str, t: Any) -> Affine:
    q = _value(name, t).quantizer
    if not isinstance(q, Affine):
        raise RuntimeError(f"{name}(): expected a tensor of torch.per_tensor_affine, got {q.scheme}")
    return q


def _channels(name: str, t: Any) -> PerChannel:
    q = _value(name, t).quantizer
    if not isinstance(q, PerChannel):
        raise RuntimeError(f"{name}(): expected a tensor of torch.per_channel_affine, got {q.scheme}")
    return q


@both()
def int_repr(input: Tensor) -> Tensor:
    """A copy of the integers of a quantized tensor."""
    return quantize._as_ordered(_value("int_repr", input).codes.clone(), input)


@both()
def q_scale(input: Tensor) -> float:
    """The scale of a tensor that :func:`quantize_per_tensor` made."""
    return _affine("q_scale", input).scale


@both()
def q_zero_point(input: Tensor) -> int:
    """The integer that stands for 0 in a tensor that :func:`quantize_per_tensor` made."""
    return _affine("q_zero_point", input).zero_point


@both()
def q_per_channel_scales(input: Tensor) -> Tensor:
    """The scales of a tensor that :func:`quantize_per_channel` made."""
    return _channels("q_per_channel_scales", input).scale


@both()
def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """The zero points of a tensor that :func:`quantize_per_channel` made."""
    return _channels("q_per_channel_zero_points", input).zero_point


@both()
def q_per_channel_axis(input: Tensor) -> int:
    """The dimension whose places have scales of their own."""
    return _channels("q_per_channel_axis", input).axis


@method()
def qscheme(self: Tensor) -> QScheme:
    """How the tensor is quantized, such as ``torch.per_tensor_affine``."""
    return _value("qscheme", self).quantizer.scheme


# -- of integers -----------------------------------------------------------------------------------------


def _demand_integers(name: str, codes: Tensor) -> None:
    if codes.dtype not in OF_CODES:
        raise RuntimeError(f"{name}(): expected a tensor of uint8, int8 or int32, got {codes.dtype}")


@function("_make_per_tensor_quantized_tensor")
def _make_per_tensor_quantized_tensor(input: Tensor, scale: float, zero_point: int) -> Tensor:
    """Integers as a quantized tensor: quint8 of uint8, qint8 of int8, qint32 of int32."""
    _demand_integers("_make_per_tensor_quantized_tensor", input)
    return tensor_of(input.detach().clone(), Affine(float(scale), int(zero_point)))


@function("_make_per_channel_quantized_tensor")
def _make_per_channel_quantized_tensor(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int) -> Tensor:
    """As ``_make_per_tensor_quantized_tensor``, with scales and zero points of each channel."""
    _demand_integers("_make_per_channel_quantized_tensor", input)
    found = quantize.channels("_make_per_channel_quantized_tensor", scale, zero_point, axis, input.shape)
    return tensor_of(input.detach().clone(), found)


@function("_empty_affine_quantized")
def _empty_affine_quantized(
    size: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    scale: float = 1.0, zero_point: int = 0, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A quantized tensor of any integers."""
    kind = demand_kind("_empty_affine_quantized", dtype)
    codes = FUNCTIONS["zeros"](size, dtype=kind, device=device)
    return tensor_of(codes, Affine(float(scale), int(zero_point), per_tensor_affine))
