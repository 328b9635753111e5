"""Attention."""

from functools import partial

from torchlike._base import dtypes
from torchlike._base.frames import warn
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import watched
from torchlike._core.tensor.arguments import bools
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import host_samples as host
from torchlike._functions.generator import draw, place_of
from torchlike._ops import attention as ops
from torchlike._ops.matmul import linear
from torchlike.nn.functional._attention_parts import attend, attend_by_functions, composed, dropped, replaced
from torchlike.nn.functional._replaced import PUBLIC

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    """``softmax(query @ key.T * scale + mask) @ value`` for query [..., L, E], key [..., S, E], value [...,
    S, Ev].

    Args:
        attn_mask: broadcasts to [..., L, S]: True where attention is allowed, or numbers to add.
        dropout_p: probability that a weight is dropped (also outside training).
        is_causal: position i attends to positions 0..i only.
        scale: default ``1 / sqrt(E)``.
        enable_gqa: key and value may have fewer heads (dimension -3), each used for several of query's.

    Positions that may attend to nothing give zeros.

    Raises:
        RuntimeError: shapes or dtypes that do not fit; ``dropout_p`` above 1; a mask with ``is_causal`` where PyTorch
            has no kernel for both (it has for inputs [N, H, L, E] and masks of 2 or 4 dimensions without gradients).

    >>> import torchlike as torch
    >>> x = torch.eye(2)
    >>> torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)[0]
    tensor([1., 0.])
    """
    bools("scaled_dot_product_attention", is_causal=is_causal, enable_gqa=enable_gqa)
    words = None
    if is_causal and attn_mask is not None and not _both(query, key, value, attn_mask, dropout_p):
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True: combine the two "
            "in one mask"
        )
    if dropout_p > 0:
        if dropout_p > 1:
            raise RuntimeError(
                f"dropout probability has to be between 0 and 1, but got {dropout_p} (scaled_dot_product_attention)"
            )
        if watched(query) and dropout_p < 1:
            return dropped(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        words = draw("scaled_dot_product_attention", None, place_of(query), _kept_shares(query, key, dropout_p))
    inputs = (query, key, value, attn_mask, words, dropout_p, scale)
    return call(ops.scaled_dot_product_attention, inputs, (bool(is_causal), bool(enable_gqa)))


def _kept_shares(query, key, p):
    """What makes the host's choice of the weights that dropout keeps."""
    if query.dim() < 2 or key.dim() < 2:
        return None
    batch = query.shape[:-2] if query.dim() >= key.dim() else key.shape[:-2]
    return partial(host.kept, host.Place((*batch, query.shape[-2], key.shape[-2]), query.dtype), p=p)


def _both(query, key, value, attn_mask, dropout_p):
    """Whether PyTorch has a kernel that takes a mask and is causal as well."""
    heads = [x.dim() == 4 and x.shape[0] == query.shape[0] and x.stride(-1) == 1 for x in (query, key, value)]
    plain = attn_mask.dim() in (2, 4) and not attn_mask.requires_grad and not dropout_p
    return all(heads) and plain and query.shape[-1] == value.shape[-1]


def _check_batching(query, key, value, key_padding_mask, attn_mask, num_heads):
    """Whether the query is batched; the ranks of all others must go with it."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    text = "For batched (3-D) `query`" if batched else "For unbatched (2-D) `query`"
    n = query.dim()
    if key.dim() != n or value.dim() != n:
        raise AssertionError(
            f"{text}, expected `key` and `value` to be {n}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    for mask in (key_padding_mask, attn_mask):
        if mask is not None and not isinstance(mask, Tensor):
            raise TypeError(f"a mask of attention must be Tensor, not {type(mask).__name__}")
    if key_padding_mask is not None and key_padding_mask.dim() != n - 1:
        raise AssertionError(
            f"{text}, expected `key_padding_mask` to be `None` or {n - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{text}, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    if not batched and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}")
    return batched


def _checked_mask(mask, name, other, other_name):
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported, not {mask.dtype}")
    if other is not None and mask.dtype is not other.dtype:
        warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.",
        )
    return mask


def _check_sizes(query, key, value, embed_dim, num_heads, separate, attn_mask, key_padding_mask):
    if query.shape[-1] != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}")
    if embed_dim % num_heads:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    if separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    if not separate and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    length, batch, source = query.shape[0], query.shape[1], key.shape[0]
    if key.shape[1] != batch:
        raise RuntimeError(f"multi_head_attention: key has a batch of {key.shape[1]}, but query one of {batch}")
    if attn_mask is not None:
        n, shape = attn_mask.dim(), tuple(attn_mask.shape)
        expected = (length, source) if n == 2 else (batch * num_heads, length, source)
        if shape != expected:
            raise RuntimeError(f"The shape of the {n}D attn_mask is {attn_mask.shape}, but should be {expected}.")
    if key_padding_mask is not None:
        for i, size in enumerate((batch, source)):
            if key_padding_mask.shape[i] != size:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{i}] to be {size}, but got {key_padding_mask.shape[i]}"
                )


def _project(query, key, value, weight, bias, separate_weights, embed_dim):
    """The projections, in as few products as the arguments share inputs."""
    if replaced():
        if separate_weights is None:
            return list(PUBLIC["_in_projection_packed"](query, key, value, weight, bias))
        parts = (None,) * 3 if bias is None else bias.chunk(3)
        return list(PUBLIC["_in_projection"](query, key, value, *separate_weights, *parts))
    if separate_weights is not None:
        parts = (None,) * 3 if bias is None else bias.chunk(3)
        inputs = zip((query, key, value), separate_weights, parts, strict=True)
        return [call(linear, item, ()) for item in inputs]
    if key is value and query is key:
        return [call(linear, (query, weight, bias), ())]
    if key is value:
        cut = [embed_dim, 2 * embed_dim]
        weights, biases = weight.split(cut), (None, None) if bias is None else bias.split(cut)
        return [call(linear, item, ()) for item in zip((query, key), weights, biases, strict=True)]
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return [call(linear, item, ()) for item in zip((query, key, value), weight.chunk(3), biases, strict=True)]


def multi_head_attention_forward(
    query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
    add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
    need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None, k_proj_weight=None,
    v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True, is_causal=False,
):  # fmt: skip
    """The function behind :class:`torch.nn.MultiheadAttention`, for sequence-first inputs.

    Args:
        query: [L, N, E] or [L, E]. key, value: [S, N, ...] or [S, ...].
        key_padding_mask: [N, S] or [S], True where a key is to be ignored, or numbers to add.
        attn_mask: [L, S] or [N * num_heads, L, S], of the same kind.
        need_weights: whether to return the attention weights, averaged over heads unless
            ``average_attn_weights`` is False.
        static_k, static_v: [N * num_heads, S, E / num_heads], in place of what is projected from key and value.
        is_causal: a promise that ``attn_mask`` is the causal mask.

    Returns:
        (result as query, weights [N, L, S] or [N, num_heads, L, S] or None).
    """
    batched = _check_batching(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        query, key, value = _with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    key_padding_mask = _checked_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask")
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    attn_mask = _checked_mask(attn_mask, "attn_mask", None, "")
    _check_sizes(
        query,
        key,
        value,
        embed_dim_to_check,
        num_heads,
        use_separate_proj_weight,
        attn_mask,
        key_padding_mask,
    )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    projected = _project(query, key, value, in_proj_weight, in_proj_bias, weights, embed_dim_to_check)
    if static_k is not None or static_v is not None:
        projected = _fixed(projected, static_k, static_v, num_heads, query.shape[1], bias_k)
    p = dropout_p if training else 0.0
    if replaced():
        masks = None if is_causal else attn_mask, key_padding_mask
        flags = p, is_causal, need_weights, average_attn_weights, (out_proj_weight, out_proj_bias)
        out, shares = attend_by_functions(projected, (bias_k, bias_v, add_zero_attn), masks, num_heads, *flags)
        return (out, shares) if batched else (out.squeeze(1), shares.squeeze(0) if need_weights else None)
    if composed(projected[0], p, bias_k, add_zero_attn):
        masks = None if is_causal else attn_mask, key_padding_mask
        flags = is_causal, need_weights, average_attn_weights
        out, shares = attend(projected, masks, num_heads, p, *flags, (out_proj_weight, out_proj_bias))
        if not batched:
            return out.squeeze(1), shares.squeeze(0) if need_weights else None
        return out, shares
    more = (bias_k is not None) + bool(add_zero_attn)
    words = (
        draw("multi_head_attention", None, place_of(query), _kept_in_heads(projected, num_heads, more, p))
        if p
        else None
    )
    inputs = (*projected, bias_k, bias_v, None if is_causal else attn_mask, key_padding_mask, words, p)
    flags = (num_heads, bool(add_zero_attn), bool(is_causal), bool(need_weights), bool(average_attn_weights))
    out, shares = call(ops.multi_head_attention, inputs, (*flags, (len(projected),)))
    out = call(linear, (out, out_proj_weight, out_proj_bias), ())
    if not batched:
        return out.squeeze(1), shares.squeeze(0) if need_weights else None
    return out, shares if need_weights else None


def at_once(query, num_heads, packed, project, masks, flags):
    """Self-attention in evaluation, whatever stands in ``torch.nn.functional``: PyTorch has a kernel for it.

    ``packed``, ``project``: weight and bias of the first and of the last projection; ``masks``: of positions, of keys;
    ``flags``: is_causal, need_weights, average_attn_weights.
    """
    keys = _checked_mask(masks[1], "key_padding_mask", masks[0], "attn_mask")
    mask = _checked_mask(masks[0], "attn_mask", None, "")
    _check_sizes(query, query, query, query.shape[-1], num_heads, False, mask, keys)
    inputs = (call(linear, (query, *packed), ()), None, None, mask, keys, None, 0.0)
    out, shares = call(ops.multi_head_attention, inputs, (num_heads, False, *map(bool, flags), (1,)))
    return call(linear, (out, *project), ()), shares if flags[1] else None


def _kept_in_heads(projected, heads, more, p):
    """What makes the host's choice of the weights that dropout keeps; ``more``: how many positions are appended to the
    keys."""
    query, key = projected[0], projected[min(1, len(projected) - 1)]
    place = host.Place((query.shape[1], heads, query.shape[0], key.shape[0] + more), query.dtype)
    return partial(host.kept, place, p=p)


def _fixed(projected, static_k, static_v, num_heads, batch, bias_k):
    """The projections with keys and values that were given."""
    query, key, value = _apart(projected)
    if bias_k is not None:
        raise AssertionError("bias cannot be added to static key.")
    parts = []
    for name, given, made in (("static_k", static_k, key), ("static_v", static_v, value)):
        if given is None:
            parts.append(made)
            continue
        for i, expected in ((0, batch * num_heads), (2, query.shape[2] // num_heads)):
            if given.shape[i] != expected:
                raise AssertionError(f"expecting {name}.size({i}) of {expected}, but got {given.shape[i]}")
        parts.append(given.transpose(0, 1).reshape(given.shape[1], batch, num_heads * given.shape[2]))
    return [query, *parts]


def _apart(projected):
    """Query, key and value, where some are packed into one tensor."""
    if len(projected) == 1:
        return projected[0].chunk(3, dim=-1)
    return (projected[0], *projected[1].chunk(2, dim=-1)) if len(projected) == 2 else projected


def _with_batch(query, key, value):
    """Each input with a batch dimension; what was one tensor stays one, where nobody sees the products."""
    if replaced():
        return [x.unsqueeze(1) for x in (query, key, value)]
    made = {id(x): x.unsqueeze(1) for x in (query, key, value)}
    return made[id(query)], made[id(key)], made[id(value)]
