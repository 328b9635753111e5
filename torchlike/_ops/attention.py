"""Scaled dot-product attention, and the attention of several heads between two projections."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled, unseen
from torchlike._ops._axes import refuse
from torchlike._ops._elementwise import wide
from torchlike._ops.random import stays


def _weights(scores, safe):
    """Softmax over the last dimension; with ``safe``, zeros where every score is -inf (else NaN)."""
    top = lax.stop_gradient(jnp.max(scores, -1, keepdims=True, initial=-jnp.inf))
    if not safe:
        powers = jnp.exp(scores - top)
        return powers / jnp.sum(powers, -1, keepdims=True)
    powers = jnp.exp(scores - jnp.where(jnp.isfinite(top) | jnp.isnan(top), top, 0))
    # told by the largest score: where the sum itself is asked, XLA for CPUs computes the powers twice
    return powers / (jnp.sum(powers, -1, keepdims=True) + (top == -jnp.inf))


def _masked(scores, mask):
    """``scores`` plus a floating mask, or minus infinity where a boolean one is False."""
    if mask is None:
        return scores
    if mask.dtype == bool:  # a sum, as in PyTorch: where would drop NaN gradients
        mask = jnp.where(mask, 0.0, -jnp.inf)
    return scores + mask.astype(scores.dtype)


def _dropped(weights, words, p):
    if words is None:
        return weights
    p = jnp.asarray(p).astype(weights.dtype)
    return jnp.where(stays(words, weights.shape, p), weights / (1 - p), 0)


def _causal(rows, columns):
    return lax.broadcasted_iota(np.int32, (rows, columns), 1) <= lax.broadcasted_iota(np.int32, (rows, columns), 0)


def _product(a, b):
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def attend(query, key, value, masks, scale, words, dropout_p, safe=True):
    """(weighted values, weights): softmax(query @ key.T * scale + masks) @ value over the last two
    dimensions."""
    kind = query.dtype
    query, key = wide(query), wide(key)
    scores = _product(query * jnp.asarray(scale, query.dtype), jnp.swapaxes(key, -1, -2))
    for mask in masks:
        scores = _masked(scores, mask)
    weights = _dropped(_weights(scores, safe), words, dropout_p).astype(kind)
    return _product(weights, value), weights


@op("_attention_weights(Tensor scores) -> Tensor", variants="", node="SafeSoftmaxBackward")
def attention_weights(scores):
    """Softmax over the last dimension, zeros where every score is -inf."""
    refuse("softmax", scores, "b", "i", "u", "c")
    return _weights(scores, True)


def _check(query, key, value, mask):
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{from_np(query.dtype)} key.dtype: {from_np(key.dtype)} and value.dtype: {from_np(value.dtype)} "
            "instead."
        )
    if not jnp.issubdtype(query.dtype, jnp.floating):
        raise RuntimeError(
            f"scaled_dot_product_attention: expected scalar type Float but found {from_np(query.dtype).scalar_name}"
        )
    if mask is not None and mask.dtype not in (np.dtype(bool), np.dtype(np.float32), query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{from_np(mask.dtype)} and  query.dtype: {from_np(query.dtype)} instead."
        )


def _check_shapes(query, key, value, mask):
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            "scaled_dot_product_attention: expected query [..., L, E], key [..., S, E] and value [..., S, "
            f"Ev], but got {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    try:
        lead = jnp.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        if mask is not None:
            scores = (*lead, query.shape[-2], key.shape[-2])
            if jnp.broadcast_shapes(mask.shape, scores) != scores:
                raise ValueError
    except ValueError:
        shapes = [list(x.shape) for x in (query, key, value, mask) if x is not None]
        raise RuntimeError(
            "scaled_dot_product_attention: the leading dimensions of query, key and value must broadcast, "
            f"and attn_mask to [..., L, S]; got {', '.join(map(str, shapes))}"
        ) from None


def _repeat_heads(query, x):
    if query.ndim < 3 or x.ndim < 3 or query.shape[-3] % x.shape[-3]:
        raise RuntimeError(
            "scaled_dot_product_attention: with enable_gqa the number of heads in key and value must divide "
            f"the number of heads in query; got sizes {list(query.shape)} and {list(x.shape)}"
        )
    return jnp.repeat(x, query.shape[-3] // x.shape[-3], axis=-3)


def _is_flash(query_aval, value_aval, words_aval):
    """Whether PyTorch computes it by the operator for a CPU, which has a backward of its own."""
    q, v = query_aval.shape, value_aval.shape
    return words_aval is None and len(q) == 4 and q[-1] == v[-1]


def _flash_backward(grad, query, key, value, attn_mask, is_causal, scale, enable_gqa):
    number = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale

    def forward(query, key, value, *mask):
        masks = [*mask, *([_causal(query.shape[-2], key.shape[-2])] if is_causal else [])]
        if enable_gqa:
            key, value = _repeat_heads(query, key), _repeat_heads(query, value)
        return attend(query, key, value, masks, number, None, 0.0)[0]

    def backward(grad, query, key, value, *_, attn_mask, **__):
        return rules.adjoint(lambda *x: forward(*x, *mask), query, key, value)(grad)

    mask = () if attn_mask is None else (attn_mask,)
    out = aten.detach(unseen(forward, query, key, value, *mask))
    sums = unseen(lambda out: jnp.zeros(out.shape[:-1], out.dtype), out)  # the kernel computes them anew
    name = "_scaled_dot_product_flash_attention_for_cpu_backward"
    options = {"attn_mask": attn_mask, "scale": scale}
    return spelled(name, backward, grad, query, key, value, out, sums, 0.0, is_causal, **options)


def _rows(query, key, attn_mask, words, is_causal):
    """A row does not see those behind it."""
    alike = is_causal and attn_mask is None and words is None and query.shape[-2] == key.shape[-2]
    return "query key value" if alike else ""


@op("_scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor? words, "
    "float dropout_p, bool is_causal, float? scale, bool enable_gqa) -> Tensor",
    variants="", node="ScaledDotProductAttentionBackward", autocast="lower_precision_fp",
    backward={"query, key, value": (_flash_backward, {"when": _is_flash})}, rows=_rows,
    layout=result_layouts.attention)  # fmt: skip
def scaled_dot_product_attention(query, key, value, attn_mask, words, dropout_p, is_causal, scale, enable_gqa):
    """softmax(query @ key.T * scale + mask) @ value; the weights are dropped out where there are
    ``words``."""
    _check(query, key, value, attn_mask)
    if enable_gqa:
        key, value = _repeat_heads(query, key), _repeat_heads(query, value)
    _check_shapes(query, key, value, attn_mask)
    masks = [attn_mask]
    if is_causal:
        masks.append(_causal(query.shape[-2], key.shape[-2]))
    scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    return attend(query, key, value, masks, scale, words, dropout_p)[0]


def _heads(x, batch, heads, dim):
    """[length, batch * heads * dim or batch, heads * dim] as [batch, heads, length, dim]."""
    return x.reshape(x.shape[0], batch, heads, dim).transpose(1, 2, 0, 3)


def _projections(projected):
    """Query, key and value [length, batch, heads * dim] from one, two or three arrays of them, packed."""
    if len(projected) == 1:
        return jnp.split(projected[0], 3, axis=-1)
    if len(projected) == 2:
        return [projected[0], *jnp.split(projected[1], 2, axis=-1)]
    return projected


def _extended(key, value, bias_k, bias_v, zeros):
    """Key and value with learned biases and zeros as further positions, and how many those are."""
    extra, shape = 0, (1, *key.shape[1:])
    if bias_k is not None:
        key = jnp.concatenate([key, jnp.broadcast_to(bias_k.reshape(1, 1, -1), shape)])
        value = jnp.concatenate([value, jnp.broadcast_to(bias_v.reshape(1, 1, -1), (1, *value.shape[1:]))])
        extra += 1
    if zeros:
        key = jnp.concatenate([key, jnp.zeros(shape, key.dtype)])
        value = jnp.concatenate([value, jnp.zeros((1, *value.shape[1:]), value.dtype)])
        extra += 1
    return key, value, extra


def _for_heads(mask, extra, batch, heads):
    """A mask [L, S] or [batch * heads, L, S], True where attention is forbidden or a number to add, for the
    scores."""
    if mask is None:
        return None
    mask = jnp.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, extra)])
    mask = ~mask if mask.dtype == bool else mask
    return mask.reshape(batch, heads, *mask.shape[1:]) if mask.ndim == 3 else mask


@op("_multi_head_attention(Tensor[] projected, Tensor? bias_k, Tensor? bias_v, Tensor? attn_mask, "
    "Tensor? key_padding_mask, Tensor? words, float dropout_p, int num_heads, bool add_zero_attn, bool "
    "is_causal, bool need_weights, bool average) -> (Tensor result, Tensor weights)",
    variants="", node="MultiHeadAttentionBackward", autocast="lower_precision_fp")  # fmt: skip
def multi_head_attention(
    projected, bias_k, bias_v, attn_mask, key_padding_mask, words, dropout_p, num_heads, add_zero_attn,
    is_causal, need_weights, average,
):  # fmt: skip
    """Attention of ``num_heads`` heads [L, N, heads * dim], and the weights [N, (heads,) L, S] if needed.

    ``projected``: query, key and value [length, N, heads * dim], or arrays that hold several of them.
    """
    query, key, value = _projections(projected)
    length, batch, width = query.shape
    key, value, extra = _extended(key, value, bias_k, bias_v, add_zero_attn)
    dim = width // num_heads
    q, k, v = (_heads(x, batch, num_heads, x.shape[-1] // num_heads) for x in (query, key, value))
    padding = None
    if key_padding_mask is not None:
        padding = _for_heads(key_padding_mask, extra, batch, num_heads)[:, None, None, :]
    masks = [_for_heads(attn_mask, extra, batch, num_heads), padding]
    if is_causal:
        masks.append(_causal(length, k.shape[-2]))
    out, weights = attend(q, k, v, masks, 1 / math.sqrt(dim), words, dropout_p, safe=not need_weights)
    out = out.transpose(2, 0, 1, 3).reshape(length, batch, num_heads * out.shape[-1])
    if not need_weights:
        return out, jnp.zeros((0,), out.dtype)
    return out, jnp.mean(weights, 1) if average else weights


def _check_lengths(lengths, limit, name):
    bad = lengths > limit

    def error():
        longest = int(np.max(np.asarray(lengths)))
        return RuntimeError(f"varlen_attn(): {name}={limit}, but there is a sequence of {longest} tokens")

    return jnp.any(bad), error


@op("_lengths_within(Tensor lengths, int limit, str name) -> Tensor", variants="", vjp={}, aten=False,
    check=_check_lengths)  # fmt: skip
def lengths_within(lengths, limit, name):
    """The lengths of sequences, none of which is above ``limit``."""
    return lengths
