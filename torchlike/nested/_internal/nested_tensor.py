"""``NestedTensor``: a batch of rows of different lengths, whose values lie in one tensor without padding."""

from __future__ import annotations

from typing import Any

from torchlike._base.layout import contiguous
from torchlike._core.tensor.size import Size, sized
from torchlike._core.tensor.tensor import Tensor, carry, jagged
from torchlike._tensor import _rebuild_from_type_v2
from torchlike.nested import _attention, _reductions, _shapes  # noqa: F401 - they register what they hold
from torchlike.nested._base import Nested, dim_of, lengths_of, like, plain, values_of
from torchlike.nested._ragged import Ragged, ragged_of
from torchlike.nested._rules import RULES, padded_to, unpadded

__all__ = [
    "NestedTensor", "buffer_from_jagged", "nested_view_from_values_offsets", "nested_view_from_values_offsets_lengths",
]  # fmt: skip


class NestedTensor(Nested):
    """A tensor [batch, *, ragged, *] of layout ``torch.jagged``; made by the functions of ``torch.nested``.

    It is its values [*, total, *] with what says where rows begin: gradients, hooks and in-place changes are theirs.
    ``shape`` has a symbol, ``j1``, for the ragged dimension; tensors of one structure have the same.

    >>> import torchlike as torch
    >>> x = torch.nested.nested_tensor([torch.ones(1, 2), torch.zeros(3, 2)], layout=torch.jagged)
    >>> x.values().shape, x.offsets()
    (torch.Size([4, 2]), tensor([0, 1, 4]))
    """

    _ragged: Ragged
    _ragged_idx = 1
    _carried = ("_ragged", "_ragged_idx")
    _rules = RULES

    def __new__(cls, values: Tensor, offsets: Tensor, *, lengths: Tensor | None = None, **kwargs: Any) -> Any:
        new = nested(values.detach(), ragged_of(offsets, lengths), kwargs.get("_ragged_idx", 1))
        return new.requires_grad_(kwargs.get("requires_grad", False))

    # -- the parts -----------------------------------------------------------------------------
    def values(self) -> Tensor:
        """The values [*, total, *] of all rows: a view with the history of this tensor."""
        return values_of(self)

    def offsets(self) -> Tensor:
        """int64 [batch + 1]: where rows begin, and where the last one ends."""
        return self._ragged.offsets

    def lengths(self) -> Tensor | None:
        """int64 [batch], the lengths of rows between which there are holes; None where there are none."""
        return self._ragged.lengths

    def to_padded_tensor(self, padding: float, output_size: Any = None) -> Tensor:
        """The tensor [batch, *, longest, *] with ``padding`` behind the ends of rows."""
        return padded_to(self, padding, output_size)

    def _row_lengths(self) -> list[int]:
        return self._ragged.rows()[1].tolist()

    def _rows_of_padded(self, x: Tensor) -> Any:
        """The nested tensor of this structure that ``x`` [batch, longest, *] is with padding."""
        return like(unpadded(x, self._ragged, self._ragged_idx), self)

    def _get_max_seqlen(self) -> int:
        return self._ragged.longest

    def _get_min_seqlen(self) -> int:
        return self._ragged.shortest

    _values, _offsets, _lengths = property(values), property(offsets), property(lengths)
    _max_seqlen = _maybe_max_seqlen = property(_get_max_seqlen)
    _min_seqlen = _maybe_min_seqlen = property(_get_min_seqlen)

    # -- metadata ------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        found: list[Any] = list(lengths_of(self))
        found[self._ragged_idx - 1] = self._ragged.symbol
        return sized((len(self._ragged), *found))

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        return self.shape if dim is None else self.shape[dim_of(self, dim)]

    def stride(self, dim: int | None = None) -> Any:
        """Elements from one to the next along each dimension; that of the batch is a multiple of the ragged length."""
        inner = self._layout.strides
        found = (inner[self._ragged_idx - 1] * self._ragged.symbol, *inner)
        return found if dim is None else found[dim_of(self, dim)]

    def dim(self) -> int:
        """The number of dimensions, that of the batch included."""
        return len(lengths_of(self)) + 1

    layout = property(lambda self: jagged)

    def __len__(self) -> int:
        return len(self._ragged)

    def numel(self) -> int:
        """The number of elements of all rows."""
        shape = list(lengths_of(self))
        shape[self._ragged_idx - 1] = self._ragged.total()
        return sized(tuple(shape)).numel()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the values lie row after row, without holes."""
        return self._ragged.lengths is None and self._layout.strides == contiguous(lengths_of(self)).strides

    mT = property(lambda self: self.transpose(-2, -1))  # noqa: N815
    T = property(lambda self: self.permute(*reversed(range(self.dim()))))
    mH = property(lambda self: self.mT.conj())  # noqa: N815
    H = property(lambda self: self.T.conj())
    real = property(lambda self: like(plain(self).real, self))
    imag = property(lambda self: like(plain(self).imag, self))

    # -- Python --------------------------------------------------------------------------------
    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        shape, node = ", ".join(map(str, self.shape)), self.grad_fn
        history = f"grad_fn={node}, " if node is not None else "requires_grad=True, " if self.requires_grad else ""
        return f"NestedTensor(size=({shape}), offsets={self.offsets()}, {history}contiguous={self.is_contiguous()})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = {
            "values": plain(self).detach(), "offsets": self.offsets(), "lengths": self.lengths(),
            "_ragged_idx": self._ragged_idx, "_metadata_cache": {}, "requires_grad": self.requires_grad,
        }  # fmt: skip
        return _rebuild_from_type_v2, (_rebuild_njt, NestedTensor, (parts,), {})

    def __setstate__(self, state: Any) -> None:
        """A file of PyTorch's keeps the parts once more."""

    def __tensor_flatten__(self) -> Any:
        names = ["_values", "_offsets"] + ["_lengths"] * (self.lengths() is not None)
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(inner_tensors: dict[str, Tensor], meta: Any, outer_size: Any, outer_stride: Any) -> Any:
        ragged = ragged_of(inner_tensors["_offsets"], inner_tensors.get("_lengths"))
        return nested(inner_tensors["_values"], ragged, meta["ragged_idx"])


def _rebuild_njt(constructor_kwargs: dict[str, Any]) -> Any:
    """A nested tensor out of a file."""
    return NestedTensor(**constructor_kwargs)


def nested(values: Tensor, ragged: Ragged, ragged_idx: int = 1) -> Any:
    """A view of ``values`` [*, total, *] as a nested tensor whose dimension ``ragged_idx`` is ragged."""
    new = values_of(values)
    carry(new, (NestedTensor, ("_ragged", ragged), ("_ragged_idx", ragged_idx)))
    return new


def nested_view_from_values_offsets(
    values: Tensor, offsets: Tensor, ragged_idx: int = 1, min_seqlen: Any = None, max_seqlen: Any = None
) -> Any:
    """A view of ``values`` as a nested tensor whose rows begin at ``offsets``."""
    return nested(values, ragged_of(offsets), ragged_idx)


def nested_view_from_values_offsets_lengths(
    values: Tensor, offsets: Tensor, lengths: Tensor, ragged_idx: int = 1, min_seqlen: Any = None,
    max_seqlen: Any = None
) -> Any:  # fmt: skip
    """The same of rows that do not fill what lies between two beginnings."""
    return nested(values, ragged_of(offsets, lengths), ragged_idx)


def buffer_from_jagged(jagged: Any) -> Tensor:
    """The values of a nested tensor."""
    return jagged.values()
