"""Bags of embeddings, the renormalisation of embedding rows, and bilinear maps."""

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.dtypes import from_np
from torchlike._decl.op import op
from torchlike._ops import _composed
from torchlike._ops._axes import refuse
from torchlike._ops._elementwise import scalar_name, widely
from torchlike._ops.distance import norm_along

MODES = ("sum", "mean", "max")


def _check_rows(self, indices, **_):
    n = self.shape[0] if self.ndim else 0
    bad = jnp.any((indices < -n) | (indices >= n)) if indices.dtype.kind == "i" else False
    return bad, lambda: IndexError(f"embedding_renorm: index out of range for a table of {n} rows")


@op("embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
    variants="function inplace", static="norm_type", vjp={}, check=_check_rows)  # fmt: skip
def embedding_renorm(self, indices, max_norm, norm_type):
    """``self`` with the rows at ``indices`` scaled down to a norm of at most ``max_norm``."""
    if self.ndim != 2:
        raise RuntimeError(f"embedding_renorm: Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor")
    if indices.dtype not in (jnp.int64, jnp.int32):
        raise RuntimeError(
            "embedding_renorm: Expected tensor for argument #2 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {scalar_name(indices)}"
        )
    used = jnp.zeros(self.shape[0], bool).at[indices.reshape(-1)].set(True)
    norms = norm_along(self, float(norm_type), (1,))
    limit = jnp.asarray(max_norm).astype(norms.dtype)
    return self * jnp.where(used[:, None] & (norms > limit), limit / (norms + 1e-7), 1)


def _check_bag(weight, indices, offsets, **_):
    rows, count = weight.shape[0], indices.size
    outside = (indices < 0) | (indices >= rows)
    back = offsets[1:] < offsets[:-1]  # PyTorch reads memory outside of the bags, and mostly notices
    bad = jnp.any(outside) | jnp.any(offsets[:1] != 0) | jnp.any(offsets[-1:] > count) | jnp.any(back)

    def error():
        if offsets.size and int(offsets[0]) != 0:
            return RuntimeError(
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
                f"position 0. However, got {int(offsets[0])} (embedding_bag)"
            )
        if offsets.size and int(offsets[-1]) > count:
            return RuntimeError(
                f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of "
                f"{int(offsets[-1])} (embedding_bag)"
            )
        if bool(jnp.any(back)):
            return RuntimeError(f"offsets must not decrease, but got {offsets} (embedding_bag)")
        at = np.asarray(indices)
        where = int(np.flatnonzero((at < 0) | (at >= rows))[0])
        return RuntimeError(
            f"Index {where} of input takes value {int(at[where])} which is not in the valid range [0, "
            f"{rows}) (embedding_bag)"
        )

    return bad, error


@op("_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, Tensor? per_sample_weights, int mode, "
    "bool include_last_offset, int padding_idx) -> Tensor", variants="", node="EmbeddingBagBackward",
    check=_check_bag,
    saved="indices mode offsets padding_idx per_sample_weights weight weight_sym_argsize_0",
    edges=lambda: (0, 3))  # fmt: skip
def embedding_bag(weight, indices, offsets, per_sample_weights, mode, include_last_offset, padding_idx):
    """Sums, means or maxima of rows of ``weight``: bag i has the indices from ``offsets[i]`` to the next
    offset."""
    _check_types(weight, indices, offsets, per_sample_weights)
    bags = offsets.shape[0] - include_last_offset
    if not bags:
        return jnp.zeros((0, weight.shape[1]), weight.dtype)
    bag = jnp.searchsorted(offsets[:bags], jnp.arange(indices.shape[0]), side="right") - 1
    counted = indices != padding_idx if padding_idx >= 0 else jnp.ones(indices.shape, bool)
    rows = weight[indices]
    total = jax.ops.segment_sum(counted.astype(np.int32), bag, bags)[:, None]
    if MODES[mode] == "max":
        first = _first_largest(rows, bag, counted, bags)
        chosen = jnp.take_along_axis(rows, first, 0) if indices.shape[0] else jnp.zeros((bags, rows.shape[1]))
        return jnp.where(total == 0, 0, chosen).astype(weight.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]

    summands = counted & ends(offsets, indices, weight.dtype) if include_last_offset else counted

    def reduced(rows):
        summed = jax.ops.segment_sum(jnp.where(summands[:, None], rows, 0), bag, bags)
        return summed if MODES[mode] == "sum" else summed / jnp.maximum(total, 1).astype(rows.dtype)

    return widely(reduced, rows)


