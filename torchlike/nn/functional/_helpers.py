"""Parts of PyTorch's layers that programs import from ``torch.nn.functional``, to write layers of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torchlike._base.dtypes as dtypes
from torchlike._base.frames import warn
from torchlike._core.conversion.factories import zeros
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.nn.functional._replaced import PUBLIC
from torchlike.nn.functional.activation import _dim


def _none_or_dtype(input: Tensor | None) -> Any:
    """The dtype of a tensor, or None for None; RuntimeError for anything else."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError(f"input to _none_or_dtype() must be None or torch.Tensor, but got {type(input).__name__}")
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Tensor | None:
    """A mask of attention as numbers that are added: of bools, -inf where True. A floating mask stays as it is.

    Warns where the other mask is of another type. AssertionError for integers.

    >>> import torchlike as torch
    >>> torch.nn.functional._canonical_mask(torch.tensor([True, False]), "mask", None, "other", torch.float32)
    tensor([-inf, 0.])
    """
    if mask is None:
        return None
    floating = mask.dtype.is_floating_point
    if mask.dtype is not dtypes.bool and not floating:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported, but got {mask.dtype}")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.",
        )
    if floating:
        return mask
    empty = zeros(mask.shape, dtype=target_type, device=mask.device)
    return _F["masked_fill"](empty, mask, -math.inf)


def _in_projection(
    q: Tensor, k: Tensor, v: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor,
    b_q: Tensor | None = None, b_k: Tensor | None = None, b_v: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Query, key and value, each through a linear map of its own. AssertionError for weights that are not square."""
    width = q.shape[-1]
    for name, weight, source in (("query", w_q, q), ("key", w_k, k), ("value", w_v, v)):
        if tuple(weight.shape) != (width, source.shape[-1]):
            raise AssertionError(
                f"expecting {name} weights shape of {(width, source.shape[-1])}, but got {tuple(weight.shape)}"
            )
    linear = PUBLIC["linear"]
    return linear(q, w_q, b_q), linear(k, w_k, b_k), linear(v, w_v, b_v)


def _in_projection_packed(q: Tensor, k: Tensor, v: Tensor, w: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Query, key and value through the three parts of one weight [3 * width, width], in as few products as they share
    inputs."""
    linear, width = PUBLIC["linear"], q.shape[-1]
    if q is k and k is v:
        return list(linear(q, w, b).chunk(3, dim=-1))
    if k is v:
        (w_q, w_kv), (b_q, b_kv) = (_cut(t, width) for t in (w, b))
        return [linear(q, w_q, b_q), *linear(k, w_kv, b_kv).chunk(2, dim=-1)]
    biases = (None, None, None) if b is None else b.chunk(3)
    return [linear(x, part, bias) for x, part, bias in zip((q, k, v), w.chunk(3), biases, strict=True)]


def _cut(packed: Tensor | None, width: int) -> Any:
    """The part of the query, and that of key and value."""
    return (None, None) if packed is None else packed.split([width, 2 * width])


def _mha_shape_check(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Whether the inputs of attention have a batch; AssertionError where their dimensions do not fit."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    said = "batched (3-D)" if batched else "unbatched (2-D)"
    if not key.dim() == value.dim() == query.dim():
        raise AssertionError(
            f"For {said} `query`, expected `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and "
            f"{value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {said} `query`, expected `key_padding_mask` to be `None` or {query.dim() - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is None:
        return batched
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {said} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D "
            "tensor instead"
        )
    if not batched and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}")
    return batched


def _get_softmax_dim(name: str, ndim: int, stacklevel: int) -> int:
    """The dimension of a softmax that names none, of which it warns: 0 for 0, 1 and 3 dimensions, else 1."""
    return _dim(name, None, ndim, stacklevel)


def _verify_batch_size(size: Sequence[int]) -> None:
    """ValueError if there is one value for each channel of a size [N, C, ...], which has no variance."""
    if math.prod(size) == size[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(size)}")
