"""Compiled kernels over the parts of sparse tensors. Their shapes follow from those of the parts, not from numbers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from torchlike._core.dispatch.kernels import kernel

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


_kernel = kernel("sparse", "SparseBackward")


@_kernel
def added(dense: Any, indices: Any, values: Any, alpha: Any) -> Any:
    """``dense`` with ``alpha * values`` added at ``indices``, also where they repeat."""
    return dense.at[tuple(indices)].add((alpha * values).astype(dense.dtype), mode="drop")


@_kernel
def taken(dense: Any, indices: Any) -> Any:
    """The elements (or, of fewer indices than dimensions, the parts) of ``dense`` at ``indices``."""
    return dense[tuple(indices)]


@_kernel
def product(base: Any, indices: Any, values: Any, dense: Any) -> Any:
    """``base`` plus the matrix of ``indices`` and ``values`` times ``dense`` [n, k]."""
    rows, columns = indices
    terms = values[:, None] * dense[columns] if values.ndim == 1 else values * dense[columns]
    return base.at[rows].add(terms.astype(base.dtype), mode="drop")


@_kernel
def batched_product(base: Any, indices: Any, values: Any, dense: Any) -> Any:
    """``base`` [b, m, k] plus the matrices times ``dense`` [b, n, k]."""
    batch, rows, columns = indices
    return base.at[batch, rows].add((values[:, None] * dense[batch, columns]).astype(base.dtype), mode="drop")


@_kernel
def inner(left: Any, right: Any, indices: Any) -> Any:
    """The elements at ``indices`` of the matrix ``left @ right``."""
    rows, columns = indices
    return jnp.sum(left[rows] * right[:, columns].T, axis=-1)


@_kernel
def rows_of(compressed: Any, plain: Any) -> Any:
    """The row of each entry of compressed rows."""
    places = jnp.arange(plain.shape[-1], dtype=compressed.dtype)
    within = functools.partial(jnp.searchsorted, v=places, side="right")
    for _ in compressed.shape[:-1]:
        within = jax.vmap(within)
    return within(compressed).astype(compressed.dtype) - 1


@_kernel
def in_batch(rows: Any, columns: Any) -> Any:
    """The places [n + 2, elements] of the entries of a batch of matrices, whose rows and columns are given."""
    batch = [jax.lax.broadcasted_iota(rows.dtype, rows.shape, d) for d in range(rows.ndim - 1)]
    return jnp.stack([x.reshape(-1) for x in (*batch, rows, columns)])


@_kernel
def spread(places: Any, blocks: Any) -> Any:
    """The place of each element of ``blocks`` [nnz, height, width, ...]; the last two of ``places`` count blocks."""
    shape = blocks.shape[:3]
    rows = places[-2][:, None, None] * shape[1] + jnp.arange(shape[1])[:, None]
    columns = places[-1][:, None, None] * shape[2] + jnp.arange(shape[2])
    batch = [row[:, None, None] for row in places[:-2]]
    return jnp.stack([jnp.broadcast_to(x, shape).reshape(-1) for x in (*batch, rows, columns)])


@_kernel
def block_product(base: Any, places: Any, blocks: Any, dense: Any) -> Any:
    """``base`` plus the matrix of ``blocks`` at ``places`` times ``dense`` [n, k]."""
    _, height, width = blocks.shape
    if not blocks.size or not dense.size:
        return base
    strips = dense.reshape(-1, width, dense.shape[1])[places[1]]
    terms = jnp.einsum("nhw,nwk->nhk", blocks, strips, precision="highest").astype(base.dtype)
    rows = base.reshape(-1, height, base.shape[1])
    return rows.at[places[0]].add(terms, mode="drop").reshape(base.shape)


@_kernel
def looked_up(keys: Any, values: Any, wanted: Any) -> Any:
    """The values at ``wanted`` among the sorted ``keys``, zeros where there are none."""
    if not keys.shape[0]:
        return jnp.zeros((wanted.shape[0], *values.shape[1:]), values.dtype)
    places = jnp.minimum(jnp.searchsorted(keys, wanted), keys.shape[0] - 1)
    hit = (keys[places] == wanted).reshape((-1, *[1] * (values.ndim - 1)))
    return jnp.where(hit, values[places], jnp.zeros((), values.dtype))


@_kernel
def summed(base: Any, groups: Any, values: Any) -> Any:
    """``base`` with each of ``values`` added to the row of its group."""
    return base.at[groups].add(values.astype(base.dtype), mode="drop")


@_kernel
def softmaxed(values: Any, groups: Any, base: Any) -> Any:
    """The softmax of ``values`` within each group, of which there are at most as many as ``base`` is long."""
    top = jax.ops.segment_max(values, groups, base.shape[0])
    powers = jnp.exp(values - top[groups])
    return powers / jax.ops.segment_sum(powers, groups, base.shape[0])[groups]


@_kernel
def log_softmaxed(values: Any, groups: Any, base: Any) -> Any:
    """The logarithm of :func:`softmaxed`."""
    top = jax.ops.segment_max(values, groups, base.shape[0])
    shifted = values - top[groups]
    return shifted - jnp.log(jax.ops.segment_sum(jnp.exp(shifted), groups, base.shape[0]))[groups]


@_kernel
def group_sums(values: Any, groups: Any, base: Any) -> Any:
    """For each of ``values`` the sum over its group."""
    return jax.ops.segment_sum(values, groups, base.shape[0])[groups]


@_kernel
def stacked(*parts: Any) -> Any:
    """The rows one under the other."""
    return jnp.stack(parts)


@_kernel
def joined(*parts: Any) -> Any:
    """The parts one after the other along the last dimension of indices."""
    return jnp.concatenate(parts, axis=-1)


@_kernel
def appended(*parts: Any) -> Any:
    """The parts one after the other along the first dimension."""
    return jnp.concatenate(parts, axis=0)


def places(index: Tensor, axis: int) -> Tensor:
    """Where ``gather`` along ``axis`` reads, a column for each element of ``index``."""
    return _places(axis)(index)


@functools.cache
def _places(axis: int) -> Any:
    def _places_along(index: Any) -> Any:
        rows = [jax.lax.broadcasted_iota(index.dtype, index.shape, d) for d in range(index.ndim)]
        rows[axis] = index
        return jnp.stack([row.reshape(-1) for row in rows])

    _places_along.__name__ = f"places {axis}"
    return _kernel(_places_along)


def flat(indices: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """The number of each index in row-major order."""
    out = None
    for dim, length in enumerate(lengths):
        out = indices[dim] if out is None else out * length + indices[dim]
    return indices.new_zeros(indices.shape[1]) if out is None else out


@_kernel
def row_range(rows: Any, wanted: Any) -> Any:
    """Where each of the ``wanted`` rows begins and ends among the sorted ``rows``."""
    return jnp.searchsorted(rows, wanted, side="left"), jnp.searchsorted(rows, wanted, side="right")


def beside(before: Tensor, middle: Tensor, behind: Tensor, axis: int) -> Tensor:
    """Three tensors next to each other along ``axis``."""
    return _beside(axis)(before, middle, behind)


@functools.cache
def _beside(axis: int) -> Any:
    def _beside_along(*parts: Any) -> Any:
        return jnp.concatenate(parts, axis=axis)

    _beside_along.__name__ = f"beside {axis}"
    return _kernel(_beside_along)
