"""torch.ao.nn.quantized.functional: functions of quantized tensors."""

from __future__ import annotations

from typing import Any

from torchlike._core.quantized.quantize import in_passing
from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import demand_quantized
from torchlike.ao.nn.quantized._compute import linear as linear_of
from torchlike.ao.nn.quantized._operators import requantized
from torchlike.ao.nn.quantized.conv import convolve
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "it is not supported; the functions of torch.nn.functional take quantized tensors")

adaptive_avg_pool2d, adaptive_avg_pool3d = F.adaptive_avg_pool2d, F.adaptive_avg_pool3d
avg_pool2d, avg_pool3d, max_pool1d, max_pool2d = F.avg_pool2d, F.avg_pool3d, F.max_pool1d, F.max_pool2d
interpolate, upsample, hardtanh, threshold = F.interpolate, F.upsample, F.hardtanh, F.threshold
upsample_bilinear, upsample_nearest, hardsigmoid = F.upsample_bilinear, F.upsample_nearest, F.hardsigmoid


def linear(input: Any, weight: Any, bias: Any = None, scale: Any = None, zero_point: Any = None) -> Any:
    """A linear layer; ``scale`` and ``zero_point`` are those of the input by default."""
    scale, zero_point = _or_its_own(input, scale, zero_point)
    return linear_of(input, weight, bias, scale, zero_point)


def _or_its_own(x: Any, scale: Any, zero_point: Any) -> tuple[Any, Any]:
    return x.q_scale() if scale is None else scale, x.q_zero_point() if zero_point is None else zero_point


def _convolution(n: int) -> Any:
    def conv(
        input: Any, weight: Any, bias: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1,
        padding_mode: str = "zeros", scale: float = 1.0, zero_point: int = 0, dtype: Any = torch.quint8,
    ) -> Any:  # fmt: skip
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        return convolve(input, weight, bias, scale, zero_point, stride, padding, dilation, groups)

    conv.__name__, conv.__doc__ = f"conv{n}d", f"A convolution of {n} dimensions over quantized tensors."
    return conv


conv1d, conv2d, conv3d = _convolution(1), _convolution(2), _convolution(3)


def hardswish(input: Any, scale: float, zero_point: int) -> Any:
    """``hardswish``, quantized with ``scale`` and ``zero_point``."""
    demand_quantized("quantized.hardswish", input)
    return requantized(F.hardswish(in_passing(input)), input, scale, zero_point)


def elu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """``elu``, quantized with ``scale`` and ``zero_point``."""
    demand_quantized("quantized.elu", input)
    return requantized(F.elu(in_passing(input), alpha), input, scale, zero_point)


def celu(input: Any, scale: float, zero_point: int, alpha: float = 1.0) -> Any:
    """``celu``, quantized with ``scale`` and ``zero_point``."""
    demand_quantized("quantized.celu", input)
    return requantized(F.celu(in_passing(input), alpha), input, scale, zero_point)


def leaky_relu(
    input: Any, negative_slope: float = 0.01, inplace: bool = False, scale: Any = None, zero_point: Any = None
) -> Any:
    """``leaky_relu``, quantized with ``scale`` and ``zero_point`` or as the input is."""
    demand_quantized("quantized.leaky_relu", input)
    scale, zero_point = _or_its_own(input, scale, zero_point)
    return requantized(F.leaky_relu(in_passing(input), negative_slope), input, scale, zero_point)


def clamp(input: Any, min_: float, max_: float) -> Any:
    """``input.clamp(min_, max_)``."""
    demand_quantized("quantized.clamp", input)
    return torch.clamp(input, min_, max_)
