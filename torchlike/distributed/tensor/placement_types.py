"""torch.distributed.tensor.placement_types: how a tensor lies along one axis of a mesh."""

from __future__ import annotations

import dataclasses

from torchlike.interop.unbuilt import names_of

__getattr__ = names_of("torch.distributed.tensor.placement_types")


class Placement:
    """Along an axis of a mesh: pieces, copies, or parts of a sum."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each device has a piece (along dimension ``dim``, if that is given)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each device has a copy."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the devices' tensors together are reduced to the whole (by ``reduce_op``, if that is given)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each device has a piece of dimension ``dim``.

    >>> from torchlike.distributed.tensor import Shard
    >>> Shard(0)
    Shard(dim=0)
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each device has all of it."""

    def __str__(self) -> str:
        return "R"


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """The whole is the devices' tensors, reduced by ``reduce_op``."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"
