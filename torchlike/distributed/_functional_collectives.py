"""Collectives that give new tensors, as functional code wants them; all have derivatives and are done at once."""

from typing import Any

import torchlike.distributed as dist
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import ReduceOp
from torchlike.distributed._calls import functional
from torchlike.distributed.distributed_c10d import group_of
from torchlike.distributed.nn import functional as F
from torchlike.interop.refusing import refused_class

__all__ = [
    "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd", "all_gather_tensor",
    "all_gather_tensor_autograd", "all_reduce", "all_reduce_coalesced", "all_to_all_single",
    "all_to_all_single_autograd", "broadcast", "reduce_scatter_single", "reduce_scatter_single_autograd",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip

# a result that is still on its way: all are there at once, so that nothing is one
AsyncCollectiveTensor = refused_class(
    "torch.distributed._functional_collectives", "AsyncCollectiveTensor", "collectives are done when they return"
)


def _op(name: str) -> ReduceOp:
    found = ReduceOp.__members__.get(name.upper())
    if found is None:
        raise ValueError(f"unknown reduction {name!r}: expected one of {[m.lower() for m in ReduceOp.__members__]}")
    return found


def _meant(group: Any) -> Any:
    """The group of a mesh, of (mesh, dimension) or of ranks; others as they are."""
    if isinstance(group, tuple) and len(group) == 2 and hasattr(group[0], "get_group"):
        return group[0].get_group(group[1])
    if isinstance(group, list) and all(isinstance(rank, int) for rank in group):
        return group_of(tuple(group))
    return group.get_group() if hasattr(group, "get_group") else group


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there."""
    return tensor


@functional("all_reduce")
def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """The reduction "sum", "avg", "max"... of the tensors of all processes."""
    return F.all_reduce(self, _op(reduceOp), _meant(group))


@functional("all_gather_into_tensor")
def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, one after the other along a dimension."""
    return _joined(list(F.all_gather(self, _meant(group))), gather_dim)


@functional("reduce_scatter_tensor")
def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """This process's part, along a dimension, of the reduction of the tensors of all."""
    size = dist.get_world_size(_meant(group))
    if self.shape[scatter_dim] % size:
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size {size}"
        )
    parts = list(self.chunk(size, scatter_dim))
    return F.reduce_scatter(parts[0], parts, _op(reduceOp), _meant(group))


@functional("broadcast")
def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of the process ``src``."""
    return F.broadcast(self, src, _meant(group))


def all_reduce_coalesced(self: list[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:  # noqa: N803
    """:func:`all_reduce` of each."""
    return [all_reduce(t, reduceOp, group) for t in self]


def all_gather_into_tensor_coalesced(self: list[Tensor], group: Any, tag: str = "") -> list[Tensor]:
    """:func:`all_gather_tensor` of each, along the first dimension."""
    return [all_gather_tensor(t, 0, group) for t in self]


def reduce_scatter_tensor_coalesced(
    inputs: list[Tensor], reduceOp: str, scatter_dim: list[int], group: Any, tag: str = ""  # noqa: N803
) -> list[Tensor]:  # fmt: skip
    """:func:`reduce_scatter_tensor` of each, along its own dimension."""
    if len(inputs) != len(scatter_dim):
        raise AssertionError(f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})")
    return [reduce_scatter_tensor(t, reduceOp, dim, group) for t, dim in zip(inputs, scatter_dim, strict=True)]


@functional("all_to_all_single")
def all_to_all_single(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Tensor:
    """Rows of each process's tensor."""
    return F.all_to_all_single(self, self, output_split_sizes, input_split_sizes, _meant(group))


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    whole = parts[0].new_zeros((len(parts), *parts[0].shape))
    for i, part in enumerate(parts):
        whole[i] = part
    return whole.movedim(0, dim).flatten(dim, dim + 1) if dim >= 0 else _joined(parts, dim + parts[0].dim())


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_gather_single = all_gather_single_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
