"""Convolutions with quantized weights over quantized tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import layer_of, quantized_weight
from torchlike.ao.nn.quantized._module import WeightedModule, demand_observed, folded, observed_weight
from torchlike.nn.modules.utils import _pair, _single, _triple

_PADS = {"reflect": "reflect", "replicate": "replicate", "circular": "circular"}


def convolve(
    x: Any, weight: Any, bias: Any, scale: Any, zero_point: Any, stride: Any, padding: Any, dilation: Any, groups: int,
    relu: bool = False,
) -> Any:  # fmt: skip
    """``torch.ops.quantized.conv1d``, ``conv2d`` or ``conv3d``, by the dimensions of the weights."""
    n = weight.ndim - 2
    function = partial((F.conv1d, F.conv2d, F.conv3d)[n - 1], stride=stride, padding=padding, dilation=dilation,
                       groups=groups)  # fmt: skip
    return channels_last(layer_of(function, x, weight, bias, scale, zero_point, relu, f"quantized.conv{n}d", n))


def channels_last(out: Any) -> Any:
    """The layout of the results of quantized convolutions."""
    if out.ndim == 3:
        return out.transpose(1, 2).contiguous().transpose(1, 2)
    return out.contiguous(memory_format=torch.channels_last if out.ndim == 4 else torch.channels_last_3d)


class _ConvNd(WeightedModule):
    """What convolutions of all dimensions have in common."""

    _n: int
    _relu = False
    _name = "QuantizedConv"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if padding_mode not in ("zeros", *_PADS):
            raise NotImplementedError(f"padding_mode {padding_mode!r} is not supported by quantized convolution")
        many = (_single, _pair, _triple)[self._n - 1]
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = many(kernel_size), many(stride), many(dilation)
        self.padding = padding if isinstance(padding, str) else many(padding)
        self.padding_mode = padding_mode
        weight = torch._empty_affine_quantized(self._shape(), scale=1, zero_point=0, dtype=torch.qint8, device=device)
        self.set_weight_bias(weight, torch.zeros(out_channels, device=device) if bias else None)

    def _shape(self) -> list[int]:
        return [self.out_channels, self.in_channels // self.groups, *self.kernel_size]

    def _get_name(self) -> str:
        return f"{self._name}{self._n}d"

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"scale={self.scale}, zero_point={self.zero_point}"
        )
        if self.padding != (0,) * self._n:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._n:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text + (", bias=False" if self.bias() is None else "")

    def forward(self, input: Any) -> Any:
        """The convolution of ``input``, quantized."""
        padding = self.padding
        if self.padding_mode != "zeros":
            sides = [p for n in reversed(padding) for p in (n, n)]
            codes = F.pad(input.dequantize(), sides, mode=self.padding_mode)
            input = torch.quantize_per_tensor(codes, input.q_scale(), input.q_zero_point(), input.dtype)
            padding = (0,) * self._n
        return convolve(
            input, self.weight(), self.bias(), self.scale, self.zero_point, self.stride, padding, self.dilation,
            self.groups, self._relu,
        )  # fmt: skip

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        scale, zero_point = destination.pop(prefix + "scale"), destination.pop(prefix + "zero_point")
        destination.update({prefix + "weight": self.weight(), prefix + "bias": self.bias(), prefix + "scale": scale,
                            prefix + "zero_point": zero_point})  # fmt: skip

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "weight" in state_dict:
            self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias", None))
        super()._load_from_state_dict(state_dict, prefix, *args)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized convolution of one that was prepared and calibrated."""
        demand_observed(cls, mod)
        results, mod = mod.activation_post_process, folded(mod)
        observer = observed_weight(mod, use_precomputed_fake_quant)
        new = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.dilation, mod.groups,
            mod.bias is not None, mod.padding_mode,
        )  # fmt: skip
        new.set_weight_bias(quantized_weight(mod.weight, observer), None if mod.bias is None else mod.bias.detach())
        new._quantizes_to(results)
        return new


class Conv1d(_ConvNd):
    """A convolution of one dimension over a quantized tensor."""

    _n = 1


class Conv2d(_ConvNd):
    """A convolution of two dimensions over a quantized tensor; the result lies with channels last.

    >>> import torchlike as torch
    >>> torch.ao.nn.quantized.Conv2d(3, 4, 3)
    QuantizedConv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), scale=1.0, zero_point=0)
    """

    _n = 2


class Conv3d(_ConvNd):
    """A convolution of three dimensions over a quantized tensor."""

    _n = 3
