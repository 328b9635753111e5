"""Collectives that give new tensors, as functional code wants them; all have derivatives and are done at once."""

from typing import Any

import torchlike.distributed as dist
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import ReduceOp
from torchlike.distributed.nn import functional as F

__all__ = [
    "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce", "all_to_all_single", "all_to_all_single_autograd",
    "reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "wait_tensor",
]  # fmt: skip


def _op(name: str) -> ReduceOp:
    found = ReduceOp.__members__.get(name.upper())
    if found is None:
        raise ValueError(f"unknown reduction {name!r}: expected one of {[m.lower() for m in ReduceOp.__members__]}")
    return found


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor: it is there."""
    return tensor


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """The reduction "sum", "avg", "max"... of the tensors of all processes."""
    return F.all_reduce(self, _op(reduceOp), group)


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, one after the other along a dimension."""
    return _joined(list(F.all_gather(self, group)), gather_dim)


def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """This process's part, along a dimension, of the reduction of the tensors of all."""
    size = dist.get_world_size(group)
    if self.shape[scatter_dim] % size:
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size {size}"
        )
    parts = list(self.chunk(size, scatter_dim))
    return F.reduce_scatter(parts[0], parts, _op(reduceOp), group)


def all_to_all_single(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Tensor:
    """Rows of each process's tensor."""
    return F.all_to_all_single(self, self, output_split_sizes, input_split_sizes, group)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    whole = parts[0].new_zeros((len(parts), *parts[0].shape))
    for i, part in enumerate(parts):
        whole[i] = part
    return whole.movedim(0, dim).flatten(dim, dim + 1) if dim >= 0 else _joined(parts, dim + parts[0].dim())


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
