"""torch.distributed.tensor._dtensor_spec: where a DTensor lies and of what shape it is, in one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._dtensor import DTensor
from torchlike.distributed.tensor._layouts import Placements
from torchlike.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = ["DTensorSpec", "TensorMeta"]


class TensorMeta(NamedTuple):
    """The shape, strides and dtype of the whole."""

    shape: Any
    stride: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class DTensorSpec:
    """A mesh, for each of its dimensions a placement, and what the whole is like, if that is known.

    >>> import torchlike as torch
    >>> from torchlike.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> spec = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (1,)), [Shard(0)])._spec
    >>> spec.shape, spec.dim_map, spec.is_sharded()
    (torch.Size([4, 2]), [0, -1], True)
    """

    mesh: DeviceMesh
    placements: Placements
    tensor_meta: TensorMeta | None = None

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    def _known(self) -> TensorMeta:
        if self.tensor_meta is None:
            raise ValueError("tensor_meta is not set")
        return self.tensor_meta

    @property
    def shape(self) -> Any:
        """The shape of the whole. ValueError: it is not known."""
        return self._known().shape

    @property
    def stride(self) -> tuple[int, ...]:
        """The strides of the whole."""
        return self._known().stride

    @property
    def ndim(self) -> int:
        """The number of dimensions of the whole."""
        return len(self.shape)

    @property
    def num_shards(self) -> int:
        """Into how many parts it is cut."""
        sizes = zip(self.placements, self.mesh.shape, strict=True)
        found = 1
        for placement, size in sizes:
            found *= size if placement.is_shard() else 1
        return found

    @property
    def dim_map(self) -> list[int]:
        """For each dimension of the whole that of the mesh which cuts it, or -1."""
        found = [-1] * self.ndim
        for i, placement in enumerate(self.placements):
            if isinstance(placement, Shard):
                found[placement.dim] = i
        return found

    @property
    def num_shards_map(self) -> list[int]:
        """For each dimension of the whole into how many parts it is cut."""
        found = [1] * self.ndim
        for size, placement in zip(self.mesh.shape, self.placements, strict=True):
            if isinstance(placement, Shard):
                found[placement.dim] *= size
        return found

    @property
    def sums(self) -> list[int]:
        """The dimensions of the mesh along which it is Partial."""
        return [i for i, placement in enumerate(self.placements) if placement.is_partial()]

    @classmethod
    def from_dim_map(
        cls, mesh: DeviceMesh, dim_map: Sequence[int], sums: Sequence[int], tensor_meta: TensorMeta | None = None
    ) -> DTensorSpec:
        """The opposite of :attr:`dim_map` and :attr:`sums`. RuntimeError: a dimension of the mesh stands in both."""
        found: list[Any] = [Replicate()] * mesh.ndim
        for i in sums:
            found[i] = Partial()
        for dim, i in enumerate(dim_map):
            if i >= 0 and found[i].is_replicate():
                found[i] = Shard(dim)
            elif i >= 0:
                raise RuntimeError(f"DTensorSpec: dimension {i} of the mesh is {found[i]} and cuts dimension {dim}")
        return cls(mesh, tuple(found), tensor_meta)

    def is_replicated(self) -> bool:
        """Whether all have the whole."""
        return all(placement.is_replicate() for placement in self.placements)

    def is_sharded(self) -> bool:
        """Whether it is cut."""
        return any(placement.is_shard() for placement in self.placements)

    def shallow_copy_with_tensor_meta(self, tensor_meta: TensorMeta | None) -> DTensorSpec:
        """The same place of another tensor."""
        if tensor_meta is None:
            raise AssertionError("shallow copy with no tensor_meta!")
        return DTensorSpec(self.mesh, self.placements, tensor_meta)


def _of(t: DTensor) -> DTensorSpec:
    """Where a tensor lies now."""
    return DTensorSpec(t.device_mesh, t.placements, TensorMeta(t.shape, t.stride(), t.dtype))


DTensor._spec = property(_of)  # type: ignore[attr-defined]
