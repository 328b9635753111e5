"""What the modules of quantized layers have in common."""

from __future__ import annotations

from typing import Any

from torchlike.ao._torch import torch
from torchlike.nn import Module
from torchlike.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights


class ScaledModule(Module):
    """A module whose result has a scale and a zero point, which are numbers here and tensors in state dicts."""

    scale: float
    zero_point: int

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = torch.tensor(self.scale)
        destination[prefix + "zero_point"] = torch.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:  # fmt: skip
        for name, kind in (("scale", float), ("zero_point", int)):
            if prefix + name in state_dict:
                setattr(self, name, kind(state_dict.pop(prefix + name)))
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _quantizes_to(self, observer: Any) -> None:
        """Take the scale and the zero point that an observer of the results has chosen."""
        scale, zero_point = observer.calculate_qparams()
        self.scale, self.zero_point = float(scale), int(zero_point)


class WeightedModule(ScaledModule):
    """A layer with quantized weights and a bias of floats."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self._weight_bias: tuple[Any, Any] = (None, None)

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take other weights, a quantized tensor, and another bias."""
        self._weight_bias = w, b

    def weight(self) -> Any:
        """The quantized weights."""
        return self._weight_bias[0]

    def bias(self) -> Any:
        """The bias, None if there is none."""
        return self._weight_bias[1]

    def _weight_bias_of(self) -> tuple[Any, Any]:
        return self._weight_bias

    def __deepcopy__(self, memo: Any) -> Any:
        new = type(self).__new__(type(self))
        Module.__init__(new)
        new.__dict__.update({k: v for k, v in self.__dict__.items() if k not in new.__dict__ or k == "training"})
        weight, bias = self._weight_bias
        new._weight_bias = weight.clone(), None if bias is None else bias.clone()
        memo[id(self)] = new
        return new


def folded(mod: Any) -> Any:
    """The layer with weights in a fused module; that which was trained with its batch norm has it folded in."""
    if hasattr(mod, "bn") and hasattr(mod, "weight_fake_quant"):
        bn = mod.bn
        fuse = fuse_linear_bn_weights if mod.weight.ndim == 2 else fuse_conv_bn_weights
        mod.weight, mod.bias = fuse(mod.weight, mod.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    if hasattr(mod, "weight"):
        return mod
    mod[0].qconfig = mod.qconfig
    return mod[0]


def observed_weight(mod: Any, precomputed: bool) -> Any:
    """What has observed the weights of a module that is converted: its fake quantizer, or a new observer."""
    observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
    if not precomputed:
        observer(mod.weight)
    if observer.dtype is not torch.qint8:
        raise AssertionError(f"Weight observer must have dtype torch.qint8, not {observer.dtype}")
    return observer


def demand_observed(cls: Any, mod: Any) -> None:
    """AssertionError for a module that cannot be converted."""
    if not hasattr(mod, "qconfig"):
        raise AssertionError(f"{cls.__name__}: Input float module must have qconfig defined")
