"""Other layers over quantized tensors: activations, norms, and the ways in and out."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

from torchlike import nn
from torchlike._core.quantized.quantize import in_passing
from torchlike.ao._torch import F, torch
from torchlike.ao.nn.quantized._compute import demand_quantized
from torchlike.ao.nn.quantized._module import ScaledModule
from torchlike.ao.nn.quantized._operators import requantized


class Quantize(nn.Module):
    """Quantizes a tensor of floats.

    >>> import torchlike as torch
    >>> torch.ao.nn.quantized.Quantize(0.5, 2, torch.quint8)(torch.ones(1)).int_repr()
    tensor([4], dtype=torch.uint8)
    """

    scale: Any
    zero_point: Any

    def __init__(self, scale: Any, zero_point: Any, dtype: Any, factory_kwargs: Any = None) -> None:
        super().__init__()
        given = dict(factory_kwargs or {})
        self.register_buffer("scale", torch.tensor([scale], **given))
        self.register_buffer("zero_point", torch.tensor([zero_point], dtype=torch.long, **given))
        self.dtype = dtype

    def forward(self, X: Any) -> Any:
        """``X``, quantized."""
        return torch.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a QuantStub that has observed."""
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        return Quantize(float(scale), int(zero_point), mod.activation_post_process.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(nn.Module):
    """The numbers that a quantized tensor stands for."""

    def forward(self, Xq: Any) -> Any:
        """``Xq.dequantize()``."""
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a DeQuantStub."""
        return DeQuantize()


class Dropout(nn.Dropout):
    """Gives its input back: quantized models are not trained."""

    def forward(self, input: Any) -> Any:
        """``input``."""
        return input

    def _get_name(self) -> str:
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a Dropout."""
        return cls(mod.p, mod.inplace)


class ReLU6(nn.ReLU):
    """What is at least 0 and at most 6."""

    def forward(self, input: Any) -> Any:
        """``input`` within [0, 6]."""
        return F.relu6(input, self.inplace)

    def _get_name(self) -> str:
        return "QuantizedReLU6"

    @staticmethod
    def from_float(mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a ReLU6."""
        return ReLU6(mod.inplace)


class _Scaled(ScaledModule):
    """A function of the numbers, quantized with ``scale`` and ``zero_point`` given first."""

    def _rounded(self, numbers: Any, like: Any) -> Any:
        return requantized(numbers, like, self.scale, self.zero_point)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"


class Hardswish(_Scaled):
    """``hardswish``, quantized."""

    def __init__(self, scale: float, zero_point: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.scale, self.zero_point = float(scale), int(zero_point)

    def forward(self, input: Any) -> Any:
        """The function of ``input``."""
        demand_quantized("quantized.Hardswish", input)
        return self._rounded(F.hardswish(in_passing(input)), input)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a module that was prepared and calibrated."""
        new = cls(1.0, 0)
        new._quantizes_to(mod.activation_post_process)
        return new


class ELU(Hardswish):
    """``elu``, quantized."""

    def __init__(self, scale: float, zero_point: int, alpha: float = 1.0) -> None:
        super().__init__(scale, zero_point)
        self.alpha = alpha

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"

    def forward(self, input: Any) -> Any:
        """The function of ``input``."""
        demand_quantized("quantized.ELU", input)
        return self._rounded(F.elu(in_passing(input), self.alpha), input)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a module that was prepared and calibrated."""
        new = super().from_float(mod)
        new.alpha = mod.alpha
        return new


class LeakyReLU(Hardswish):
    """``leaky_relu``, quantized."""

    def __init__(
        self, scale: float, zero_point: int, negative_slope: float = 1e-2, inplace: bool = False, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(scale, zero_point)
        self.negative_slope = negative_slope

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}"

    def forward(self, input: Any) -> Any:
        """The function of ``input``."""
        demand_quantized("quantized.LeakyReLU", input)
        return self._rounded(F.leaky_relu(in_passing(input), self.negative_slope), input)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a module that was prepared and calibrated."""
        new = super().from_float(mod)
        new.negative_slope = mod.negative_slope
        return new


class _Rounded:
    """A norm of the numbers of a quantized tensor, rounded anew: before the class of the norm of floats."""

    def forward(self, input: Any) -> Any:
        """The norm of ``input``."""
        demand_quantized(self._get_name(), input)
        out = super().forward(input.dequantize())  # type: ignore[misc]
        return requantized(out.detach(), input, float(self.scale), int(self.zero_point))  # type: ignore[attr-defined]

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a module that was prepared and calibrated: with its very parameters."""
        new = copy.copy(mod)
        new.__class__ = cls
        new._buffers, new._modules, new._forward_hooks = dict(mod._buffers), {}, OrderedDict()
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        new.register_buffer("scale", scale.reshape(()))  # type: ignore[attr-defined]
        new.register_buffer("zero_point", zero_point.reshape(()).long())  # type: ignore[attr-defined]
        return new


class LayerNorm(_Rounded, nn.LayerNorm):
    """Layer norm, quantized."""


class GroupNorm(_Rounded, nn.GroupNorm):
    """Group norm, quantized."""


class InstanceNorm1d(_Rounded, nn.InstanceNorm1d):
    """Instance norm of sequences, quantized."""


class InstanceNorm2d(_Rounded, nn.InstanceNorm2d):
    """Instance norm of images, quantized."""


class InstanceNorm3d(_Rounded, nn.InstanceNorm3d):
    """Instance norm of volumes, quantized."""


class _BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm in evaluation, quantized."""

    _relu = False

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(num_features, eps, momentum, True, True, device=device, dtype=dtype)
        self.register_buffer("scale", torch.tensor(1.0))
        self.register_buffer("zero_point", torch.tensor(0))

    def forward(self, input: Any) -> Any:
        """The norm of ``input``."""
        demand_quantized(self._get_name(), input)
        out = F.batch_norm(
            input.dequantize(), self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
        )
        out = F.relu(out) if self._relu else out
        order = torch.channels_last if input.ndim == 4 else torch.channels_last_3d
        out = out.detach().contiguous(memory_format=order)
        return requantized(out, input, float(self.scale), int(self.zero_point))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """That of a module that was prepared and calibrated."""
        observer = mod.activation_post_process
        mod = mod[0] if isinstance(mod, nn.Sequential) else mod
        new = cls(mod.num_features, mod.eps)
        new.weight, new.bias = mod.weight, mod.bias
        new.running_mean, new.running_var = mod.running_mean, mod.running_var
        scale, zero_point = observer.calculate_qparams()
        new.scale, new.zero_point = scale.reshape(()), zero_point.reshape(()).long()
        return new


class BatchNorm2d(_BatchNorm):
    """Batch norm of images, quantized."""

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim != 4:
            raise ValueError(f"Input shape must be `(N, C, H, W)`: got {input.ndim} dimensions")


class BatchNorm3d(_BatchNorm):
    """Batch norm of volumes, quantized."""

    def _check_input_dim(self, input: Any) -> None:
        if input.ndim != 5:
            raise ValueError(f"Input shape must be `(N, C, H, W, D)`: got {input.ndim} dimensions")
