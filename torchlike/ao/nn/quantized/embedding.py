"""Embeddings with quantized weights: rows are read as the numbers that their integers stand for."""

from __future__ import annotations

from typing import Any

from torchlike import nn
from torchlike.ao._torch import F, torch


class Embedding(nn.Module):
    """An embedding whose rows are quint8, each with a scale and zero point of its own; the result is of floats."""

    _version = 1

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None, max_norm: Any = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Any = None,
        dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__()
        if dtype is not torch.quint8:
            raise NotImplementedError(f"quantized embeddings of {dtype} are not supported; use torch.quint8")
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        if _weight is None:
            ones, zeros = torch.ones(num_embeddings), torch.zeros(num_embeddings)
            weight = torch.zeros(num_embeddings, embedding_dim)
            _weight = torch.quantize_per_channel(weight, ones, zeros, 0, dtype)
        self._weight = _weight

    def weight(self) -> Any:
        """The quantized rows."""
        return self._weight

    def set_weight(self, w: Any) -> None:
        """Take other rows, a quantized tensor."""
        self._weight = w

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, dtype={self.dtype}, "
            f"qscheme={self._weight.qscheme()}"
        )

    def forward(self, indices: Any) -> Any:
        """The rows at ``indices``."""
        return F.embedding(indices, self._weight.dequantize())

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized embedding of one with a ``qconfig``."""
        observer = _observed(cls, mod)
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=_rows(mod.weight, observer))


class EmbeddingBag(Embedding):
    """Bags of embeddings whose rows are quint8."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: Any = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "sum", sparse: bool = False, _weight: Any = None,
        include_last_offset: bool = False, dtype: Any = torch.quint8,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        if mode != "sum":
            raise NotImplementedError(f"quantized bags of mode {mode!r} are not supported; use 'sum'")
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, indices: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:  # type: ignore[override]
        """The bags of rows at ``indices``."""
        return F.embedding_bag(
            indices, self._weight.dequantize(), offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized bags of ones with a ``qconfig``."""
        observer = _observed(cls, mod)
        return cls(
            mod.num_embeddings, mod.embedding_dim, mode=mod.mode, include_last_offset=mod.include_last_offset,
            _weight=_rows(mod.weight, observer),
        )  # fmt: skip


def _observed(cls: Any, mod: Any) -> Any:
    if not hasattr(mod, "qconfig"):
        raise AssertionError(f"{cls.__name__} input float module must have qconfig defined")
    observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
    if observer.qscheme is not torch.per_channel_affine_float_qparams:
        raise AssertionError(
            "Embedding quantization is only supported with float_qparams_weight_only_qconfig: got a weight observer of "
            f"{observer.qscheme}"
        )
    observer(mod.weight)
    return observer


def _rows(weight: Any, observer: Any) -> Any:
    scale, zero_point = observer.calculate_qparams()
    return torch.quantize_per_channel(weight.detach().float(), scale, zero_point, 0, observer.dtype)
