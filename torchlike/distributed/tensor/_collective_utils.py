"""torch.distributed.tensor._collective_utils: collectives along a dimension of a mesh."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._collectives import broadcast, scatter
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.interop.refusing import refusing
from torchlike.nn import functional as F

__all__ = ["mesh_broadcast", "mesh_scatter", "pad_tensor", "unpad_tensor"]

__getattr__ = refusing(__name__, "XLA chooses the collectives of DTensors of torchlike")


def mesh_scatter(
    output: Tensor, scatter_list: list[Tensor], mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *,
    group_src: int = 0,
) -> Any:  # fmt: skip
    """``scatter`` from the process of a place along a dimension of the mesh to the others along it."""
    group = mesh.get_group(mesh_dim)
    given = list(scatter_list) if group.rank() == group_src else None
    return scatter(output, given, group=group, async_op=async_op, group_src=group_src)


def mesh_broadcast(
    tensor: Tensor, mesh: DeviceMesh, mesh_dim: int = 0, async_op: bool = False, *, group_src: int = 0
) -> Any:
    """``broadcast`` from the process of a place along a dimension of the mesh to the others along it."""
    return broadcast(tensor, group=mesh.get_group(mesh_dim), async_op=async_op, group_src=group_src)


def pad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """A tensor with zeros at the end of a dimension."""
    return F.pad(tensor, [0, 0] * (tensor.ndim - pad_dim - 1) + [0, pad_size]) if pad_size else tensor


def unpad_tensor(tensor: Tensor, pad_dim: int, pad_size: int) -> Tensor:
    """A tensor without the end of a dimension."""
    return tensor.narrow(pad_dim, 0, tensor.size(pad_dim) - pad_size) if pad_size else tensor
