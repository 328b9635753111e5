"""What the storage of a sparse tensor holds: its parts, which are ordinary tensors without history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base.state import state
from torchlike._core.conversion.convert import host, place
from torchlike._core.dispatch.view_calls import DiffView
from torchlike._core.tensor.tensor import (
    Tensor,
    fresh,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    value_of,
)
from torchlike._core.tensor.view_creation import FUNCTION
from torchlike._executor.sparse import LAYER, SparseShape, SparseValue

if TYPE_CHECKING:
    import torchlike._base.device as devices

NAMES = {
    sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}  # fmt: skip


def _own(part: Tensor) -> Tensor:
    return fresh(value_of(part))


class _Parts(SparseValue):
    """What both kinds of values have: ``values``, whose dtype and place are those of the tensor."""

    __slots__ = ()
    values: Tensor

    def __new__(cls, *args: Any) -> Any:
        LAYER.used = True
        if state.capture is not None:
            state.capture.refuse("computes with sparse tensors")
        return super().__new__(cls)

    ndim = property(lambda self: len(self.shape))
    dtype = property(lambda self: self.values.dtype.np)
    sharding = property(lambda self: self.values._storage.form.sharding)

    def devices(self) -> Any:
        """The devices of the values."""
        return self.values._storage.form.devices()


class Coo(_Parts):
    """Coordinates: ``indices`` [sparse_dim, nnz], and ``values`` [nnz, *dense dimensions], repetitions to be added.

    Attributes:
        coalesced: whether indices are sorted and distinct. within: whether they are known to lie in the shape.
    """

    __slots__ = ("indices", "values", "shape", "coalesced", "within")
    layout = sparse_coo

    def __init__(
        self, indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False, within: bool = True
    ) -> None:
        self.indices, self.values, self.shape = indices, values, SparseShape(shape)
        self.coalesced, self.within = coalesced, within

    def apart(self) -> Coo:
        """The same parts in a value of its own."""
        return Coo(self.indices, self.values, self.shape, self.coalesced, self.within)

    def own(self) -> Coo:
        """The same numbers in parts of its own."""
        return Coo(_own(self.indices), _own(self.values), self.shape, self.coalesced, self.within)

    @property
    def sparse_dim(self) -> int:
        """How many dimensions, the first ones, are sparse."""
        return self.indices.shape[0]

    @property
    def nnz(self) -> int:
        """How many entries there are."""
        return self.indices.shape[1]

    def lengths(self) -> tuple[int, ...]:
        """The lengths of the sparse dimensions."""
        return tuple(self.shape[: self.sparse_dim])

    def demand_within(self) -> None:
        """Refuse indices outside of the shape, which kernels would drop in silence."""
        if not self.within:
            check_range(host(self.indices), self.lengths())
            self.within = True


class Compressed(_Parts):
    """Rows (CSR) or columns (CSC) after one another: where each begins, and the place of each entry within its own.

    The entries of BSR and BSC are blocks, ``values`` [nnz, height, width], and indices count blocks. Of batches of
    matrices all parts have more dimensions in front, and values of hybrid ones more behind.

    ``within``: whether the indices are known to make a matrix of the shape.
    """

    __slots__ = ("compressed", "plain", "values", "shape", "layout", "within")

    def __init__(
        self, layout: Any, compressed: Tensor, plain: Tensor, values: Tensor, shape: Sequence[int], within: bool = True
    ) -> None:
        self.layout, self.compressed, self.plain = layout, compressed, plain
        self.values, self.shape, self.within = values, SparseShape(shape), within

    def apart(self) -> Compressed:
        """The same parts in a value of its own."""
        return Compressed(self.layout, self.compressed, self.plain, self.values, self.shape, self.within)

    def own(self) -> Compressed:
        """The same numbers in parts of its own."""
        compressed, plain, values = map(_own, (self.compressed, self.plain, self.values))
        return Compressed(self.layout, compressed, plain, values, self.shape, self.within)

    def demand_within(self) -> None:
        """Refuse indices that do not fit the shape, which kernels would drop in silence."""
        if self.within:
            return
        starts, places = host(self.compressed), host(self.plain)
        rows, columns = self.lengths()
        ordered = starts.shape[-1] == rows + 1 and np.all(starts[..., 0] == 0) and np.all(starts[..., -1] == self.nnz)
        if (
            not ordered
            or np.any(np.diff(starts) < 0)
            or (places.size and not 0 <= places.min() <= places.max() < columns)
        ):
            raise RuntimeError(
                f"the indices of a tensor of layout {self.layout} do not fit its size {list(self.shape)}; construct it "
                "with check_invariants=True to see which"
            )
        self.within = True

    @property
    def nnz(self) -> int:
        """How many entries there are in each matrix."""
        return self.plain.shape[-1]

    @property
    def batch(self) -> tuple[int, ...]:
        """The dimensions of the batch of matrices, none of a single one."""
        return tuple(self.compressed.shape[:-1])

    @property
    def dense(self) -> tuple[int, ...]:
        """The dimensions of each element, none of a number."""
        return tuple(self.shape[len(self.batch) + 2 :])

    @property
    def by_rows(self) -> bool:
        """Whether rows are compressed, not columns."""
        return self.layout is sparse_csr or self.layout is sparse_bsr

    @property
    def block(self) -> tuple[int, ...]:
        """Height and width of the blocks; nothing where entries are numbers."""
        if self.layout is sparse_csr or self.layout is sparse_csc:
            return ()
        first = len(self.batch) + 1
        return tuple([max(n, 1) for n in self.values.shape[first : first + 2]])  # 0 of a list without entries

    def lengths(self) -> tuple[int, int]:
        """How many rows and columns there are (columns and rows, if these are compressed), of blocks if there are."""
        height, width = self.block or (1, 1)
        rows, columns = self.shape[len(self.batch) : len(self.batch) + 2]
        counts = rows // height, columns // width
        return counts if self.by_rows else counts[::-1]


def check_range(indices: np.ndarray, lengths: Sequence[int]) -> None:
    """RuntimeError for an index outside of the shape."""
    for dim, (row, length) in enumerate(zip(indices, lengths, strict=True)):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {dim}")
        if row.size and row.max() >= length:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {length} but found index {row.max()}"
            )


def value(t: Any) -> Coo | Compressed | None:
    """The sparse value of a tensor, None for a strided one and what is no tensor."""
    if not isinstance(t, Tensor):
        return None
    found = t._storage.value
    if not isinstance(found, Coo | Compressed):
        return None
    if state.capture is not None:
        state.capture.refuse("reads a sparse tensor")
    return found


def coo_of(t: Any) -> Coo | None:
    """The value of a COO tensor, None for anything else."""
    found = value(t)
    return found if isinstance(found, Coo) else None


def layout_name(t: Tensor) -> str:
    """What PyTorch's messages call the layout of ``t``."""
    return NAMES.get(t.layout, "Strided")


def coo(indices: Tensor, values: Tensor, shape: Sequence[int], coalesced: bool = False, within: bool = True) -> Tensor:
    """A new COO tensor of these parts."""
    return fresh(Coo(indices, values, shape, coalesced, within))


def put_on(array: np.ndarray, device: devices.device) -> Tensor:
    """A tensor of a numpy array."""
    return fresh(place(np.ascontiguousarray(array), device))


def viewed(t: Tensor, new: Tensor) -> Tensor:
    """``new`` as a view of ``t``: saved by a node, one is known to have changed when the other has.

    Changes in place that gradients would have to follow are refused.
    """
    new._vc = t._vc
    new._diff = DiffView(t if t._diff is None else t._diff.base, t._vc.version, 0, 0, FUNCTION)
    return new


def unsupported(name: str, *tensors: Any) -> NotImplementedError:
    """The error of an operator that has no rule for such layouts."""
    kinds = sorted({repr(t.layout) for t in tensors if value(t) is not None})
    return NotImplementedError(
        f"{name}() is not supported for tensors of layout {', '.join(kinds)}; make them dense with .to_dense()"
    )
