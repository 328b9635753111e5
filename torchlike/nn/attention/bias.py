"""Causal masks for scaled_dot_product_attention, which know where queries stand among the keys."""

import warnings
from collections.abc import Callable
from enum import IntEnum, auto
from typing import Any

from torchlike._base.dtypes import bool as boolean
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names
from torchlike.nn.functional.attention import scaled_dot_product_attention

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corners of a causal mask that is not square are on its diagonal."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A causal mask [seq_len_q, seq_len_kv] as the ``attn_mask`` of ``scaled_dot_product_attention``.

    Made by :func:`causal_upper_left` and :func:`causal_lower_right`. Its numbers are computed where it is used, and
    it is an argument of that function only.

    Raises:
        AssertionError: ``variant`` is no :class:`CausalVariant`.
        NotImplementedError: by other functions, which may take ``bias._materialize()``, a tensor of bool.
    """

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> "CausalBias":
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        nothing = FUNCTIONS["zeros"](()).expand(int(variant), seq_len_q, seq_len_kv)  # PyTorch's shape, of no memory
        return nothing.as_subclass(cls)

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=3
            )

    def _materialize(self, device: Any = None) -> Tensor:
        """[seq_len_q, seq_len_kv] of bool: True where a query attends to a key."""
        shift = self.seq_len_kv - self.seq_len_q if self.variant is CausalVariant.LOWER_RIGHT else 0
        ones = FUNCTIONS["ones"](self.seq_len_q, self.seq_len_kv, device=device, dtype=boolean)
        return FUNCTIONS["tril"](ones, shift)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return repr(self._materialize())

    __str__ = __repr__

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is scaled_dot_product_attention or getattr(func, "__wrapped__", None) is scaled_dot_product_attention:
            return _attend(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "__get__":
            return super().__torch_function__(func, types, args, kwargs)
        raise NotImplementedError(
            f"{getattr(func, '__name__', func)}(): a CausalBias is a mask for scaled_dot_product_attention only; for "
            "others take bias._materialize()"
        )


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if is_causal:
        raise ValueError("CausalBias should not be used with causal=True")
    if not isinstance(attn_mask, CausalBias):
        raise NotImplementedError("scaled_dot_product_attention(): a CausalBias is its attn_mask, not another argument")
    options = {"dropout_p": dropout_p, "scale": scale, "enable_gqa": enable_gqa}
    if attn_mask.variant is CausalVariant.UPPER_LEFT or attn_mask.seq_len_q == attn_mask.seq_len_kv:
        return scaled_dot_product_attention(query, key, value, is_causal=True, **options)
    return scaled_dot_product_attention(query, key, value, attn_mask._materialize(query.device), **options)


def causal_upper_left(*size: int) -> CausalBias:
    """The mask of ``size`` [L, S] by which query i attends to keys 0..i, as ``is_causal=True`` does.

    Raises:
        AssertionError: ``size`` is not two numbers.

    >>> from torchlike.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _of(CausalVariant.UPPER_LEFT, "causal_upper_left", size)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask of ``size`` [L, S] by which the last query attends to all keys, and each one before to one less.

    Raises:
        AssertionError: ``size`` is not two numbers.

    >>> from torchlike.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _of(CausalVariant.LOWER_RIGHT, "causal_lower_right", size)


def _of(variant: CausalVariant, name: str, size: tuple) -> CausalBias:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors, got a size of {len(size)} numbers")
    return CausalBias(variant, *size)


__getattr__ = missing_names(__name__)
