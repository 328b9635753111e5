"""Attention of sequences of several lengths, packed one after another: ``torch.nn.attention.varlen``."""

from __future__ import annotations

from typing import Any, NamedTuple

from torchlike._core.conversion.factories import arange
from torchlike._core.dispatch.bind import FUNCTIONS as _F
from torchlike._core.dispatch.dispatch import call
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.attention import lengths_within
from torchlike.interop.alias import missing_names

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """What attention gives beside its output: ``lse``, the logarithms of the sums of exponentials of scores."""

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention of every sequence of a pack to the keys of its own: [tokens, heads, D], in the dtype of ``query``.

    It runs on every device and in every floating dtype; sums are of float32. Memory is that of all sequences at their
    greatest length.

    Args:
        query: [tokens, heads, D]. key, value: [tokens of keys, heads, D].
        cu_seq_q, cu_seq_k: [N + 1], where each sequence starts, and the end of the last. ``cu_seq_k=None`` is that of
            queries where ``seqused_k`` is absent too.
        max_q, max_k: at least the greatest length.
        return_aux: with ``lse=True`` also the logarithms [heads, tokens], of float32.
        scale: of scores, by default the root of 1 / D.
        window_size: how many keys to the left and to the right of its own each query sees; -1 for all, (-1, 0) is
            causal. The last query of a sequence stands at its last key.
        enable_gqa: whether queries have a multiple of the heads of keys.
        seqused_k: [N], how many keys count of each sequence; not differentiable.
        block_table: [N, pages of a sequence]: key and value are pages [pages, page size, heads, D], which this names
            for each sequence; ``seqused_k`` says how many keys there are. num_splits: accepted; there is one way.

    Raises:
        ValueError: heads that do not go together, a window that is no pair.
        RuntimeError: ``seqused_k`` or ``block_table`` where gradients are wanted; a sequence that is longer than
            ``max_q`` or ``max_k``.

    >>> import torchlike as torch
    >>> from torchlike.nn.attention.varlen import varlen_attn
    >>> x, starts = torch.ones(5, 1, 4), torch.tensor([0, 2, 5])
    >>> varlen_attn(x, x, x, starts, starts, 3, 3).shape
    torch.Size([5, 1, 4])
    """
    window = tuple(window_size)
    if len(window) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window)}")
    heads, of_keys = query.shape[1], key.shape[-2]
    _demand_heads(heads, of_keys, enable_gqa)
    _demand_inference(query, key, value, {"seqused_k": seqused_k, "block_table": block_table})
    if block_table is not None:
        if seqused_k is None:
            raise ValueError("varlen_attn(): block_table needs seqused_k, the number of keys of each sequence")
        rows = _pages(block_table, key.shape[1], max_k)
        key, value = key.flatten(0, 1), value.flatten(0, 1)
    else:
        starts = cu_seq_q if cu_seq_k is None else cu_seq_k
        rows = starts[:-1, None] + _upto(max_k, starts)
        seqused_k = starts[1:] - starts[:-1] if seqused_k is None else seqused_k
    long_q = cu_seq_q[1:] - cu_seq_q[:-1]
    long_q = call(lengths_within, (long_q,), (max_q, "max_q"))
    seqused_k = call(lengths_within, (seqused_k,), (max_k, "max_k"))
    packed = _packed(key, rows, heads // of_keys), _packed(value, rows, heads // of_keys)
    asked = _packed(query, cu_seq_q[:-1, None] + _upto(max_q, cu_seq_q), 1)
    out, lse = _attention(asked, *packed, _window_mask(long_q, seqused_k, max_q, max_k, window), scale)
    sequence, place, real = _owners(query.shape[0], cu_seq_q)
    place = place.clamp(max=max_q - 1)
    out = out.transpose(1, 2)[sequence, place].to(query.dtype)
    out = out.masked_fill(~real[:, None, None], 0.0)
    if return_aux is None or not return_aux.lse:
        return out
    return out, lse.transpose(1, 2)[sequence, place].t().contiguous()


def varlen_attn_out(out: Tensor, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    """As :func:`varlen_attn`, written into ``out``, which it returns in the place of the output; without gradients.

    >>> import torchlike as torch
    >>> from torchlike.nn.attention.varlen import varlen_attn_out
    >>> x, starts = torch.ones(2, 1, 4), torch.tensor([0, 2])
    >>> varlen_attn_out(torch.empty(2, 1, 4), x, x, x, starts, starts, 2, 2)[0]
    tensor([[1., 1., 1., 1.]])
    """
    if any(x.requires_grad for x in (out, query, key, value)):
        raise RuntimeError("varlen_attn_out(): out= does not support automatic differentiation; use varlen_attn()")
    got = varlen_attn(query, key, value, *args, **kwargs)
    return (out.copy_(got[0]), got[1]) if isinstance(got, tuple) else out.copy_(got)


def _demand_heads(heads: int, of_keys: int, grouped: bool) -> None:
    if not grouped and heads != of_keys:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={of_keys}. Try "
            "setting enable_gqa=True for GQA."
        )
    if not of_keys or heads % of_keys:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={of_keys}."
        )


def _demand_inference(query: Tensor, key: Tensor, value: Tensor, given: dict[str, Tensor | None]) -> None:
    if any(x.requires_grad for x in (query, key, value)):
        for name, x in given.items():
            if x is not None:
                raise RuntimeError(f"{name} is an inference-only parameter: varlen_attn() has no gradients with it")


def _upto(n: int, like: Tensor) -> Tensor:
    return arange(n, dtype=like.dtype, device=like.device)


def _pages(table: Tensor, size: int, longest: int) -> Tensor:
    """Where each key of a sequence stands among all pages: [N, longest]."""
    place = _upto(longest, table)
    page = (place // size).clamp(max=table.shape[1] - 1)
    return table[:, page] * size + place % size


def _packed(x: Tensor, rows: Tensor, times: int) -> Tensor:
    """[N, heads, L, D] of tokens at ``rows`` [N, L]; what is beyond the end is any token."""
    found = x[rows.clamp(0, max(x.shape[0] - 1, 0))].transpose(1, 2)
    return found if times == 1 else found.repeat_interleave(times, 1)


def _window_mask(long_q: Tensor, long_k: Tensor, max_q: int, max_k: int, window: tuple[Any, ...]) -> Tensor:
    """Which keys each query sees: [N, 1, max_q, max_k]."""
    q, k = _upto(max_q, long_q)[None, :, None], _upto(max_k, long_q)[None, None, :]
    long_q, long_k = long_q[:, None, None], long_k[:, None, None]
    seen = (q < long_q) & (k < long_k)
    left, right = window
    if left >= 0:
        seen = seen & (k >= q + long_k - long_q - left)
    if right >= 0:
        seen = seen & (k <= q + long_k - long_q + right)
    return seen[:, None]


def _attention(query: Tensor, key: Tensor, value: Tensor, seen: Tensor, scale: float | None) -> tuple[Tensor, Tensor]:
    """(output, logarithms) of padded sequences; 0 and -inf for a query that sees no key."""
    query, key, value = (x.float() if x.dtype.itemsize < 4 else x for x in (query, key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    any_key = seen.any(-1, keepdim=True)
    scores = scores.masked_fill(~seen, float("-inf")).masked_fill(~any_key, 0.0)
    weights = scores.softmax(-1).masked_fill(~seen, 0.0)
    return weights @ value, scores.logsumexp(-1).masked_fill(~any_key[..., 0], float("-inf"))


def _owners(tokens: int, starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For each token its sequence, its place in it, and whether it belongs to one."""
    token = _upto(tokens, starts)
    sequence = _F["searchsorted"](starts[1:].contiguous(), token, right=True)
    real = sequence < starts.shape[0] - 1
    sequence = sequence.clamp(max=starts.shape[0] - 2)
    return sequence, (token - starts[sequence]).clamp(min=0), real


__getattr__ = missing_names(__name__)
