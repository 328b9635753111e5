"""Linear layers with quantized weights over quantized tensors."""

from __future__ import annotations

from typing import Any

from torchlike.ao._torch import torch
from torchlike.ao.nn.quantized._compute import linear, quantized_weight
from torchlike.ao.nn.quantized._module import ScaledModule, demand_observed, folded, observed_weight
from torchlike.nn import Module


class LinearPackedParams(Module):
    """The weights and the bias of a linear layer, as state dicts keep them: one tuple."""

    _version = 3

    def __init__(self, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.dtype = dtype
        self._packed_params: tuple[Any, Any] = (None, None)

    def set_weight_bias(self, weight: Any, bias: Any) -> None:
        """Take other weights and another bias."""
        self._packed_params = weight, bias

    def _weight_bias(self) -> tuple[Any, Any]:
        return self._packed_params

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._packed_params

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if prefix + "_packed_params" in state_dict:
            self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
            self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class PackedLinear(ScaledModule):
    """A linear layer whose weights lie in ``_packed_params``."""

    _version = 3
    _name = "QuantizedLinear"

    def __init__(self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = torch.qint8) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.scale, self.zero_point = 1.0, 0
        if dtype is torch.qint8:
            weight = torch._empty_affine_quantized([out_features, in_features], scale=1, zero_point=0, dtype=dtype)
        elif dtype is torch.float16:
            weight = torch.zeros(out_features, in_features, dtype=torch.float)
        else:
            raise RuntimeError(f"Unsupported dtype specified for quantized Linear: {dtype}; use torch.qint8")
        self._packed_params = LinearPackedParams(dtype)
        self._packed_params.set_weight_bias(weight, torch.zeros(out_features) if bias_ else None)

    def _get_name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"{self._name}({self.extra_repr()})"

    def set_weight_bias(self, w: Any, b: Any) -> None:
        """Take other weights, a quantized tensor, and another bias."""
        self._packed_params.set_weight_bias(w, b)

    def _weight_bias(self) -> tuple[Any, Any]:
        return self._packed_params._weight_bias()

    def weight(self) -> Any:
        """The quantized weights."""
        return self._weight_bias()[0]

    def bias(self) -> Any:
        """The bias, None if there is none."""
        return self._weight_bias()[1]


class Linear(PackedLinear):
    """A linear layer over a quantized tensor, whose result is quantized with ``scale`` and ``zero_point``.

    >>> import torchlike as torch
    >>> layer = torch.ao.nn.quantized.Linear(3, 2)
    >>> layer(torch.quantize_per_tensor(torch.ones(1, 3), 0.1, 0, torch.quint8)).int_repr()
    tensor([[0, 0]], dtype=torch.uint8)
    """

    def forward(self, x: Any) -> Any:
        """The layer of ``x``."""
        return linear(x, self.weight(), self.bias(), self.scale, self.zero_point)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, scale={self.scale}, "
            f"zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized layer of one that was prepared and calibrated."""
        demand_observed(cls, mod)
        results, mod = mod.activation_post_process, folded(mod)
        weight = observed_weight(mod, use_precomputed_fake_quant)
        new = cls(mod.in_features, mod.out_features, dtype=weight.dtype)
        new.set_weight_bias(quantized_weight(mod.weight, weight), None if mod.bias is None else mod.bias.detach())
        new._quantizes_to(results)
        return new
