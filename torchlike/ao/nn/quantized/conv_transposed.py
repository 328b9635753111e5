"""Transposed convolutions with quantized weights over quantized tensors."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import layer_of, quantized_weight
from torchlike.ao.nn.quantized._module import demand_observed
from torchlike.ao.nn.quantized.conv import _ConvNd, channels_last
from torchlike.nn.modules.utils import _pair, _single, _triple


class _ConvTransposeNd(_ConvNd):
    """What transposed convolutions of all dimensions have in common; their weights have one scale."""

    _name = "QuantizedConvTranspose"

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, bias: bool = True, dilation: Any = 1, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}, not {padding_mode!r}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self.output_padding = (_single, _pair, _triple)[self._n - 1](output_padding)

    def _shape(self) -> list[int]:
        return [self.in_channels, self.out_channels // self.groups, *self.kernel_size]

    def extra_repr(self) -> str:
        if self.output_padding == (0,) * self._n:
            return super().extra_repr()
        groups = f", groups={self.groups}"
        text, split, rest = super().extra_repr().partition(groups if self.groups != 1 else ", bias")
        return f"{text}, output_padding={self.output_padding}{split}{rest}"

    def forward(self, input: Any) -> Any:
        """The transposed convolution of ``input``, quantized."""
        function = partial(
            (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._n - 1], stride=self.stride,
            padding=self.padding, output_padding=self.output_padding, groups=self.groups, dilation=self.dilation,
        )  # fmt: skip
        count = self.in_channels // self.groups * prod(self.kernel_size)
        return channels_last(layer_of(
            function, input, self.weight(), self.bias(), self.scale, self.zero_point, self._relu,
            f"quantized.conv_transpose{self._n}d", self._n, count,
        ))  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of one that was prepared and calibrated."""
        demand_observed(cls, mod)
        observer = mod.qconfig.weight()
        if observer.qscheme in (torch.per_channel_symmetric, torch.per_channel_affine):
            raise AssertionError(
                "Per channel weight observer is not supported yet for ConvTranspose{n}d: give it a qconfig with one "
                "scale, as get_default_qconfig('qnnpack')"
            )
        observer(mod.weight)
        if observer.dtype is not torch.qint8:
            raise AssertionError(f"Weight observer must have dtype qint8, not {observer.dtype}")
        new = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, mod.stride, mod.padding, mod.output_padding, mod.groups,
            mod.bias is not None, mod.dilation, mod.padding_mode,
        )  # fmt: skip
        new.set_weight_bias(quantized_weight(mod.weight, observer), None if mod.bias is None else mod.bias.detach())
        new._quantizes_to(mod.activation_post_process)
        return new


class ConvTranspose1d(_ConvTransposeNd):
    """A transposed convolution of one dimension over a quantized tensor."""

    _n = 1


class ConvTranspose2d(_ConvTransposeNd):
    """A transposed convolution of two dimensions over a quantized tensor; the result lies with channels last.

    >>> import torchlike as torch
    >>> torch.ao.nn.quantized.ConvTranspose2d(3, 4, 2, stride=2)
    QuantizedConvTranspose2d(3, 4, kernel_size=(2, 2), stride=(2, 2), scale=1.0, zero_point=0)
    """

    _n = 2


class ConvTranspose3d(_ConvTransposeNd):
    """A transposed convolution of three dimensions over a quantized tensor."""

    _n = 3
