"""Transposes, selections, concatenations, reductions, casts and copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._base import dtypes
from torchlike._base.dims import wrap_dim
from torchlike._core.conversion.convert import host
from torchlike._core.sparse import kernels
from torchlike._core.sparse.arithmetic import merged
from torchlike._core.sparse.rules import COMPOSITES, recorded, rule
from torchlike._core.sparse.structure import as_coo, coalesced, masked, with_values
from torchlike._core.sparse.value import Compressed, Coo, coo_of, put_on, unsupported, value, viewed
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, alias, fresh, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from torchlike._executor.sparse import LAYER

_TURNED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


def _only_coo(name: str, t: Tensor) -> Coo:
    v = coo_of(t)
    if v is None:
        raise unsupported(name, t)
    return v


def _refused(name: str, t: Tensor) -> Any:
    def back(grad: Tensor) -> Any:
        raise unsupported(f"the gradient of {name}", t)

    return back


# -- order of dimensions ---------------------------------------------------------------------------------


def _permuted(name: str, t: Tensor, dims: Sequence[int]) -> Tensor:
    return viewed(t, _in_order(name, t, dims))


def _in_order(name: str, t: Tensor, dims: Sequence[int]) -> Tensor:
    v = value(t)
    if isinstance(v, Compressed):
        return _turned(name, t, v, dims)
    assert isinstance(v, Coo)
    n = v.sparse_dim
    if sorted(dims[:n]) != list(range(n)):
        raise RuntimeError(
            f"{name}(): transpose of a sparse tensor only within its sparse dimensions and within its dense ones "
            f"({n} sparse, {t.ndim - n} dense)"
        )
    shape = [v.shape[d] for d in dims]
    kept = list(dims[:n]) == list(range(n))
    indices = v.indices if kept else v.indices.index_select(0, put_on(np.array(dims[:n]), v.indices.device))
    dense = [0, *[d - n + 1 for d in dims[n:]]]
    values = v.values if dense == list(range(len(dense))) else v.values.permute(dense)
    values = values if name == "permute" else values.clone()  # as PyTorch has it: only permute() shares them
    return fresh(Coo(indices, values, shape, v.coalesced and (kept or not v.nnz), v.within))


def _turned(name: str, t: Tensor, v: Compressed, dims: Sequence[int]) -> Tensor:
    """Compressed matrices in another order of dimensions: those of the batch, or rows and columns."""
    if v.dense:
        raise RuntimeError(f"{name}(): hybrid sparse compressed tensors with dense dimensions are not supported")
    if list(dims) == list(range(len(dims))):
        return fresh(Compressed(v.layout, alias(v.compressed), alias(v.plain), alias(v.values), v.shape, v.within))
    n = len(v.batch)
    for dim, other in enumerate(dims):
        _demand_kind(name, v, dim, other)
    order = list(dims[:n])
    compressed, plain, values = [
        x.permute([*order, *range(n, x.ndim)]).contiguous() if order != list(range(n)) else x
        for x in map(alias, (v.compressed, v.plain, v.values))
    ]
    turned = dims[n] != n
    values = values.transpose(n + 1, n + 2) if turned and v.block else values
    layout = _TURNED[v.layout] if turned else v.layout
    return fresh(Compressed(layout, compressed, plain, values, [v.shape[d] for d in dims], v.within))


def _demand_kind(name: str, v: Compressed, dim: int, other: int) -> None:
    kinds = ["Batch" if d < len(v.batch) else "Sparse" for d in (dim, other)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            f"{name}(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{dim}({kinds[0]}) and {other}({kinds[1]})"
        )


@rule("t")
def _t(ctx: Any, self: Tensor) -> Tensor:
    sparse, dense = self.sparse_dim(), self.dense_dim()
    if sparse > 2 or dense or self.ndim > 2:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{sparse} sparse and {dense} dense dimensions"
        )
    ctx.saves(lambda grad: [grad.t()])
    return _permuted("t", self, tuple(range(self.ndim))[::-1])


@rule("transpose.int")
def _transpose(ctx: Any, self: Tensor, dim0: int, dim1: int) -> Tensor:
    dims = list(range(self.ndim))
    a, b = wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
    dims[a], dims[b] = b, a
    v = value(self)
    if isinstance(v, Compressed) and not v.dense:
        _demand_kind("transpose", v, a, b)
    ctx.saves(lambda grad: [grad.transpose(dim0, dim1)])
    return _permuted("transpose", self, dims)


@rule("permute")
def _permute(ctx: Any, self: Tensor, dims: Sequence[int]) -> Tensor:
    if len(dims) != self.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(d, self.ndim) for d in dims]
    ctx.saves(lambda grad: [grad.permute([order.index(d) for d in range(len(order))])])
    return _permuted("permute", self, order)


@rule("unsqueeze")
def _unsqueeze(ctx: Any, self: Tensor, dim: int) -> Tensor:
    v = _only_coo("unsqueeze", self)
    dim = wrap_dim(dim, self.ndim + 1)
    ctx.saves(_refused("unsqueeze", self))
    return viewed(self, fresh(_unsqueezed(v, dim, False)))


def _unsqueezed(v: Coo, dim: int, coalesced: bool) -> Coo:
    shape = (*v.shape[:dim], 1, *v.shape[dim:])
    if dim > v.sparse_dim:
        return Coo(v.indices, v.values.unsqueeze(dim - v.sparse_dim + 1), shape, coalesced, v.within)
    rows = [*v.indices.unbind(0)]
    rows.insert(dim, v.indices.new_zeros(v.nnz))
    return Coo(kernels.stacked(*rows), v.values, shape, coalesced, v.within)


# -- selection -------------------------------------------------------------------------------------------


def _chosen(v: Coo, rows: np.ndarray, indices: np.ndarray, shape: Sequence[int], coalesced: bool) -> Tensor:
    """The entries with the numbers ``rows``, at other places."""
    values = v.values.index_select(0, put_on(rows, v.values.device))
    return fresh(Coo(put_on(indices, v.indices.device), values, shape, coalesced or len(rows) < 2))


@rule("select.int")
def _select(ctx: Any, self: Tensor, dim: int, index: int) -> Tensor:
    dim = wrap_dim(dim, self.ndim)
    length = self.shape[dim]
    if not -length <= index < length:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
        )
    index %= length
    ctx.saves(_refused("select", self))
    shape, own = [*self.shape[:dim], *self.shape[dim + 1 :]], value(self)
    if isinstance(own, Compressed):
        own.demand_within()
        n = len(own.batch)
        return viewed(self, (_line_of if n <= dim < n + 2 else _one_of)(own, dim, index, shape))
    assert isinstance(own, Coo)
    return viewed(self, _selected(own, dim, index, shape))


def _selected(v: Coo, dim: int, index: int, shape: Sequence[int]) -> Tensor:
    if dim >= v.sparse_dim:
        return fresh(Coo(v.indices, v.values.select(dim - v.sparse_dim + 1, index), shape, False, v.within))
    v.demand_within()
    places = host(v.indices)
    rows = np.flatnonzero(places[dim] == index)
    if v.sparse_dim == 1:
        return v.values.index_select(0, put_on(rows, v.values.device)).sum(0).to(v.values.dtype)
    return _chosen(v, rows, np.delete(places[:, rows], dim, 0), shape, False)


def _one_of(v: Compressed, dim: int, index: int, shape: Sequence[int]) -> Tensor:
    """A part of a batch of matrices, or of the elements of hybrid ones."""
    if dim >= len(v.batch) + 2:
        values = v.values.select(dim - 1 + len(v.block), index)
        return fresh(Compressed(v.layout, v.compressed, v.plain, values, shape, v.within))
    compressed, plain, values = [x.select(dim, index) for x in (v.compressed, v.plain, v.values)]
    return fresh(Compressed(v.layout, compressed, plain, values, shape, v.within))


def _line_of(v: Compressed, dim: int, index: int, shape: Sequence[int]) -> Tensor:
    """A row or a column of a matrix: its values are a view of those of the matrix."""
    if v.batch:
        raise RuntimeError(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
        )
    starts, places = host(v.compressed), host(v.plain)
    sizes, strides, blocked = v.block or (1, 1), v.values.stride(), len(v.block)
    block, inside = divmod(index, sizes[dim])
    if (dim == 0) is v.by_rows:
        entries = np.arange(starts[block], starts[block + 1])
        others = places[entries]
    else:
        entries = np.flatnonzero(places == block)
        others = np.searchsorted(starts, entries, "right") - 1
    along = np.arange(sizes[1 - dim])
    others = (others[:, None] * sizes[1 - dim] + along).reshape(1, -1).astype(np.int64)
    offsets = entries[:, None] * strides[0]
    if blocked:
        offsets = offsets + inside * strides[1 + dim] + along * strides[2 - dim]
    offsets = offsets.reshape(-1)
    steps = np.diff(offsets)
    if np.any(steps != steps[:1]):
        raise RuntimeError("select(): no view exists for the given input, consider using torch.select_copy.")
    first, step = [int(x[0]) if x.size else 1 for x in (offsets, steps)]
    layout = (len(offsets), *v.dense), (step, *strides[1 + blocked :])
    values = v.values.as_strided(*layout, v.values.storage_offset() + (first if len(offsets) else 0))
    return fresh(Coo(put_on(others, values.device), values, shape, True))


@rule("index_select")
def _index_select(ctx: Any, self: Tensor, index: Tensor, dim: int) -> Tensor:
    v = _only_coo("index_select", self)
    if value(index) is not None:
        raise unsupported("index_select by a sparse index: index_select", index)
    dim = wrap_dim(dim, self.ndim)
    ctx.saves(_refused("index_select", self))
    wanted, length = host(index).reshape(-1), v.shape[dim]
    if wanted.size and (wanted.min() < -length or wanted.max() >= length):
        wrong = wanted[(wanted < -length) | (wanted >= length)][0]
        raise IndexError(
            f"index_select(): index contains {wrong} that is out of range for tensor of size {list(self.shape)} at "
            f"dimension {dim}"
        )
    wanted = wanted % length if length else wanted
    shape = [*v.shape[:dim], len(wanted), *v.shape[dim + 1 :]]
    if dim >= v.sparse_dim:
        values = v.values.index_select(dim - v.sparse_dim + 1, put_on(wanted, v.values.device))
        return fresh(Coo(v.indices, values, shape, v.coalesced, v.within))
    v.demand_within()
    places = host(v.indices)
    order = np.argsort(places[dim], kind="stable")
    ordered = places[dim][order]
    first, last = np.searchsorted(ordered, wanted, "left"), np.searchsorted(ordered, wanted, "right")
    counts = last - first
    target = np.repeat(np.arange(len(wanted)), counts)
    within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    rows = order[np.repeat(first, counts) + within]
    indices = places[:, rows].copy()
    indices[dim] = target
    return _chosen(v, rows, indices, shape, False)


# -- sizes -----------------------------------------------------------------------------------------------


def resized(t: Tensor, shape: Sequence[int]) -> None:
    """Change the size of CSR matrices: rows are added without entries; entries past the elements there are go."""
    v = value(t)
    if not isinstance(v, Compressed) or v.layout is not sparse_csr or v.dense:
        raise unsupported("resize_", t)
    if len(shape) < 2:
        raise RuntimeError(f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(shape)}")
    (*batch, rows, columns), before = shape, v.shape[-1]
    if columns < before:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original "
            f"number of columns is {before} while the requested new number of columns is {columns}."
        )
    count, nnz = math.prod(batch), min(v.nnz, rows * columns)
    if count > math.prod(v.batch):
        raise unsupported("to more matrices than there are resize_", t)
    parts = [x.flatten(0, len(v.batch) - 1) if v.batch else x[None] for x in (v.compressed, v.plain, v.values)]
    starts, plain, values = [x[:count] for x in parts]
    lasting = starts[:, :rows].clamp(max=nnz)
    ends = starts.new_full((count, rows + 1 - lasting.shape[1]), nnz)
    made = [kernels.joined(lasting, ends), plain[:, :nnz].clone(), values[:, :nnz].clone()]
    compressed, plain, values = [x.reshape(*batch, x.shape[1]) for x in made]
    write(t, Compressed(v.layout, compressed, plain, values, shape, v.within))


LAYER.resized = resized


# -- joining ---------------------------------------------------------------------------------------------


def _parts(name: str, tensors: Sequence[Tensor]) -> list[Coo]:
    found = [coo_of(t) for t in tensors]
    for t, v in zip(tensors, found, strict=True):
        if v is None:
            raise RuntimeError(
                f"{name}(): Concatenating sparse tensors, but a tensor of layout {t.layout} was found among them; all "
                "must be torch.sparse_coo"
            )
    return [v for v in found if v is not None]


def _demand_equal_but(parts: Sequence[Coo], dim: int) -> None:
    """RuntimeError unless shapes are equal but along ``dim``, and as many of their dimensions are sparse."""
    first = parts[0]
    for i, v in enumerate(parts):
        if v.ndim != first.ndim or any([v.shape[d] != first.shape[d] for d in range(v.ndim) if d != dim]):
            raise RuntimeError(
                f"All tensors must have the same shape: {list(first.shape)} (except in the concatenating dimension), "
                f"but found shape: {list(v.shape)} at position {i} (cat)"
            )
        if v.sparse_dim != first.sparse_dim:
            expected, found = [f"{x.sparse_dim}, {x.ndim - x.sparse_dim}" for x in (first, v)]
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {expected}, but tensor at position {i} has "
                f"{found} (cat)"
            )


def _joined(parts: Sequence[Coo], dim: int) -> Tensor:
    _demand_equal_but(parts, dim)
    shape = list(parts[0].shape)
    shape[dim] = sum([v.shape[dim] for v in parts])
    if dim < parts[0].sparse_dim:
        moved, offset = [], 0
        for v in parts:
            shift = np.zeros((v.sparse_dim, 1), np.int64)
            shift[dim] = offset
            moved.append(v.indices + put_on(shift, v.indices.device))
            offset += v.shape[dim]
        values = [v.values for v in parts]
    else:
        moved, values = [v.indices for v in parts], _padded(parts, dim)
    within = all(v.within for v in parts)
    return fresh(Coo(kernels.joined(*moved), kernels.appended(*values), shape, False, within))


def _padded(parts: Sequence[Coo], dim: int) -> list[Tensor]:
    """The values with zeros before and behind along a dense dimension."""
    axis = dim - parts[0].sparse_dim + 1
    lengths = [v.shape[dim] for v in parts]
    out = []
    for i, v in enumerate(parts):
        sizes = [list(v.values.shape) for _ in range(2)]
        sizes[0][axis], sizes[1][axis] = sum(lengths[:i]), sum(lengths[i + 1 :])
        out.append(kernels.beside(v.values.new_zeros(sizes[0]), v.values, v.values.new_zeros(sizes[1]), axis))
    return out


@rule("cat")
def _cat(ctx: Any, tensors: Sequence[Tensor], dim: int) -> Tensor:
    ctx.saves(_refused("cat", next(t for t in tensors if value(t) is not None)))
    parts = _parts("cat", tensors)
    return _joined(parts, wrap_dim(dim, parts[0].ndim))


@rule("stack")
def _stack(ctx: Any, tensors: Sequence[Tensor], dim: int) -> Tensor:
    parts = _parts("stack", tensors)
    dim = wrap_dim(dim, parts[0].ndim + 1)
    ctx.saves(lambda grad: _unstacked(grad, dim))
    return _joined([_unsqueezed(v, dim, v.coalesced) for v in parts], dim)


def _unstacked(grad: Tensor, dim: int) -> list[Tensor]:
    parts = [grad.select(dim, i) for i in range(grad.shape[dim])]
    for part in parts if coo_of(grad) is not None else ():
        value(part).coalesced = value(grad).coalesced
    return parts


# -- reductions ------------------------------------------------------------------------------------------


@rule("any")
def _any(ctx: Any, self: Tensor, **dims: Any) -> Tensor:
    if dims or isinstance(value(self), Compressed):
        raise unsupported("any", self)
    ctx.saves(_refused("any", self))
    return value(self).values.any()  # of values that share a place each one, as in PyTorch


@rule("sum")
def _sum(ctx: Any, self: Tensor, dtype: Any) -> Tensor:
    shape, kind = tuple(self.shape), self.dtype
    ctx.saves(lambda grad: [grad.to(kind).expand(shape)])
    return value(self).values.sum(dtype=dtype)


def sum_dims(ctx: Any, self: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum over some dimensions: dense where all sparse ones are among them."""
    v, shape, mask = _only_coo("sum", self), tuple(self.shape), self.detach()
    kept = [d for d in range(v.sparse_dim) if d not in dims]
    n = v.sparse_dim

    def back(grad: Tensor) -> list[Any]:
        own = coalesced(as_coo(mask))
        if value(grad) is None:
            spread = [1 if d in dims else k for d, k in enumerate(shape)]
            return [fresh(masked(grad.reshape(spread).expand(shape), own))]
        g = coalesced(as_coo(grad))
        axes = [d - n + 1 for d in dims if d >= n]
        values = g.values
        for a in axes:
            values = values.unsqueeze(a)
        keys = kernels.flat(g.indices, g.lengths())
        rows = put_on(np.array(kept, np.int64), own.indices.device)
        wanted = kernels.flat(own.indices.index_select(0, rows), tuple([shape[d] for d in kept]))
        return [with_values(fresh(own), kernels.looked_up(keys, values, wanted).expand(own.values.shape).contiguous())]

    ctx.saves(back)
    v.demand_within()
    axes = [d - n + 1 for d in dims if d >= n]
    v = coalesced(v) if axes else v
    values = v.values.sum(axes) if axes else v.values
    rest = [k for d, k in enumerate(shape) if d not in dims]
    if not kept:
        return values.sum(0)
    if len(kept) == n:
        return fresh(Coo(v.indices, values, rest, v.coalesced))
    rows = put_on(np.array(kept, np.int64), v.indices.device)
    return fresh(coalesced(Coo(v.indices.index_select(0, rows), values, rest)))


