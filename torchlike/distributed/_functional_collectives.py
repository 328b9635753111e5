"""Collectives that give new tensors, as functional code wants them; all have derivatives and are done at once."""

from typing import Any

import torchlike.distributed as dist
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, contiguous_format
from torchlike.autograd.function import Function
from torchlike.distributed import ReduceOp
from torchlike.distributed._async_tensor import AsyncCollectiveTensor, awaited, returns_async, waits
from torchlike.distributed._calls import functional
from torchlike.distributed.distributed_c10d import ProcessGroup, _resolve_process_group, group_of
from torchlike.distributed.nn import functional as F

__all__ = [
    "AsyncCollectiveTensor", "REDUCE_OP_TO_STR", "all_gather_inplace", "all_gather_into_tensor_coalesced",
    "all_gather_single", "all_gather_single_autograd", "all_gather_tensor", "all_gather_tensor_autograd",
    "all_gather_tensor_inplace", "all_reduce", "all_reduce_coalesced", "all_reduce_inplace", "all_to_all_inplace",
    "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor", "reduce_scatter_single",
    "reduce_scatter_single_autograd", "reduce_scatter_tensor", "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_inplace", "wait_tensor",
]  # fmt: skip


def _op(name: str) -> ReduceOp:
    found = ReduceOp.__members__.get(name.upper())
    if found is None:
        raise ValueError(f"unknown reduction {name!r}: expected one of {[m.lower() for m in ReduceOp.__members__]}")
    return found


def _meant(group: Any) -> Any:
    """The group of a mesh, of (mesh, dimension) or of ranks; others as they are."""
    if isinstance(group, tuple) and len(group) == 2 and _is_mesh(group[0]):
        return group[0].get_group(group[1])
    if isinstance(group, list) and all(isinstance(rank, int) for rank in group):
        return group_of(tuple(group))
    if isinstance(group, str):
        return _resolve_process_group(group)
    return group.get_group() if _is_mesh(group) else group


REDUCE_OP_TO_STR = {op: op.name.lower() for op in ReduceOp}


class _SumsOnly(Function):
    """What a reduction gave; these functions, unlike those of ``nn.functional``, have derivatives of sums alone."""

    @staticmethod
    def forward(ctx: Any, op: ReduceOp, name: str, tensor: Tensor) -> Tensor:
        ctx.op, ctx.caller = op, name
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError(f"{ctx.caller} backward only supports 'sum' reduction, got {ctx.op.name.lower()!r}")


class _Broadcast(Function):
    """The tensor of a process; as in PyTorch each process keeps the gradient that it has."""

    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        out = tensor.detach().clone(memory_format=contiguous_format)
        dist.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, grad


def _reduced(tensor: Tensor, op: ReduceOp, name: str) -> Tensor:
    return _SumsOnly.apply(op, name, tensor) if tensor.requires_grad and op is not ReduceOp.SUM else tensor


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor as a plain one: it is there."""
    return awaited(tensor)


@returns_async
@functional("all_reduce")
def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """The reduction "sum", "avg", "max"... of the tensors of all processes."""
    return _all_reduced(self, reduceOp, group, "all_reduce")


def _all_reduced(tensor: Tensor, reduce_op: str, group: Any, name: str) -> Tensor:
    op = _op(reduce_op)
    return _reduced(F.all_reduce(tensor, op, _meant(group)), op, name)


@functional("all_gather_into_tensor")
def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """The tensors of all processes, one after the other along a dimension."""
    whole = _joined(list(F.all_gather(self, _meant(group))), gather_dim)
    return waits(whole) if gather_dim == 0 else whole


@returns_async
@functional("reduce_scatter_tensor")
def reduce_scatter_tensor(self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Tensor:  # noqa: N803
    """This process's part, along a dimension, of the reduction of the tensors of all."""
    size = dist.get_world_size(_meant(group))
    if self.shape[scatter_dim] % size:
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size {size}"
        )
    parts, op = list(self.chunk(size, scatter_dim)), _op(reduceOp)
    out = F.reduce_scatter(parts[0].new_empty(parts[0].shape), parts, op, _meant(group))
    return _reduced(out, op, "reduce_scatter_tensor")


@returns_async
@functional("broadcast")
def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of the process ``src``; a gradient stays in its process, where ``nn.functional`` brings all to src."""
    return _Broadcast.apply(src, _meant(group), self)


@returns_async
@functional("all_reduce")
def all_reduce_coalesced(self: list[Tensor], reduceOp: str, group: Any, tag: str = "") -> list[Tensor]:  # noqa: N803
    """:func:`all_reduce` of each."""
    return [_all_reduced(t, reduceOp, group, "all_reduce_coalesced") for t in self]


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


@returns_async
@functional("all_to_all_single")
def all_to_all_single(
    self: Tensor, output_split_sizes: list[int] | None, input_split_sizes: list[int] | None, group: Any, tag: str = ""
) -> Tensor:
    """Rows of each process's tensor."""
    rows = sum(output_split_sizes) if output_split_sizes else self.shape[0]
    out = self.new_empty((rows, *self.shape[1:]))
    return F.all_to_all_single(out, self, output_split_sizes, input_split_sizes, _meant(group))


