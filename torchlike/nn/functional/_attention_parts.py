"""Multi-head attention as the calls that PyTorch makes of it, for modes and subclasses that watch operators."""

import math

from torchlike._base import dtypes
from torchlike._core.dispatch.bind import FUNCTIONS
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import as_calls, watched
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops.attention import scaled_dot_product_attention as _attention
from torchlike._ops.matmul import linear
from torchlike.nn.functional._replaced import PUBLIC, REPLACED
from torchlike.nn.functional.dropout import dropout

_CALLED = frozenset((
    "linear", "softmax", "dropout", "scaled_dot_product_attention", "pad", "_in_projection", "_in_projection_packed",
))  # fmt: skip


def composed(query: Tensor, p: float, bias_k: Tensor | None, add_zero_attn: bool) -> bool:
    """Whether the parts are run one by one: someone watches, and nothing is appended."""
    return watched(query) and p < 1 and bias_k is None and not add_zero_attn


def replaced() -> bool:
    """Whether a program has put functions into ``torch.nn.functional`` that attention calls."""
    return bool(REPLACED) and not REPLACED.isdisjoint(_CALLED)


def dropped(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, causal: bool, scale: float | None,
    gqa: bool,
) -> Tensor:  # fmt: skip
    """Scaled dot-product attention some of whose weights are dropped, see ``scaled_dot_product_attention``."""
    if gqa:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    mask = _added(mask, query.dtype)
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scaled = _times(query, factor)
    if causal:
        size = query.shape[-2], key.shape[-2]
        mask = _added(FUNCTIONS["ones"](size, dtype=dtypes.bool, device=query.device).tril(), query.dtype)
    scores = scaled.matmul(_times(key.transpose(-2, -1), factor))
    scores = scores if mask is None else scores.add(mask)
    return dropout(FUNCTIONS["_safe_softmax"](scores, -1), p).matmul(value)


@as_calls(lambda aten, t, number: aten["mul.Scalar"](t, number))
def _times(t: Tensor, number: float) -> Tensor:
    return t.mul(number)


def _added(mask: Tensor | None, dtype: dtypes.dtype) -> Tensor | None:
    """A mask as numbers to add to scores: minus infinity where a boolean one is False."""
    if mask is None or mask.dtype is not dtypes.bool:
        return mask
    scalar = FUNCTIONS["scalar_tensor"]
    least = scalar(float("-inf"), dtype=dtype, device=mask.device)
    return FUNCTIONS["where"](mask, scalar(0.0, dtype=dtype, device=mask.device), least)


