"""Sparse tensors from their parts: inference of sizes, checks, and the way of gradients to the values."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.convert import as_tensor, host
from torchlike._core.sparse import kernels
from torchlike._core.sparse.rules import recorded
from torchlike._core.sparse.structure import as_coo
from torchlike._core.sparse.value import Compressed, Coo, check_range, coo_of, put_on, value
from torchlike._core.tensor.arguments import as_ints
from torchlike._core.tensor.tensor import Tensor, fresh, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr


class _Invariants(threading.local):
    """Whether the parts of new sparse tensors are checked where a call does not say so."""

    enabled = False


INVARIANTS = _Invariants()


def _values(values: Any, dtype: Any, device: Any) -> Tensor:
    t = values if isinstance(values, Tensor) else as_tensor(values)
    return t.to(device=None if device is None else devices.as_device(device), dtype=dtype)


def _indices(indices: Any, device: Any, name: str = "indices") -> Tensor:
    t = indices if isinstance(indices, Tensor) else as_tensor(indices)
    if t is not indices and not t.numel():
        t = t.long()  # a list without numbers has no dtype
    if value(t) is not None:
        raise TypeError(f"expected dense {name}, got a tensor of layout {t.layout}")
    if t.dtype.is_complex or t.dtype is dtypes.bool:
        raise RuntimeError(f"{name} must be an int32 or int64 type, but got {t.dtype}")
    return t.detach().to(device=device)


def _leaf(t: Tensor, requires_grad: bool) -> Tensor:
    return t.detach().requires_grad_() if requires_grad else t


# -- coordinates -----------------------------------------------------------------------------------------


def from_coordinates(
    indices: Any, values: Any, size: Sequence[int] | None, dtype: Any, device: Any, requires_grad: bool,
    check: bool | None, is_coalesced: bool | None,
) -> Tensor:  # fmt: skip
    """``torch.sparse_coo_tensor`` of indices and values."""
    values = _values(values, dtype, device)
    if requires_grad:
        values = values.detach()
    indices = _indices(indices, values.device).long()
    if indices.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if not values.ndim:
        values = values.expand(indices.shape[1]).contiguous()
    if values.shape[0] != indices.shape[1]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    within = size is None
    shape = _inferred(indices, values) if size is None else as_ints("sparse_coo_tensor", "size", size)
    _demand_shape(indices, values, shape)
    if check if check is not None else INVARIANTS.enabled:
        check_range(host(indices), shape[: indices.shape[0]])
        within = True
        if is_coalesced:
            _demand_coalesced(indices, shape)
    return _leaf(
        assembled(Coo(indices, values, shape, bool(is_coalesced) or indices.shape[1] < 2, within), values),
        requires_grad,
    )


def _inferred(indices: Tensor, values: Tensor) -> tuple[int, ...]:
    places = host(indices)
    for dim, row in enumerate(places):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {dim}")
    lengths = [int(row.max()) + 1 if row.size else 0 for row in places]
    return (*lengths, *values.shape[1:])


def _demand_shape(indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> None:
    sparse_dim, dense_dim = indices.shape[0], values.ndim - 1
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if len(shape) != sparse_dim + dense_dim:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if tuple(values.shape[1:]) != shape[sparse_dim:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[values.shape[0], *shape[sparse_dim:]]}, got {list(values.shape)}"
        )


def _demand_coalesced(indices: Tensor, shape: tuple[int, ...]) -> None:
    numbers = np.ravel_multi_index(tuple(host(indices)), shape[: indices.shape[0]])
    if np.any(np.diff(numbers) <= 0):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: they must be sorted and "
            "distinct"
        )


def assembled(v: Coo, values: Tensor) -> Tensor:
    """The tensor of ``v``, whose values are those of ``values``, to which gradients go."""

    def f(ctx: Any, values: Tensor) -> Tensor:
        ctx.saves(lambda grad: [values_at(grad, v.indices, tuple(v.shape[: v.sparse_dim]))])
        return fresh(Coo(v.indices, values.detach(), v.shape, v.coalesced, v.within))

    return recorded("SparseCooTensorWithDimsAndTensorsBackward0", f, values)


def values_at(t: Tensor, indices: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """The elements of ``t``, dense or sparse, at ``indices``, recorded."""
    if value(t) is None:
        return kernels.taken(t, indices)
    own = values_of(_coordinates(t))
    keys = kernels.flat(as_coo(_coordinates(t)).indices, lengths)
    return kernels.looked_up(keys, own, kernels.flat(indices, lengths))


def _coordinates(t: Tensor) -> Tensor:
    v = coo_of(t)
    if v is None:
        return t.to_sparse_coo()
    return t if v.coalesced else t.coalesce()


def values_of(t: Tensor) -> Tensor:
    """The values of a coalesced or compressed tensor, recorded."""

    def f(ctx: Any, t: Tensor) -> Tensor:
        like = t.detach()
        ctx.saves(lambda grad: [of_pattern(like, grad)])
        return value(t).values.detach()

    return recorded("ValuesBackward0", f, t)


def of_pattern(t: Tensor, values: Tensor) -> Tensor:
    """Other values at the places of ``t``, recorded."""
    v = value(t)
    if isinstance(v, Coo):
        return assembled(Coo(v.indices, v.values, v.shape, v.coalesced, v.within), values)
    assert isinstance(v, Compressed)
    return assembled_compressed(v, values)


# -- compressed ------------------------------------------------------------------------------------------


def from_compressed(
    layout: Any, compressed: Any, plain: Any, values: Any, size: Sequence[int] | None, dtype: Any, device: Any,
    requires_grad: bool, check: bool | None,
) -> Tensor:  # fmt: skip
    """``torch.sparse_csr_tensor`` and its kind."""
    values = _values(values, dtype, device)
    if requires_grad:
        values = values.detach()
    compressed = _indices(compressed, values.device, "compressed_indices")
    plain = _indices(plain, values.device, "plain_indices")
    blocked, by_rows = layout in (sparse_bsr, sparse_bsc), layout in (sparse_csr, sparse_bsr)
    names = ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    _demand_parts(names, compressed, plain, values, blocked)
    batch = tuple(compressed.shape[:-1])
    n = len(batch) + 1
    block, dense = (tuple(values.shape[n : n + 2]) if blocked else (1, 1)), tuple(values.shape[n + 2 * blocked :])
    if size is None:
        places = host(plain)
        major, minor = compressed.shape[-1] - 1, int(places.max()) + 1 if places.size else 0
        counts = (major, minor) if by_rows else (minor, major)
        shape = (*batch, counts[0] * block[0], counts[1] * block[1], *dense)
    else:
        shape = as_ints("sparse_compressed_tensor", "size", size)
    if plain.numel() or values.numel():  # lists without entries, as [[[]]], have no lengths to speak of
        _demand_batch(names, compressed, plain, values, shape, dense)
        _demand_divisible(shape[n - 1 : n + 1], block, n - 1)
    v = Compressed(layout, compressed, plain, values, shape, False)
    if check if check is not None else INVARIANTS.enabled:
        rows, places = host(compressed).reshape(-1, compressed.shape[-1]), host(plain)
        for starts, within in zip(rows, places.reshape(len(rows), places.shape[-1]), strict=True):
            check_compressed(names, starts, within, v.lengths(), " blocks" if blocked else "s")
        v.within = True
    return _leaf(assembled_compressed(v, values), requires_grad)


def _demand_batch(
    names: tuple[str, str], compressed: Tensor, plain: Tensor, values: Tensor, shape: Sequence[int],
    dense: Sequence[int],
) -> None:  # fmt: skip
    """RuntimeError where the parts are not of as many matrices, or the matrices not of as many dimensions, as asked."""
    n = compressed.ndim - 1
    if len(shape) != n + 2 + len(dense):
        raise RuntimeError(
            f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (={n} + 2 + {len(dense)}) "
            f"but got {len(shape)}"
        )
    batches = [list(t.shape[:n]) for t in (compressed, plain, values)]
    if any([batch != list(shape[:n]) for batch in batches]):
        raise RuntimeError(
            f"all batch dimensions of {names[0]} (={batches[0]}), {names[1]} (={batches[1]}), and values "
            f"(={batches[2]}) must be equal to tensor batch dimensions (={list(shape[:n])})"
        )
    if plain.shape[-1] != values.shape[n]:
        raise RuntimeError(
            f"{names[1]}.shape[-1] must be equal to nnz (={values.shape[n]}) as defined by values.shape[{n}], but got "
            f"{plain.shape[-1]}"
        )
    if tuple(shape[n + 2 :]) != tuple(dense):
        raise RuntimeError(
            f"the last dimensions of values (={list(dense)}) must be those of the tensor (={list(shape[n + 2 :])})"
        )


def _demand_divisible(shape: Sequence[int], block: Sequence[int], first: int) -> None:
    for dim, (length, part) in enumerate(zip(shape, block, strict=True), first):
        if part < 1:
            raise RuntimeError(f"blocksize needs to be positive, but got {list(block)} as defined by values shape")
        if length % part:
            raise RuntimeError(
                f"tensor shape[{dim}] (={length}) must be divisible with blocksize[{dim - first}] (={part}) as defined "
                "by values shape"
            )


def _demand_parts(names: tuple[str, str], compressed: Tensor, plain: Tensor, values: Tensor, blocked: bool) -> None:
    for name, t in zip(names, (compressed, plain), strict=True):
        if t.dtype not in (dtypes.int32, dtypes.int64):
            raise RuntimeError(f"{names[0]} and {names[1]} must be an int32 or int64 type, but got {t.dtype} as {name}")
    if compressed.dtype is not plain.dtype:
        raise RuntimeError(f"{names[0]} and {names[1]} dtype must match, but got {compressed.dtype} and {plain.dtype}")
    if not compressed.ndim:
        raise RuntimeError(f"{names[0]} must have dimensionality >= 1 but got 0")
    if compressed.ndim != plain.ndim:
        raise RuntimeError(
            f"{names[0]} and {names[1]} dimensionalities must be equal but got {compressed.ndim} and {plain.ndim}, "
            "respectively"
        )
    if values.ndim < compressed.ndim + 2 * blocked:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities (="
            f"{compressed.ndim - 1} + {2 * blocked}) but got {values.ndim}"
        )


def check_compressed(
    names: tuple[str, str], compressed: np.ndarray, plain: np.ndarray, shape: Sequence[int], plural_of: str
) -> None:
    """RuntimeError for indices that make no sparse matrix of ``shape``, (compressed, plain)."""
    outer, inner = names
    rows, columns = ("row", "ncols") if outer == "crow_indices" else ("column", "nrows")
    rows += plural_of
    if compressed.shape[-1] != shape[0] + 1:
        raise RuntimeError(
            f"{outer}.shape[-1] must be equal to the number of {rows} + 1 (={shape[0] + 1}), but got "
            f"{compressed.shape[-1]}"
        )
    counts = np.diff(compressed)
    inside = [plain[a:b] for a, b in zip(compressed, compressed[1:], strict=False)]
    plural = "nrows" if outer == "crow_indices" else "ncols"
    for ok, what in (
        (compressed[0] == 0, f"`{outer}[..., 0] == 0`"),
        (compressed[-1] == len(plain), f"`{outer}[..., -1] == nnz`"),
        (
            np.all((counts >= 0) & (counts <= shape[1])),
            f"`0 <= {outer}[..., 1:] - {outer}[..., :-1] <= {columns}`",
        ),
        (not plain.size or (plain.min() >= 0 and plain.max() < shape[1]), f"`0 <= {inner} < {columns}`"),
        (
            all(np.all(np.diff(part) > 0) for part in inside),
            f"`{inner}[..., {outer}[..., i - 1]:{outer}[..., i]] for all i = 1, ..., {plural} are sorted and distinct "
            "along the last dimension values`",
        ),
    ):
        if not ok:
            raise RuntimeError(f"{what} is not satisfied.")


def assembled_compressed(v: Compressed, values: Tensor) -> Tensor:
    """The tensor of ``v``, whose values are those of ``values``, to which gradients go."""

    def f(ctx: Any, values: Tensor) -> Tensor:
        def back(grad: Tensor) -> list[Any]:
            own = as_coo(fresh(v))
            found = values_at(grad, own.indices, tuple(own.shape))
            return [found.reshape(v.values.shape)]

        ctx.saves(back)
        return fresh(Compressed(v.layout, v.compressed, v.plain, values.detach(), v.shape, v.within))

    return recorded("SparseCompressedTensorBackward0", f, values)


def empty(layout: Any, shape: Sequence[int], dtype: Any, device: Any, dense_dim: int = 0) -> Tensor:
    """A sparse tensor without entries."""
    device = devices.default_device() if device is None else devices.as_device(device)
    sparse_dim = len(shape) - dense_dim
    values = put_on(np.zeros((0, *shape[sparse_dim:]), dtype.np), device)
    if layout in (sparse_bsr, sparse_bsc):
        raise RuntimeError(
            f"torch.empty: expected sparse compressed (non-block) tensor layout but got {layout}; make a dense tensor "
            "and convert it, which says how large its blocks are"
        )
    if layout in (sparse_csr, sparse_csc):
        if len(shape) < 2:
            raise RuntimeError(
                f"torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size "
                f"{list(shape)}"
            )
        batch = tuple(shape[:-2])
        starts = np.zeros((*batch, shape[-2 if layout is sparse_csr else -1] + 1), np.int64)
        none = put_on(np.zeros((*batch, 0), np.int64), device)
        values = put_on(np.zeros((*batch, 0), dtype.np), device)
        return fresh(Compressed(layout, put_on(starts, device), none, values, shape))
    return fresh(Coo(put_on(np.zeros((sparse_dim, 0), np.int64), device), values, shape, True))