def _sum_over(self: Tensor, dim: Any, keepdim: bool, dtype: Any) -> Tensor:
    if dtype is None and not (self.is_floating_point() or self.is_complex()):
        dtype = dtypes.int64
    t = self if dtype is None else self.to(dtype)
    dims = [dim] if isinstance(dim, int) else list(dim or range(t.ndim))
    dims = sorted([wrap_dim(d, t.ndim) for d in dims])
    out = recorded("SumBackward1", lambda ctx, t: sum_dims(ctx, t, tuple(dims)), t)
    for d in dims if keepdim else ():
        out = out.unsqueeze(d)
    return out


COMPOSITES["sum.dim_IntList"] = _sum_over


def softmax(ctx: Any, self: Tensor, dim: int, log: bool) -> Tensor:
    """The softmax over the entries that there are along ``dim``."""
    _only_coo("softmax", self)
    t, dim = merged(self), wrap_dim(dim, self.ndim)
    v = coo_of(t)
    assert v is not None
    if dim >= v.sparse_dim:
        out = v.values.log_softmax(dim - v.sparse_dim + 1) if log else v.values.softmax(dim - v.sparse_dim + 1)
        groups = None
    else:
        places, lengths = host(v.indices), list(v.shape[: v.sparse_dim])
        others = tuple(np.delete(places, dim, 0))
        flat = np.ravel_multi_index(others, np.delete(lengths, dim)) if others else np.zeros(v.nnz, np.int64)
        groups = put_on(np.unique(flat, return_inverse=True)[1].reshape(-1), v.values.device)
        out = (kernels.log_softmaxed if log else kernels.softmaxed)(v.values, groups, v.values)
    result = with_values(t, out)

    def back(grad: Tensor, result: Tensor) -> list[Any]:
        own = coo_of(result)
        assert own is not None
        y, g = own.values, masked(grad, own).values

        def total(x: Tensor) -> Tensor:
            if groups is None:
                return x.sum(dim - own.sparse_dim + 1, keepdim=True)
            return kernels.group_sums(x, groups, y)

        return [with_values(result, g - y.exp() * total(g) if log else y * (g - total(y * g)))]

    ctx.saves(back, result.detach())
    return result


