"""Collectives as methods of a group, as hooks of gradients call them: each begins, and gives what waits for it."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _barriers as barriers
from torchlike.distributed import _collectives as collectives
from torchlike.distributed import _messages as messages
from torchlike.distributed._calls import Work
from torchlike.distributed._collectives import ReduceOp
from torchlike.distributed.distributed_c10d import ProcessGroup


def _one(given: Any, name: str) -> Tensor:
    """The tensor that is given by itself or as a list of one, as there is one device for each process."""
    if isinstance(given, list | tuple):
        if len(given) != 1:
            raise ValueError(f"ProcessGroup.{name}: requires a single-element input tensor list, got {len(given)}")
        return given[0]
    return given


def _within(work: Any, timeout: timedelta | None) -> Work:
    """A work whose wait ends by then, if its caller says nothing else."""
    finish = work._finish
    if timeout is not None and finish is not None:
        work._finish = lambda seconds: finish(timeout.total_seconds() if seconds is None else seconds)
    return work


def allreduce(group: ProcessGroup, tensors: Any, op: ReduceOp = ReduceOp.SUM, timeout: timedelta | None = None) -> Work:
    """Begin :func:`torch.distributed.all_reduce` of a tensor, given by itself or in a list."""
    return _within(collectives.all_reduce(_one(tensors, "allreduce"), op, group, True), timeout)


def allreduce_coalesced(group: ProcessGroup, tensors: Sequence[Tensor], opts: Any = None) -> Work:
    """Begin the sum of several tensors."""
    if opts is not None:
        raise NotImplementedError("ProcessGroup.allreduce_coalesced: options are not supported; it sums")
    return collectives.all_reduce_coalesced(tensors, ReduceOp.SUM, group, True)  # type: ignore[return-value]


def broadcast(group: ProcessGroup, tensor: Tensor, root: int, timeout: timedelta | None = None) -> Work:
    """Begin :func:`torch.distributed.broadcast` of a tensor from a rank of the group."""
    return _within(collectives.broadcast(tensor, None, group, True, root), timeout)


def reduce(
    group: ProcessGroup, tensor: Tensor, root: int, op: ReduceOp = ReduceOp.SUM, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.reduce` of a tensor to a rank of the group."""
    return _within(collectives.reduce(tensor, None, op, group, True, root), timeout)


def allgather(
    group: ProcessGroup, output_tensors: Any, input_tensor: Any, timeout: timedelta | None = None
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.all_gather`; both may be lists of one."""
    outputs: Any = output_tensors[0] if isinstance(output_tensors[0], list | tuple) else output_tensors
    return _within(collectives.all_gather(outputs, _one(input_tensor, "allgather"), group, True), timeout)


def reduce_scatter(
    group: ProcessGroup, output: Any, input_tensors: Any, op: ReduceOp = ReduceOp.SUM, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.reduce_scatter`; both may be lists of one."""
    inputs: Any = input_tensors[0] if isinstance(input_tensors[0], list | tuple) else input_tensors
    return _within(collectives.reduce_scatter(_one(output, "reduce_scatter"), inputs, op, group, True), timeout)


def gather(
    group: ProcessGroup, output_tensors: list[Tensor], input_tensor: Tensor, root: int, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.gather` to a rank of the group; others give no outputs."""
    return _within(collectives.gather(input_tensor, output_tensors or None, None, group, True, root), timeout)


def scatter(
    group: ProcessGroup, output_tensor: Tensor, input_tensors: list[Tensor], root: int, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.scatter` from a rank of the group; others give no inputs."""
    return _within(collectives.scatter(output_tensor, input_tensors or None, None, group, True, root), timeout)


def alltoall(
    group: ProcessGroup, output_tensors: list[Tensor], input_tensors: list[Tensor], timeout: timedelta | None = None
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.all_to_all`."""
    return _within(collectives.all_to_all(output_tensors, input_tensors, group, True), timeout)


def alltoall_base(
    group: ProcessGroup, output: Tensor, input: Tensor, output_split_sizes: list[int], input_split_sizes: list[int],
    timeout: timedelta | None = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.all_to_all_single`; no sizes are equal ones."""
    sizes = (output_split_sizes or None, input_split_sizes or None)
    return _within(collectives.all_to_all_single(output, input, *sizes, group, True), timeout)


def _allgather_base(group: ProcessGroup, output: Tensor, input: Tensor, timeout: timedelta | None = None) -> Work:
    """Begin :func:`torch.distributed.all_gather_into_tensor`."""
    return _within(collectives.all_gather_into_tensor(output, input, group, True), timeout)


def _reduce_scatter_base(
    group: ProcessGroup, output: Tensor, input: Tensor, opts: Any = None, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.reduce_scatter_tensor`."""
    if opts is not None:
        raise NotImplementedError("ProcessGroup._reduce_scatter_base: options are not supported; it sums")
    return _within(collectives.reduce_scatter_tensor(output, input, ReduceOp.SUM, group, True), timeout)


def send(group: ProcessGroup, tensors: Any, dst: int, tag: int = 0) -> Work:
    """Begin :func:`torch.distributed.isend` of a tensor, in a list, to a rank of the group."""
    return messages.isend(_one(tensors, "send"), group=group, tag=tag, group_dst=dst)  # type: ignore[return-value]


def recv(group: ProcessGroup, tensors: Any, src: int, tag: int = 0) -> Work:
    """Begin :func:`torch.distributed.irecv` of a tensor, in a list, from a rank of the group."""
    return messages.irecv(_one(tensors, "recv"), group=group, tag=tag, group_src=src)  # type: ignore[return-value]


def barrier(group: ProcessGroup, timeout: timedelta | None = None) -> Work:
    """Begin :func:`torch.distributed.barrier`."""
    return barriers.barrier(group, True, timeout=timeout)  # type: ignore[return-value]


def _installed() -> None:
    calls: tuple[Callable[..., Work], ...] = (
        allreduce, allreduce_coalesced, broadcast, reduce, allgather, reduce_scatter, gather, scatter, alltoall,
        alltoall_base, _allgather_base, _reduce_scatter_base, send, recv, barrier,
    )  # fmt: skip
    for call in calls:
        setattr(ProcessGroup, call.__name__, call)


_installed()