def ends(offsets, indices, dtype):
    """Which indices come before the last offset; PyTorch's sums in float64 and its counts take all of them."""
    before = jnp.arange(indices.shape[0]) < offsets[-1]
    return before | (dtype == np.float64)


def _first_largest(rows, bag, counted, bags):
    """For each bag and column the first place of a maximum; any place of a bag without elements."""
    rows, count = jax.lax.stop_gradient(rows), rows.shape[0]
    best = jax.ops.segment_max(jnp.where(counted[:, None], rows, -jnp.inf), bag, bags)
    tie = counted[:, None] & (rows == best[bag])
    first = jax.ops.segment_min(jnp.where(tie, jnp.arange(count)[:, None], count), bag, bags)
    return jnp.clip(first, 0, max(count - 1, 0))


@op("_rows_of_maxima(Tensor weight, Tensor indices, Tensor offsets, bool include_last_offset, int padding_idx)"
    " -> Tensor", variants="", vjp={}, aten=False)  # fmt: skip
def rows_of_maxima(weight, indices, offsets, include_last_offset, padding_idx):
    """For each bag and column the row of ``weight`` that has the maximum; 0 of a bag without elements."""
    bags = offsets.shape[0] - include_last_offset
    if not (indices.shape[0] and bags):
        return jnp.zeros((bags, weight.shape[1]), indices.dtype)
    bag = jnp.searchsorted(offsets[:bags], jnp.arange(indices.shape[0]), side="right") - 1
    counted = indices != padding_idx if padding_idx >= 0 else jnp.ones(indices.shape, bool)
    total = jax.ops.segment_sum(counted.astype(np.int32), bag, bags)[:, None]
    return jnp.where(total == 0, 0, indices[_first_largest(weight[indices], bag, counted, bags)])


def _check_types(weight, indices, offsets, per_sample_weights):
    for position, (name, x) in enumerate((("indices", indices), ("offsets", offsets)), 1):
        if x.dtype.name not in ("int32", "int64"):
            raise RuntimeError(
                f"Expected tensor for argument #{position} '{name}' to have one of the following scalar "
                f"types: Long, Int; but got torch.{from_np(x.dtype).scalar_name}Tensor instead (while "
                "checking arguments for embedding_bag)"
            )
    if not jnp.issubdtype(weight.dtype, jnp.floating):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, "
            f"BFloat16, Float, Double; but got torch.{from_np(weight.dtype).scalar_name}Tensor instead "
            "(while checking arguments for embedding_bag)"
        )
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        first, second = (from_np(x.dtype) for x in (weight, per_sample_weights))
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type {first} does not equal {second} (while checking embedding_bag)"
        )


@op("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", variants="function",
    aten={"out": None, "calls": _composed.bilinear}, edges=lambda: (3, 2, 1, 0),
    node="AddBackward", autocast={"cuda": "promote"}, saved={"alpha": lambda: 1})  # fmt: skip
def bilinear(input1, input2, weight, bias):
    """``input1 @ weight[k] @ input2 + bias[k]`` for every k: [..., i], [..., j], [k, i, j] to [..., k].

    >>> import torchlike as torch
    >>> torch.bilinear(torch.ones(2), torch.ones(3), torch.ones(1, 2, 3))
    tensor([6.])
    """
    given = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
    if len({x.dtype for x in given.values()}) > 1:
        found = ", ".join(f"{name}: {from_np(x.dtype).scalar_name}" for name, x in given.items())
        raise RuntimeError(f"bilinear(): all tensors must have the same dtype, got {found}")
    refuse("bilinear", input1, "b")
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for i, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}")
    for name, x, size in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        if x.shape[-1] != size:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.shape[-1]} but expected {size}"
            )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape} but expected {weight.shape[0]}"
        )
    if not input1.dtype == input2.dtype == weight.dtype:
        kinds = ", ".join(from_np(x.dtype).scalar_name for x in (input1, input2, weight))
        raise RuntimeError(f"bilinear(): expected all dtypes to be the same, but got {kinds}")
    out = jnp.einsum("...i,kij,...j->...k", input1, weight, input2, precision="highest")
    return out if bias is None else out + bias


@jax.custom_jvp
def _divided(rows, times):
    return rows


_divided.defjvp(lambda primals, tangents: (_divided(*primals), tangents[0] / primals[1]))


@op("_gradient_divided(Tensor self, Tensor times) -> Tensor", aten=False, variants="")
def gradient_divided(self, times):
    """``self``, whose gradient is divided by ``times``."""
    return _divided(self, jax.lax.stop_gradient(times))
