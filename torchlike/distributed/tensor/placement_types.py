"""How a dimension of a mesh holds a tensor: values that programs make and compare."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "no such placement; there are Shard, _StridedShard, Replicate and Partial")


@dataclass(frozen=True)
class Placement:
    """One of the placements below."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it cuts a tensor, along ``dim`` if that is given."""
        return False

    def is_replicate(self) -> bool:
        """Whether every process holds the whole."""
        return False

    def is_partial(self, reduce_op: Any = None) -> bool:
        """Whether the whole is the sum (or another reduction) of what the processes hold."""
        return False


@dataclass(frozen=True)
class Cutting(Placement):
    """What both of those have that cut a tensor along a dimension."""

    dim: int


@dataclass(frozen=True)
class Shard(Cutting):
    """Each process holds a part along a dimension.

    >>> from torchlike.distributed.tensor.placement_types import Shard
    >>> Shard(1), Shard(1).is_shard(0)
    (Shard(dim=1), False)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it cuts along ``dim``."""
        return dim is None or self.dim == dim

    def _local_shard_size_and_offset(self, curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """How many of ``curr_local_size`` places the part with the number ``rank`` has, and where it begins.

        >>> from torchlike.distributed.tensor.placement_types import Shard
        >>> [Shard(0).local_shard_size_and_offset(5, 4, rank) for rank in range(4)]
        [(2, 0), (2, 2), (1, 4), (0, 5)]
        """
        full = -(-curr_local_size // num_chunks)
        start = min(full * rank, curr_local_size)
        return min(full, curr_local_size - start), start

    local_shard_size_and_offset = _local_shard_size_and_offset

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Cutting):
    """Each process holds a part of what later dimensions of the mesh have cut into ``split_factor`` parts before.

    So lie parameters of ``fully_shard`` over tensor parallelism. As with PyTorch's ``is_shard()`` is False.
    """

    split_factor: int = field(kw_only=True)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Every process holds the whole."""

    def is_replicate(self) -> bool:
        """True."""
        return True

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is the reduction of what the processes hold."""

    reduce_op: str = "sum"

    def is_partial(self, reduce_op: Any = None) -> bool:
        """Whether it is reduced by ``reduce_op``."""
        return reduce_op is None or self.reduce_op == reduce_op

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """The whole is the norm of what the processes hold, which are norms of their parts."""

    reduce_op: str = "norm"
    norm_type: float = 2

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type})"

    def __str__(self) -> str:
        return f"_NormP({self.norm_type})"
