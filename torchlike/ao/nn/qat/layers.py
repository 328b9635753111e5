"""Layers whose weights are rounded as quantization will, while they are trained."""

from __future__ import annotations

from typing import Any

from torchlike import nn
from torchlike.ao._torch import F


def demand_setting(qconfig: Any) -> Any:
    """The setting of a layer that is trained with rounded weights."""
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    return qconfig


def setting_of(cls: Any, mod: Any, kind: Any) -> Any:
    """The setting of a float module that becomes one of ``cls``."""
    if type(mod) is not kind:
        raise AssertionError(f"qat.{cls.__name__}.from_float only works for {kind.__name__}, not {type(mod).__name__}")
    if not hasattr(mod, "qconfig"):
        raise AssertionError("Input float module must have qconfig defined")
    if not mod.qconfig:
        raise AssertionError("Input float module must have a valid qconfig")
    return mod.qconfig


class Linear(nn.Linear):
    """A linear layer with rounded weights."""

    _FLOAT_MODULE: Any = nn.Linear

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = demand_setting(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        """The layer of ``input``."""
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The layer of one of floats with a ``qconfig``, with its very parameters."""
        setting = setting_of(cls, mod, cls._FLOAT_MODULE)
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        new = cls(mod.in_features, mod.out_features, bias=mod.bias is not None, qconfig=setting)
        new.weight, new.bias = mod.weight, mod.bias
        return new

    def to_float(self) -> Any:
        """The layer of floats, with copies of the parameters."""
        new = nn.Linear(self.in_features, self.out_features, self.bias is not None)
        new.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            new.bias = nn.Parameter(self.bias.detach())
        new.train(self.training)
        return new


class _ConvNd(nn.modules.conv._ConvNd):
    """A convolution with rounded weights."""

    _FLOAT_MODULE: Any = None

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, groups=groups,
            bias=bias, padding_mode=padding_mode, device=device, dtype=dtype,
        )  # type: ignore[call-arg]  # fmt: skip
        self.qconfig = demand_setting(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        """The convolution of ``input``."""
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)  # type: ignore[attr-defined]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The convolution of one of floats with a ``qconfig``, with its very parameters."""
        setting = setting_of(cls, mod, cls._FLOAT_MODULE)
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        new = cls(
            mod.in_channels, mod.out_channels, mod.kernel_size, stride=mod.stride, padding=mod.padding,
            dilation=mod.dilation, groups=mod.groups, bias=mod.bias is not None, padding_mode=mod.padding_mode,
            qconfig=setting,
        )  # fmt: skip
        new.weight, new.bias = mod.weight, mod.bias
        return new

    def to_float(self) -> Any:
        """The convolution of floats, with copies of the parameters."""
        kind = next(c for c in (nn.Conv1d, nn.Conv2d, nn.Conv3d) if isinstance(self, c))
        new = kind(
            self.in_channels, self.out_channels, self.kernel_size, self.stride, self.padding, self.dilation,
            self.groups, self.bias is not None, self.padding_mode,
        )  # type: ignore[arg-type]  # fmt: skip
        new.weight = nn.Parameter(self.weight.detach())
        if self.bias is not None:
            new.bias = nn.Parameter(self.bias.detach())
        return new


class Conv1d(_ConvNd, nn.Conv1d):  # type: ignore[valid-type,misc]
    """A convolution of one dimension with rounded weights."""

    _FLOAT_MODULE = nn.Conv1d


class Conv2d(_ConvNd, nn.Conv2d):  # type: ignore[valid-type,misc]
    """A convolution of two dimensions with rounded weights."""

    _FLOAT_MODULE = nn.Conv2d


class Conv3d(_ConvNd, nn.Conv3d):  # type: ignore[valid-type,misc]
    """A convolution of three dimensions with rounded weights."""

    _FLOAT_MODULE = nn.Conv3d


class Embedding(nn.Embedding):
    """An embedding with rounded weights."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = demand_setting(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any) -> Any:
        """The rows of the rounded weights."""
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The embedding of one of floats with a ``qconfig``, with its very parameters."""
        setting = setting_of(cls, mod, nn.Embedding)
        new = cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, qconfig=setting,
        )  # fmt: skip
        new.weight = mod.weight
        return new


class EmbeddingBag(nn.EmbeddingBag):
    """Bags of embeddings with rounded weights."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.qconfig = demand_setting(qconfig)
        self.weight_fake_quant = qconfig.weight()

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        """The bags of rows of the rounded weights."""
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The bags of ones of floats with a ``qconfig``, with their very parameters."""
        setting = setting_of(cls, mod, nn.EmbeddingBag)
        new = cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type, mod.scale_grad_by_freq, mod.mode,
            mod.sparse, mod.weight, mod.include_last_offset, mod.padding_idx, qconfig=setting,
        )  # fmt: skip
        new.weight = mod.weight
        return new