def attend(
    projected: list[Tensor], masks: tuple, num_heads: int, p: float, causal: bool, need_weights: bool,
    average: bool, project: tuple,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """(result, weights) of attention over projections, sequence first; see ``multi_head_attention_forward``.

    ``project`` is the weight and the bias of the last projection.
    """
    query, key, value = _heads(projected, num_heads)
    batch, length, source = query.shape[0] // num_heads, query.shape[1], key.shape[1]
    mask = _mask(masks, batch, num_heads, source, query.dtype)
    if not need_weights:
        parts = [t.view(batch, num_heads, t.shape[1], t.shape[2]) for t in (query, key, value)]
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.view(batch, num_heads, -1, source)
        if p:
            out = dropped(parts[0], parts[1], parts[2], mask, p, causal, None, False)
        else:
            out = call(_attention, (*parts, mask, None, 0.0, None), (causal, False))
        out = out.permute(2, 0, 1, 3).contiguous().view(length * batch, out.shape[1] * out.shape[3])
        return call(linear, (out, *project), ()).view(length, batch, project[0].shape[0]), None
    query = query.mul(math.sqrt(1.0 / query.shape[-1]))
    key = key.transpose(-2, -1)
    scores = query.bmm(key) if mask is None else FUNCTIONS["baddbmm"](mask, query, key)
    weights = dropout(scores.softmax(-1), p) if p else scores.softmax(-1)
    out = weights.bmm(value).transpose(0, 1).reshape(length * batch, value.shape[2] * num_heads)
    out = call(linear, (out, *project), ()).view(length, batch, project[0].shape[0])
    weights = weights.view(batch, num_heads, length, source)
    return out, weights.mean(1) if average else weights


def attend_by_functions(
    projected: list[Tensor], appended: tuple, masks: tuple, num_heads: int, p: float, causal: bool,
    need_weights: bool, average: bool, project: tuple,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """The same by what stands in ``torch.nn.functional``; ``appended``: ``bias_k``, ``bias_v`` and whether a position
    of zeros comes last."""
    length, batch = projected[0].shape[:2]
    query, *others = _heads(projected, num_heads)
    key, value = (_longer(t, bias, appended[2]) for t, bias in zip(others, appended, strict=False))
    source = key.shape[1]
    for _ in range(source - others[0].shape[1]):
        masks = tuple(m if m is None else PUBLIC["pad"](m, (0, 1)) for m in masks)
    mask = _mask(masks, batch, num_heads, source, query.dtype)
    if need_weights:
        query, key = query * math.sqrt(1.0 / query.shape[-1]), key.transpose(-2, -1)
        scores = query.bmm(key) if mask is None else FUNCTIONS["baddbmm"](mask, query, key)
        weights = PUBLIC["softmax"](scores, dim=-1)
        weights = PUBLIC["dropout"](weights, p=p) if p else weights
        out = weights.bmm(value).transpose(0, 1).reshape(length * batch, -1)
        weights = weights.view(batch, num_heads, length, source)
    else:
        query, key, value = (t.view(batch, num_heads, t.shape[1], t.shape[2]) for t in (query, key, value))
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.shape[0] == 1 else mask.view(batch, num_heads, -1, source)
        out = PUBLIC["scaled_dot_product_attention"](query, key, value, mask, p, causal)
        out, weights = out.permute(2, 0, 1, 3).reshape(length * batch, -1), None
    out = PUBLIC["linear"](out, *project)
    return out.view(length, batch, out.shape[1]), weights.mean(1) if need_weights and average else weights


def _longer(heads: Tensor, bias: Tensor | None, zeros: bool) -> Tensor:
    """Keys or values [N * heads, length, width] with a learnt position and one of zeros after them."""
    parts = [heads]
    if bias is not None:
        parts.append(bias.view(-1, 1, heads.shape[2]).repeat(heads.shape[0] * heads.shape[2] // bias.numel(), 1, 1))
    if zeros:
        parts.append(heads.new_zeros(heads.shape[0], 1, heads.shape[2]))
    return FUNCTIONS["cat"](parts, 1) if len(parts) > 1 else heads


def _heads(projected: list[Tensor], num_heads: int) -> list[Tensor]:
    """Query, key and value as [N * heads, length, width of a head]."""
    if len(projected) == 1:
        (packed,) = projected
        packed = packed.view(*packed.shape[:-1], 3, packed.shape[-1] // 3)
        packed = packed.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        projected = [packed[0], packed[1], packed[2]]
    elif len(projected) == 2:
        both = projected[1]
        both = both.view(*both.shape[:-1], 2, both.shape[-1] // 2)
        both = both.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        projected = [projected[0], both[0], both[1]]
    sizes = [(t.shape[0], t.shape[1] * num_heads, t.shape[2] // num_heads) for t in projected]
    return [t.contiguous().view(size).transpose(0, 1) for t, size in zip(projected, sizes, strict=True)]


def _mask(masks: tuple, batch: int, num_heads: int, source: int, dtype: dtypes.dtype) -> Tensor | None:
    """The mask of positions and that of keys in one, as numbers to add; [1 or N * heads, length or 1, source]."""
    attn, keys = (None if m is None else _numbers(m, dtype) for m in masks)
    if attn is not None and attn.ndim == 2:
        attn = attn.unsqueeze(0)
    if keys is None:
        return attn
    keys = keys.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, source)
    return keys if attn is None else attn + keys


def _numbers(mask: Tensor, dtype: dtypes.dtype) -> Tensor:
    """A mask as numbers to add to scores: minus infinity where a boolean one is True."""
    if mask.dtype is not dtypes.bool:
        return mask
    zeros = FUNCTIONS["zeros_like"](mask, dtype=dtype)
    return zeros.masked_fill_(mask, float("-inf"))
