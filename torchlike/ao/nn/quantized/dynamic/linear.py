"""Linear layers of floats with quantized weights."""

from __future__ import annotations

from typing import Any

from torchlike.ao._torch import torch
from torchlike.ao.nn.quantized._compute import dynamic_linear, quantized_weight
from torchlike.ao.nn.quantized.linear import PackedLinear
from torchlike.backends import quantized as backend


def reduces_range() -> bool:
    """Whether inputs are quantized without the last bit: on all engines but qnnpack."""
    return backend.engine != "qnnpack"


class Linear(PackedLinear):
    """A linear layer of floats: the input is quantized by its range, the weights are int8 (or float16).

    >>> import torchlike as torch
    >>> torch.ao.nn.quantized.dynamic.Linear(3, 2)(torch.ones(1, 3))
    tensor([[0., 0.]])
    """

    _version = 4
    _name = "DynamicQuantizedLinear"
    _relu = False

    def forward(self, x: Any) -> Any:
        """The layer of ``x``."""
        return dynamic_linear(x, self.weight(), self.bias(), self._relu, reduces_range())

    def extra_repr(self) -> str:
        text = f"in_features={self.in_features}, out_features={self.out_features}, dtype={self._packed_params.dtype}"
        return text + (f", qscheme={self.weight().qscheme()}" if self._packed_params.dtype is torch.qint8 else "")

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of one with a ``qconfig``."""
        if not hasattr(mod, "qconfig"):
            raise AssertionError("Input float module must have qconfig defined")
        mod = mod if hasattr(mod, "in_features") else _with_setting(mod)
        observer = weight_observer(mod)
        observer(mod.weight)
        new = cls(mod.in_features, mod.out_features, dtype=observer.dtype)
        bias = None if mod.bias is None else mod.bias.detach()
        new.set_weight_bias(weight_of(mod.weight, observer), bias)
        return new


def _with_setting(mod: Any) -> Any:
    """The linear layer in a fused module, with its setting."""
    mod[0].qconfig = mod.qconfig
    return mod[0]


def weight_observer(mod: Any) -> Any:
    """A new observer of the weights of ``mod``."""
    setting = mod.qconfig
    if setting is not None and setting.weight is not None:
        return setting.weight()
    raise AssertionError(f"{type(mod).__name__}: its qconfig says nothing of weights")


def weight_of(weight: Any, observer: Any) -> Any:
    """Weights as int8, or as what float16 keeps of them."""
    if observer.dtype is torch.float16:
        return weight.detach().half().float()
    if observer.dtype is torch.qint8:
        return quantized_weight(weight, observer)
    raise RuntimeError(f"Unsupported dtype specified for dynamic quantized layers: {observer.dtype}")
