"""Sums, copies and collections over the processes of a group, which is one process."""

from enum import Enum
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.distributed_c10d import ProcessGroup, Work, found

__all__ = [
    "ReduceOp", "all_gather", "all_gather_object", "all_reduce", "broadcast", "broadcast_object_list", "reduce",
]  # fmt: skip


class ReduceOp(Enum):
    """What a reduction computes of the tensors of all processes."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


_NOT_COMPLEX = (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def _demand_tensor(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor "
            f"but got {type(value)} instead."
        )


def _demand_root(rank: Any, name: str) -> None:
    if rank not in (0, None):
        raise RuntimeError(f"{name}: invalid root rank: {rank}; there is one process, of rank 0")


def _done(result: Any, async_op: bool) -> Work | None:
    return Work(result) if async_op else None


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Let ``tensor`` be the sum (or what ``op`` says) of those of all processes: with one, itself.

    TypeError for what is no tensor or no :class:`ReduceOp`, ValueError for an ``op`` without meaning for complex
    numbers.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> x = torch.ones(2)
    >>> torch.distributed.all_reduce(x)
    >>> x
    tensor([1., 1.])
    >>> torch.distributed.destroy_process_group()
    """
    _demand_tensor(tensor, "tensor")
    if not isinstance(op, ReduceOp):
        raise TypeError(f"all_reduce(): argument 'op' must be torch.distributed.ReduceOp, not {type(op).__name__}")
    found(group)
    if tensor.is_complex() and op in _NOT_COMPLEX:
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    return _done([tensor], async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: ReduceOp = ReduceOp.SUM, group: ProcessGroup | None = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """As :func:`all_reduce`, for the process ``dst`` alone, which is 0."""
    _demand_root(dst, "reduce")
    _demand_root(group_dst, "reduce")
    return all_reduce(tensor, op, group, async_op)


def broadcast(
    tensor: Tensor, src: int | None = None, group: ProcessGroup | None = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Let ``tensor`` be that of the process ``src``, which is 0: nothing to do. RuntimeError for another one."""
    _demand_tensor(tensor, "tensor")
    found(group)
    _demand_root(src, "broadcast")
    _demand_root(group_src, "broadcast")
    return _done([tensor], async_op)


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Let the tensors of a list be those of all processes: one, a copy of ``tensor``.

    RuntimeError where the list has another length, or its tensor another shape or dtype.

    >>> import torchlike as torch
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> found = [torch.zeros(2)]
    >>> torch.distributed.all_gather(found, torch.ones(2))
    >>> found
    [tensor([1., 1.])]
    >>> torch.distributed.destroy_process_group()
    """
    _demand_tensor(tensor, "tensor")
    found(group)
    if len(tensor_list) != 1:
        raise RuntimeError(f"all_gather: invalid output tensor list (expected length 1, got {len(tensor_list)})")
    _demand_tensor(tensor_list[0], "tensor_list")
    if tensor.dtype != tensor_list[0].dtype:
        raise ValueError(f"all_gather: tensors with different dtypes: {tensor.dtype} and {tensor_list[0].dtype}")
    ours, theirs = tuple(tensor.shape), tuple(tensor_list[0].shape)
    if ours != theirs:
        raise RuntimeError(f"all_gather: invalid tensor size at index 0 (expected {ours}, got {theirs})")
    with no_grad():
        tensor_list[0].copy_(tensor)
    return _done(tensor_list, async_op)


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Let the objects of a list be those of all processes: the first is ``obj``."""
    found(group)
    object_list[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: ProcessGroup | None = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """Let the objects of a list be those of the process ``src``, which is 0: nothing to do."""
    found(group)
    _demand_root(src, "broadcast_object_list")
    _demand_root(group_src, "broadcast_object_list")
