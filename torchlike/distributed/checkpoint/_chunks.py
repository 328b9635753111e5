"""The pieces of a tensor that this process holds: all of it, or the parts that its devices have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, array_of, value_of, wrap
from torchlike._executor.pending import as_numpy
from torchlike.distributed._calls import assign
from torchlike.distributed.checkpoint.metadata import ChunkStorageMetadata

Offsets = tuple[int, ...]


@dataclass
class Piece:
    """A box of a tensor. ``first``: whether no other device holds the same box before this one."""

    offsets: Offsets
    tensor: Tensor
    first: bool = True

    def chunk(self) -> ChunkStorageMetadata:
        """Its place and size."""
        return ChunkStorageMetadata(Size(self.offsets), Size(self.tensor.shape))


def is_described(t: Any) -> bool:
    """Whether an object says itself which pieces it has, as PyTorch's sharded tensors do."""
    return hasattr(t, "__create_chunk_list__") and hasattr(t, "__get_tensor_shard__")


def _sharded(t: Tensor) -> jax.Array | None:
    """The array of a tensor that other processes have too, or whose parts are on several devices."""
    array = array_of(t) if not t.is_sparse and t.device.type != "meta" else None
    if not isinstance(array, jax.Array) or (array.is_fully_addressable and array.sharding.is_fully_replicated):
        return None
    return array


def pieces_of(t: Tensor) -> list[Piece]:
    """The pieces to save."""
    array = _sharded(t)
    if array is None:
        plain = t.to_local() if hasattr(t, "to_local") else t  # files have no meshes
        return [Piece((0,) * t.dim(), plain.detach())]
    found: dict[Offsets, Piece] = {}
    for shard in array.addressable_shards:
        place = _offsets(shard.index)
        if place not in found or shard.replica_id == 0:
            found[place] = Piece(place, wrap(shard.data), shard.replica_id == 0)
    return list(found.values())


def _offsets(index: Any) -> Offsets:
    return tuple(part.start or 0 for part in index)


class Targets:
    """The pieces of a tensor to load into. What lies on several devices is put together when all boxes are there."""

    def __init__(self, t: Tensor) -> None:
        self.tensor, self._array = t, _sharded(t)
        self._open = 0
        if self._array is None:
            self.pieces = [Piece((0,) * t.dim(), t.detach())]
            return
        sizes = {_offsets(s.index): s.data.shape for s in self._array.addressable_shards}
        self.pieces = [Piece(place, wrap(jax.numpy.zeros(shape, self._array.dtype))) for place, shape in sizes.items()]

    def expect(self, count: int) -> None:
        """How many boxes will come."""
        self._open = count

    def arrived(self) -> None:
        """A box is filled."""
        self._open -= 1
        if self._open or self._array is None:
            return
        whole, parts = self._array, {p.offsets: as_numpy(value_of(p.tensor)) for p in self.pieces}
        made = jax.make_array_from_callback(whole.shape, whole.sharding, lambda index: parts[_offsets(index)])
        assign(self.tensor, made)


def overlaps(
    ours: ChunkStorageMetadata, saved: Sequence[ChunkStorageMetadata]
) -> Iterator[tuple[int, Offsets, Offsets, Offsets]]:
    """(number of a saved piece, offsets in it, offsets in ours, lengths) of each box that both have."""
    for number, theirs in enumerate(saved):
        begin = [max(a, b) for a, b in zip(ours.offsets, theirs.offsets, strict=True)]
        ends = zip(ours.offsets, ours.sizes, theirs.offsets, theirs.sizes, strict=True)
        lengths = tuple(min(a + m, b + n) - s for (a, m, b, n), s in zip(ends, begin, strict=True))
        if any(n <= 0 for n in lengths):
            continue
        there = tuple(s - b for s, b in zip(begin, theirs.offsets, strict=True))
        here = tuple(s - a for s, a in zip(begin, ours.offsets, strict=True))
        yield number, there, here, lengths


def box(t: Tensor, offsets: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """A view of a box of a tensor."""
    for dim, (begin, length) in enumerate(zip(offsets, lengths, strict=True)):
        if (begin, length) != (0, t.shape[dim]):
            t = t.narrow(dim, begin, length)
    return t
