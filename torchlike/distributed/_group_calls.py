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
from torchlike.distributed._group_store import store_of
from torchlike.distributed._options import told
from torchlike.distributed._stores import Store
from torchlike.distributed.distributed_c10d import ProcessGroup


def _one(given: Any, name: str) -> Tensor:
    """The tensor that is given by itself or as a list of one, as there is one device for each process."""
    if isinstance(given, list | tuple):
        if len(given) != 1:
            raise ValueError(f"ProcessGroup.{name}: requires a single-element input tensor list, got {len(given)}")
        return given[0]
    return given


def _within(work: Any, timeout: timedelta | None) -> Any:
    """A work whose wait ends by then, if its caller says nothing else."""
    finish = work._finish
    if timeout is not None and finish is not None:
        work._finish = lambda seconds: finish(timeout.total_seconds() if seconds is None else seconds)
    return work


def allreduce(
    group: ProcessGroup, tensors: Any, opts: Any = ReduceOp.SUM, timeout: timedelta | None = None, *, op: Any = None
) -> Work:
    """Begin :func:`torch.distributed.all_reduce` of a tensor, given by itself or in a list."""
    op, timeout = told(opts if op is None else op, None, timeout)
    return _within(collectives.all_reduce(_one(tensors, "allreduce"), op, group, True), timeout)


def allreduce_coalesced(group: ProcessGroup, tensors: Sequence[Tensor], opts: Any = ReduceOp.SUM) -> Work:
    """Begin the sum of several tensors."""
    op, timeout = told(opts, None, None)
    return _within(collectives.all_reduce_coalesced(tensors, op, group, True), timeout)


def broadcast(
    group: ProcessGroup, tensors: Any, opts: Any = 0, timeout: timedelta | None = None, *, root: Any = None
) -> Work:
    """Begin :func:`torch.distributed.broadcast` of a tensor from a rank of the group."""
    root, timeout = told(opts if root is None else root, None, timeout)
    return _within(collectives.broadcast(_one(tensors, "broadcast"), None, group, True, root), timeout)


