"""Attention among the tokens of each row of a batch."""

from __future__ import annotations

import inspect
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.nested._base import Nested, common, like
from torchlike.nested._rules import demand_whole, is_jagged, padded, rule, unpadded


@rule("scaled_dot_product_attention")
def _attention(
    func: Any, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """Queries, keys and values [batch, heads, ragged, features]; keys and values have rows of the same lengths."""
    tensors = query, key, value
    if not all(is_jagged(t) for t in tensors):
        raise ValueError("scaled_dot_product_attention(): expected query, key, and value to all be nested tensors")
    if attn_mask is not None:
        raise ValueError("scaled_dot_product_attention(): attn_mask is not supported for nested tensors")
    if any(t.dim() != query.dim() or t._ragged_idx != t.dim() - 2 for t in tensors):
        shapes = ", ".join([str(tuple(t.shape)) for t in tensors])
        raise RuntimeError(
            f"scaled_dot_product_attention(): the ragged dimension must be the last but one, got {shapes}"
        )
    if not key._ragged.fits(value._ragged):
        raise RuntimeError("scaled_dot_product_attention(): key and value must have rows of the same lengths")
    for t in tensors:
        demand_whole("scaled_dot_product_attention", t)
    q, k, v = [padded(t, 0) for t in tensors]
    out = func(q, k, v, _seen(query, key, is_causal), dropout_p, False, scale=scale, enable_gqa=enable_gqa)
    if out.dim() == 4:  # tokens lie together, as the layers behind want them
        return like(unpadded(out.transpose(1, 2), query._ragged).transpose(0, 1), query)
    return like(unpadded(out, query._ragged, query._ragged_idx), query)


@common("multi_head_attention_forward")
def _multi_head(func: Any, *args: Any, **kwargs: Any) -> tuple[Any, Tensor | None]:
    """Of nested tensors [batch, ragged, features]; weights are 0 behind the ends of rows."""
    given = inspect.signature(func).bind(*args, **kwargs).arguments
    query, key, value = tensors = [given[name] for name in ("query", "key", "value")]
    if not all(isinstance(t, Nested) and t.layout is query.layout and t.dim() == 3 for t in tensors):
        raise AssertionError("MultiheadAttention: query, key and value must all be nested tensors of 3 dimensions")
    if given.get("key_padding_mask") is not None or given.get("attn_mask") is not None:
        raise RuntimeError("MultiheadAttention: nested tensors need no key_padding_mask, and take no attn_mask")
    of_queries, of_keys = [_ends(t) for t in (query, key)]
    names = ("query", "key", "value")
    given.update({name: t.to_padded_tensor(0.0).transpose(0, 1) for name, t in zip(names, tensors, strict=True)})
    out, weights = func(**{**given, "key_padding_mask": of_keys})
    if weights is not None:
        behind = of_queries[..., None] if weights.dim() == 3 else of_queries[:, None, :, None]
        weights = weights.masked_fill(behind, 0.0)
    return query._rows_of_padded(out.transpose(0, 1)), weights


def _ends(t: Any) -> Tensor:
    """bool [batch, longest]: what lies behind the ends of rows."""
    lengths = t._row_lengths()
    return _F["arange"](max(lengths), device=t.device)[None] >= _F["tensor"](lengths, device=t.device)[:, None]


def _seen(query: Tensor, key: Tensor, is_causal: bool) -> Tensor:
    """bool [batch, 1 ..., queries, keys]: which keys a query sees."""
    there = key._ragged.places(key._ragged.longest)[1]
    mask = there.reshape(there.shape[0], *[1] * (query.dim() - 2), there.shape[1])
    if not is_causal:
        return mask
    ones = _F["ones"](query._ragged.longest, key._ragged.longest, dtype=mask.dtype, device=mask.device)
    return mask & ones.tril()