def permute_tensor(self: Tensor, src_dst: list[int], group: Any, tag: str = "") -> Tensor:
    """The tensor of the process that has this one's number in ``src_dst``, where each rank of the group stands once."""
    group = _meant(group)
    mine, size = dist.get_rank(group), dist.get_world_size(group)
    go, come = [0] * size, [0] * size
    for source, target in enumerate(src_dst):
        go[target] += self.numel() if source == mine else 0
        come[source] += self.numel() if target == mine else 0
    return all_to_all_single(self.contiguous().reshape(-1), come, go, group).reshape(self.shape)


# -- as functions of torch.distributed have it: the output is given ----------------------------------------------------


def _eager(async_op: bool) -> None:
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")


def all_reduce_inplace(
    tensor: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, tag: str = ""
) -> Tensor:
    """:func:`all_reduce` into the tensor itself."""
    _eager(async_op)
    return tensor.copy_(all_reduce(tensor, op, group or dist.group.WORLD, tag))


def all_gather_tensor_inplace(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = "",
    gather_dim: int = 0,
) -> Tensor:  # fmt: skip
    """:func:`all_gather_tensor` into ``output_tensor``."""
    _eager(async_op)
    return output_tensor.copy_(all_gather_tensor(input_tensor, gather_dim, group or dist.group.WORLD, tag))


def reduce_scatter_tensor_inplace(
    output: Tensor, input: Tensor, op: str = "sum", group: Any = None, async_op: bool = False, scatter_dim: int = 0,
    tag: str = "",
) -> Tensor:  # fmt: skip
    """:func:`reduce_scatter_tensor` into ``output``."""
    _eager(async_op)
    return output.copy_(reduce_scatter_tensor(input, op, scatter_dim, group or dist.group.WORLD, tag))


def all_to_all_inplace(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None, async_op: bool = False, tag: str = "",
) -> Tensor:  # fmt: skip
    """:func:`all_to_all_single` into ``output``."""
    _eager(async_op)
    sizes = output_split_sizes, input_split_sizes
    return output.copy_(all_to_all_single(input, *sizes, group or dist.group.WORLD, tag))


def all_gather_inplace(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False, tag: str = ""
) -> list[Tensor]:
    """The tensors of all processes into those of a list."""
    _eager(async_op)
    parts = F.all_gather(tensor, _meant(group))
    for out, part in zip(tensor_list, parts, strict=True):
        out.copy_(part)
    return tensor_list


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


def _maybe_wrap_tensor(tensor: Tensor) -> Tensor:
    """A tensor as results are: of the class of those that may be waited for, which shares its memory."""
    return waits(tensor.view_as(tensor))


_wrap_tensor_autograd = _maybe_wrap_tensor
_resolve_group = _meant


def _resolve_group_name(group: Any, tag: str = "") -> str:
    return _meant(group).group_name


def _expand_group(group: Any, tag: str = "") -> tuple[str, list[int], int]:
    """(tag, ranks, their number) of what a functional collective takes for a group.

    Ranks are given as they are, those of a list of lists one after the other with the length of one list; the tag of a
    group or mesh is its name. ValueError for anything else.
    """
    if isinstance(group, list):
        return (tag, *_ranks_and_size(group))
    found = _group_for(group)
    return tag or f"ptd:{found.group_name}", list(found.ranks), found.size()


def _ranks_and_size(group: list[Any]) -> tuple[list[int], int]:
    if not isinstance(group[0], list):
        return group, len(group)
    for ranks in group:
        if len(ranks) != len(group[0]):
            raise ValueError(f"group sizes must be identical found {len(group[0])} and {len(ranks)}")
    return [rank for ranks in group for rank in ranks], len(group[0])


def _is_mesh(group: Any) -> bool:
    return hasattr(group, "get_group")


def _group_for(group: Any) -> ProcessGroup:
    if isinstance(group, ProcessGroup):
        return group
    if _is_mesh(group):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group()
    if not isinstance(group, tuple):
        raise ValueError("Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int).")
    if len(group) != 2 or not _is_mesh(group[0]) or not isinstance(group[1], int):
        raise ValueError("Invalid tuple for group must be (DeviceMesh, int)")
    return group[0].get_group(group[1])


def _are_we_tracing() -> bool:
    return state.capture is not None