# -- copies ----------------------------------------------------------------------------------------------


@rule("clone")
def _clone(ctx: Any, self: Tensor, memory_format: Any) -> Tensor:
    ctx.saves(lambda grad: [grad])
    return copied(self)


def copied(t: Tensor) -> Tensor:
    """The same over copies of the parts."""
    v = value(t)
    if isinstance(v, Coo):
        return fresh(Coo(v.indices.clone(), v.values.clone(), v.shape, v.coalesced, v.within))
    assert isinstance(v, Compressed)
    return fresh(Compressed(v.layout, v.compressed.clone(), v.plain.clone(), v.values.clone(), v.shape, v.within))


def moved(t: Tensor, device: Any) -> Tensor:
    """The tensor on another device."""

    def f(ctx: Any, t: Tensor) -> Tensor:
        here, v = t.device, value(t)
        if device.type == "meta" or here.type == "meta":
            raise unsupported("moving to meta: to", t)
        ctx.saves(lambda grad: [grad.to(here)])
        if isinstance(v, Coo):
            parts = v.indices.to(device), v.values.to(device)
            return fresh(Coo(*parts, v.shape, v.coalesced, v.within))
        assert isinstance(v, Compressed)
        parts = v.compressed.to(device), v.plain.to(device)
        return fresh(Compressed(v.layout, *parts, v.values.to(device), v.shape, v.within))

    return recorded("ToCopyBackward0", f, t)


LAYER.moved = moved


@rule("_to_copy")
def _to_copy(ctx: Any, self: Tensor, dtype: Any) -> Tensor:
    before = self.dtype
    ctx.saves(lambda grad: [grad.to(before)])
    return with_values(self, value(self).values.to(dtype or before, copy=True))
