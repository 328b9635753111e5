"""What a sparse tensor looks like: coalescing, and conversion from one layout to another."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.convert import host
from torchlike._core.sparse import kernels
from torchlike._core.sparse.value import Compressed, Coo, put_on, value
from torchlike._core.tensor.tensor import Tensor, fresh, sparse_bsr, sparse_csc, sparse_csr
from torchlike._executor import immediate

if TYPE_CHECKING:
    from collections.abc import Sequence


def zeros(shape: Sequence[int], like: Tensor) -> Tensor:
    """Zeros of the dtype and on the device of ``like``."""
    return put_on(np.zeros(shape, like.dtype.np), like.device) if like.device.type != "cpu" else fresh(
        immediate.zeros(tuple(shape), like.dtype.np)
    )  # fmt: skip


def numbers(v: Coo) -> np.ndarray:
    """The row-major number of each entry's place, on the host."""
    indices = host(v.indices)
    if not v.sparse_dim:
        return np.zeros(indices.shape[1], np.int64)
    if 0 in v.lengths():
        return np.zeros(indices.shape[1], np.int64)
    return np.ravel_multi_index(tuple(indices), v.lengths())


def coalesced(v: Coo) -> Coo:
    """The same with each place once, in order."""
    if v.coalesced:
        return v
    v.demand_within()
    if v.nnz < 2:
        return Coo(v.indices, v.values, v.shape, True)
    places, first, group = np.unique(numbers(v), return_index=True, return_inverse=True)
    indices = put_on(host(v.indices)[:, first], v.indices.device)
    if len(places) == v.nnz:
        order = put_on(first, v.values.device)
        return Coo(indices, v.values.index_select(0, order), v.shape, True)
    groups = put_on(group.reshape(-1), v.values.device)
    if v.values.dtype is dtypes.bool:
        sums = kernels.summed(zeros((len(places), *v.values.shape[1:]), v.values.int()), groups, v.values.int()).bool()
    else:
        sums = kernels.summed(zeros((len(places), *v.values.shape[1:]), v.values), groups, v.values)
    return Coo(indices, sums, v.shape, True)


def dense(v: Coo) -> Tensor:
    """All elements."""
    v.demand_within()
    values = v.values
    if not v.sparse_dim:
        return values.sum(0).to(values.dtype)
    if values.dtype is dtypes.bool:
        return kernels.added(zeros(v.shape, values.int()), v.indices, values.int(), 1).bool()
    return kernels.added(zeros(v.shape, values), v.indices, values, 1)


def as_coo(t: Tensor) -> Coo:
    """The value of a sparse tensor as coordinates."""
    v = value(t)
    if isinstance(v, Coo):
        return v
    assert isinstance(v, Compressed)
    v.demand_within()
    indices = places_of(v)
    values = v.values.reshape(-1, *v.block, *v.dense) if v.batch else v.values
    if v.block:
        return Coo(kernels.spread(indices, values), values.reshape(-1, *v.dense), v.shape)
    return Coo(indices, values, v.shape, v.layout is sparse_csr)


def places_of(v: Compressed) -> Tensor:
    """Row and column [2, nnz] of each entry, counted in blocks where it is one; of a batch, its number comes first."""
    major = kernels.rows_of(v.compressed, v.plain)
    pair = (major, v.plain) if v.by_rows else (v.plain, major)
    return (kernels.in_batch(*pair) if v.batch else kernels.stacked(*pair)).long()


def _numbered(v: Coo) -> tuple[np.ndarray, tuple[int, ...]]:
    """The number of the matrix that each entry of a batch belongs to, and the dimensions of the batch."""
    batch = v.lengths()[:-2]
    there = host(v.indices)[:-2]
    return (np.ravel_multi_index(tuple(there), batch) if batch and v.nnz else np.zeros(v.nnz, np.int64)), batch


def _each(counts: np.ndarray) -> int:
    """How many entries each matrix of a batch has, RuntimeError where they have not all as many."""
    if np.any(counts != counts[:1]):
        raise RuntimeError(f"Expect the same number of specified elements per batch, got {counts.tolist()}")
    return int(counts[0]) if counts.size else 0


def _starts(keys: np.ndarray, count: int, length: int) -> tuple[np.ndarray, int]:
    """Where each of the rows of ``count`` matrices begins, [count, length + 1], and how many entries each matrix has.

    ``keys``: the number of each entry's row, counted through all matrices, in order.
    """
    inside = np.bincount(keys, minlength=count * length).reshape(count, length)
    starts = np.concatenate([np.zeros((count, 1), np.int64), inside.cumsum(1)], 1)
    return starts, _each(starts[:, -1])


