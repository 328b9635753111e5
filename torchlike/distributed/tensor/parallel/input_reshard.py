"""``input_reshard``: activations that all processes keep whole for backward, kept in pieces."""

from typing import Any

from torchlike._base.state import no_grad
from torchlike.autograd.graph import saved_tensors_hooks
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._dtensor import DTensor, distribute_tensor
from torchlike.distributed.tensor.placement_types import Replicate, Shard
from torchlike.nn.modules.module import Module

__all__ = ["input_reshard"]


def input_reshard(module: Module, tp_device_mesh: DeviceMesh, input_reshard_dim: int | None = None) -> Module:
    """Let each process of a mesh keep its piece of what ``module`` saves for backward, which brings them together.

    Args:
        module: one whose inputs are the same on all processes of the mesh.
        tp_device_mesh: a mesh of one dimension. input_reshard_dim: along which tensors are cut; None: nothing is done.

    Returns: the module. What is saved and has no such dimension is an IndexError or AssertionError in forward.
    """
    if input_reshard_dim is None:
        return module
    opened: list[saved_tensors_hooks] = []

    def pack(t: Any) -> Any:
        return _piece(t, tp_device_mesh, input_reshard_dim)

    def begin(*_: Any) -> None:
        hooks = saved_tensors_hooks(pack, _whole)
        hooks.__enter__()
        opened.append(hooks)

    def end(*_: Any) -> None:
        opened.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(begin)
    module.register_forward_hook(end, always_call=True)
    return module


def _piece(t: Any, mesh: DeviceMesh, dim: int) -> Any:
    """The piece of a tensor that is whole on each process, with what it was; others as they are."""
    if dim >= t.ndim:
        kind = IndexError if dim == t.ndim else AssertionError  # PyTorch's
        raise kind(f"input_reshard: a saved tensor has {t.ndim} dimensions, none of which is {dim} to cut along")
    with no_grad():
        if not isinstance(t, DTensor):
            return distribute_tensor(t.detach(), mesh, [Shard(dim)], src_data_rank=None), None
        if t.device_mesh == mesh and [*t.placements] == [Replicate()]:
            return DTensor.redistribute(t, mesh, [Shard(dim)]), t.placements
    return t


def _whole(kept: Any) -> Any:
    if not isinstance(kept, tuple):
        return kept
    piece, placements = kept
    with no_grad():
        return piece.full_tensor() if placements is None else piece.redistribute(piece.device_mesh, placements)