def reduce(
    group: ProcessGroup, tensors: Any, opts: Any = 0, op: ReduceOp = ReduceOp.SUM, timeout: timedelta | None = None,
    *, root: Any = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.reduce` of a tensor to a rank of the group."""
    root, op, timeout = told(opts if root is None else root, None, op, timeout)
    return _within(collectives.reduce(_one(tensors, "reduce"), None, op, group, True, root), timeout)


def allgather(
    group: ProcessGroup, output_tensors: Any, input_tensor: Any, opts: Any = None, *, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.all_gather`; both may be lists of one."""
    outputs: Any = output_tensors[0] if isinstance(output_tensors[0], list | tuple) else output_tensors
    (limit,) = told(opts, None)
    return _within(collectives.all_gather(outputs, _one(input_tensor, "allgather"), group, True), timeout or limit)


def reduce_scatter(
    group: ProcessGroup, output: Any, input_tensors: Any, opts: Any = ReduceOp.SUM, timeout: timedelta | None = None,
    *, op: Any = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.reduce_scatter`; both may be lists of one."""
    op, timeout = told(opts if op is None else op, None, timeout)
    inputs: Any = input_tensors[0] if isinstance(input_tensors[0], list | tuple) else input_tensors
    return _within(collectives.reduce_scatter(_one(output, "reduce_scatter"), inputs, op, group, True), timeout)


def _inner(given: Any) -> Any:
    """A list of tensors, which may be the only one of a list; None where there is nothing."""
    return (given[0] if isinstance(given[0], list | tuple) else given) if given else None


def gather(
    group: ProcessGroup, output_tensors: Any, input_tensor: Any, opts: Any = 0, timeout: timedelta | None = None,
    *, root: Any = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.gather` to a rank of the group; others give no outputs."""
    root, timeout = told(opts if root is None else root, None, timeout)
    given = _one(input_tensor, "gather"), _inner(output_tensors)
    return _within(collectives.gather(*given, None, group, True, root), timeout)


def scatter(
    group: ProcessGroup, output_tensor: Any, input_tensors: Any, opts: Any = 0, timeout: timedelta | None = None,
    *, root: Any = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.scatter` from a rank of the group; others give no inputs."""
    root, timeout = told(opts if root is None else root, None, timeout)
    given = _one(output_tensor, "scatter"), _inner(input_tensors)
    return _within(collectives.scatter(*given, None, group, True, root), timeout)


def alltoall(
    group: ProcessGroup, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None,
    *, timeout: timedelta | None = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.all_to_all`."""
    (limit,) = told(opts, None)
    return _within(collectives.all_to_all(output_tensors, input_tensors, group, True), timeout or limit)


def alltoall_base(
    group: ProcessGroup, output: Tensor, input: Tensor, output_split_sizes: list[int], input_split_sizes: list[int],
    opts: Any = None, *, timeout: timedelta | None = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.all_to_all_single`; no sizes are equal ones."""
    (limit,) = told(opts, None)
    sizes = (output_split_sizes or None, input_split_sizes or None)
    return _within(collectives.all_to_all_single(output, input, *sizes, group, True), timeout or limit)


def _allgather_base(
    group: ProcessGroup, output: Tensor, input: Tensor, opts: Any = None, *, timeout: timedelta | None = None
) -> Work:
    """Begin :func:`torch.distributed.all_gather_into_tensor`."""
    (limit,) = told(opts, None)
    return _within(collectives.all_gather_into_tensor(output, input, group, True), timeout or limit)


def _reduce_scatter_base(
    group: ProcessGroup, outputTensor: Tensor, inputTensor: Tensor, opts: Any = ReduceOp.SUM,
    *, timeout: timedelta | None = None,
) -> Work:  # fmt: skip
    """Begin :func:`torch.distributed.reduce_scatter_tensor`."""
    op, limit = told(opts, None, timeout)
    return _within(collectives.reduce_scatter_tensor(outputTensor, inputTensor, op, group, True), limit)


def get_group_store(group: ProcessGroup) -> Store:
    """The store of the group's processes."""
    return store_of(group)


def set_timeout(group: ProcessGroup, timeout: timedelta) -> None:
    """How long collectives that begin from now on may take."""
    group.timeout = timeout


def send(group: ProcessGroup, tensors: Any, dst: int, tag: int = 0) -> Work:
    """Begin :func:`torch.distributed.isend` of a tensor, in a list, to a rank of the group."""
    return messages.isend(_one(tensors, "send"), group=group, tag=tag, group_dst=dst)  # type: ignore[return-value]


def recv(group: ProcessGroup, tensors: Any, src: int, tag: int = 0) -> Work:
    """Begin :func:`torch.distributed.irecv` of a tensor, in a list, from a rank of the group."""
    return messages.irecv(_one(tensors, "recv"), group=group, tag=tag, group_src=src)  # type: ignore[return-value]


def recv_anysource(group: ProcessGroup, tensors: Any, tag: int) -> Work:
    """Begin :func:`torch.distributed.irecv` of a tensor, in a list, from whoever sends first."""
    return messages.irecv(_one(tensors, "recv_anysource"), group=group, tag=tag)  # type: ignore[return-value]


def barrier(group: ProcessGroup, opts: Any = None, *, timeout: timedelta | None = None) -> Work:
    """Begin :func:`torch.distributed.barrier`."""
    (limit,) = told(opts, None)
    return barriers.barrier(group, True, timeout=timeout or limit)  # type: ignore[return-value]


def monitored_barrier(group: ProcessGroup, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """:func:`torch.distributed.monitored_barrier`."""
    barriers.monitored_barrier(group, timeout, wait_all_ranks)


def _installed() -> None:
    calls: tuple[Callable[..., Any], ...] = (
        allreduce, allreduce_coalesced, broadcast, reduce, allgather, reduce_scatter, gather, scatter, alltoall,
        alltoall_base, _allgather_base, _reduce_scatter_base, send, recv, recv_anysource, barrier, monitored_barrier,
        get_group_store, set_timeout,
    )  # fmt: skip
    for call in calls:
        setattr(ProcessGroup, call.__name__, call)
    others = {"all_gather_single": _allgather_base, "reduce_scatter_single": _reduce_scatter_base}
    for name, call in {**others, "all_to_all_single": alltoall_base}.items():
        setattr(ProcessGroup, name, call)


_installed()