def _blocked(v: Coo, layout: Any, block: Sequence[int]) -> Compressed:
    """Coordinates of matrices as blocks; those without an entry are left out."""
    v.demand_within()
    (height, width), rows_first = block, layout is sparse_bsr
    matrix, batch = _numbered(v)
    row, column = host(v.indices)[-2:]
    rows, columns = v.lengths()[-2:]
    counts = rows // height, columns // width
    major, minor = (row // height, column // width) if rows_first else (column // width, row // height)
    length, others = counts if rows_first else counts[::-1]
    found, group = np.unique((matrix * length + major) * others + minor, return_inverse=True)
    places = put_on(np.stack([group.reshape(-1), row % height, column % width]), v.indices.device)
    base = (len(found), height, width, *v.values.shape[1:])
    if v.values.dtype is dtypes.bool:
        values = kernels.added(zeros(base, v.values.int()), places, v.values.int(), 1).bool()
    else:
        values = kernels.added(zeros(base, v.values), places, v.values, 1)
    starts, each = _starts(found // max(others, 1), math.prod(batch), length)
    return _parted(v, layout, batch, starts, found % max(others, 1), each, values)


def _parted(
    v: Coo, layout: Any, batch: Sequence[int], starts: np.ndarray, plain: np.ndarray, each: int, values: Tensor
) -> Compressed:
    """The matrices of parts in which all matrices follow one another."""
    device = values.device
    return Compressed(
        layout, put_on(starts.reshape(*batch, starts.shape[-1]), device), put_on(plain.reshape(*batch, each), device),
        values.reshape(*batch, each, *values.shape[1:]), v.shape,
    )  # fmt: skip


def _batched(v: Coo, layout: Any) -> Compressed:
    """Coordinates of a batch of matrices as compressed rows or columns."""
    v = coalesced(v)
    matrix, batch = _numbered(v)
    major, minor = host(v.indices)[-2:]
    rows, length = layout is sparse_csr, v.lengths()[-2]
    values = v.values
    if not rows:
        order = np.lexsort((major, minor, matrix))
        matrix, major, minor, length = matrix[order], minor[order], major[order], v.lengths()[-1]
        values = values.index_select(0, put_on(order, values.device))
    starts, each = _starts(matrix * length + major, math.prod(batch), length)
    return _parted(v, layout, batch, starts, minor, each, values)


def compress(v: Coo, layout: Any, block: Sequence[int] = ()) -> Compressed:
    """Coordinates of matrices as compressed rows or columns, of blocks of the size ``block``.

    RuntimeError for a batch of matrices of which one has more entries than another.
    """
    if 0 in v.shape[:-2] and v.sparse_dim > 2:
        name = str(layout).rpartition("_")[2]
        raise RuntimeError(f"to_sparse_{name}: Expected product of batch dimensions to be non-zero.")
    if block:
        return _blocked(v, layout, block)
    if v.sparse_dim > 2:
        return _batched(v, layout)
    if layout is sparse_csr:
        v = coalesced(v)
        major, minor = v.indices[0], v.indices[1]
        values, length = v.values, v.shape[0]
    else:
        assert layout is sparse_csc
        turned = coalesced(Coo(v.indices.flip(0), v.values, (v.shape[1], v.shape[0], *v.shape[2:])))
        major, minor, values, length = turned.indices[0], turned.indices[1], turned.values, v.shape[1]
    starts = np.searchsorted(host(major), np.arange(length + 1))
    return Compressed(layout, put_on(starts.astype(np.int64), values.device), minor.clone(), values, v.shape)


def like(v: Coo, t: Tensor) -> Tensor:
    """``v`` as a tensor in the layout of ``t``."""
    found = value(t)
    return fresh(compress(v, found.layout, found.block) if isinstance(found, Compressed) else v)


def with_values(t: Tensor, values: Tensor, coalesce: bool = False) -> Tensor:
    """Other values, in any shape, at the places of ``t``."""
    v = value(t)
    if isinstance(v, Compressed):
        values = values.reshape(v.values.shape) if v.block or v.batch else values
        return fresh(Compressed(v.layout, v.compressed, v.plain, values, v.shape, v.within))
    assert isinstance(v, Coo)
    return fresh(Coo(v.indices, values, v.shape, v.coalesced or coalesce, v.within))


def emptied(v: Compressed) -> Compressed:
    """The same matrix without entries."""
    none = put_on(np.zeros((*v.batch, 0), v.plain.dtype.np), v.plain.device)
    starts = zeros(tuple(v.compressed.shape), v.compressed)
    return Compressed(v.layout, starts, none, zeros((*v.batch, 0, *v.block, *v.dense), v.values), v.shape)


def to_sparse(t: Tensor, sparse_dim: int) -> Coo:
    """The nonzero elements (or parts, along the first ``sparse_dim`` dimensions) of a dense tensor."""
    there = host(t) != 0
    if not t.ndim and not there:
        return Coo(put_on(np.zeros((0, 0), np.int64), t.device), zeros((0,), t), (), True)
    if sparse_dim < t.ndim:
        there = there.any(axis=tuple(range(sparse_dim, t.ndim)))
    places = np.stack(np.nonzero(there)) if sparse_dim else np.zeros((0, 1), np.int64)
    indices = put_on(places.astype(np.int64), t.device)
    values = kernels.taken(t, indices) if sparse_dim else t.unsqueeze(0)
    return Coo(indices, values, tuple(t.shape), True)


def masked(t: Tensor, mask: Coo) -> Coo:
    """The elements of ``t``, dense or sparse, at the places of ``mask``."""
    if value(t) is None:
        mask.demand_within()
        return Coo(mask.indices, kernels.taken(t, mask.indices), mask.shape, mask.coalesced)
    own = coalesced(as_coo(t))
    keys, wanted = kernels.flat(own.indices, own.lengths()), kernels.flat(mask.indices, mask.lengths())
    return Coo(mask.indices, kernels.looked_up(keys, own.values, wanted), mask.shape, mask.coalesced)
