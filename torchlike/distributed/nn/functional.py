"""Collectives that give new tensors, through which gradients travel back: all processes take part in both ways."""

from typing import Any

import torchlike.distributed as dist
from torchlike._core.tensor.tensor import Tensor, contiguous_format
from torchlike.autograd.function import Function
from torchlike.distributed import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _own(t: Tensor) -> Tensor:
    return t.detach().clone(memory_format=contiguous_format)


def _new_list(like: Tensor, group: Any) -> list[Tensor]:
    return [like.new_zeros(like.shape) for _ in range(dist.get_world_size(group))]


def _numbered(group: Any, rank: int) -> bool:
    return dist.get_rank() == rank


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        out = _own(tensor)
        dist.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = _own(tensor)
        dist.broadcast(out, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        whole = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, whole if _numbered(ctx.group, ctx.src) else whole * 0


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: ReduceOp, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        out = _own(tensor)
        dist.reduce(out, dst, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        outs = _new_list(tensor, group)
        dist.all_gather(outs, tensor.detach(), group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, grads[0].new_empty(grads[0].shape), *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: Any, out: Tensor, *tensors: Tensor) -> Tensor:
        ctx.group = group
        dist.reduce_scatter(out, [t.detach() for t in tensors], op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        outs = _new_list(tensor, group)
        dist.gather(tensor.detach(), outs if _numbered(group, dst) else None, dst, group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        out = tensors[0].new_zeros(tensors[0].shape)
        dist.scatter(out, [t.detach() for t in tensors] if _numbered(group, src) else None, src, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outs: list[Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        dist.all_to_all(outs, [t.detach() for t in tensors], group)
        return tuple(outs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        outs = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, *_AllToAll.apply(ctx.group, outs, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, out: Tensor, come: Any, go: Any, tensor: Tensor) -> Tensor:
        ctx.group, ctx.come, ctx.go, ctx.shape = group, come, go, tensor.shape
        dist.all_to_all_single(out, tensor.detach(), come, go, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        out = grad.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, out, ctx.go, ctx.come, grad.contiguous())


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """What ``op`` says of the tensors of all processes; the gradient is the same of all gradients, as in PyTorch.

    That is right for SUM and AVG.

    >>> import torchlike as torch
    >>> import torchlike.distributed.nn.functional as F
    >>> torch.distributed.init_process_group(init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> F.all_reduce(x * 3).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    >>> torch.distributed.destroy_process_group()
    """
    return _AllReduce.apply(op, group, tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of the process ``src``, whose gradient is the sum of those of all; that of the others is 0."""
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """On the process ``dst`` the sum of the tensors of all, elsewhere a copy; gradients are those of ``dst``."""
    return _Reduce.apply(dst, op, group, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes. The gradient is the sum of those that all have for this one."""
    return _AllGather.apply(group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """On the process ``dst`` the tensors of all, elsewhere zeros; the gradients are those of ``dst``."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """The tensor for this process in the list of ``src``, which gets the gradients of all."""
    return _Scatter.apply(src, group, *tensors)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of the tensors that all lists have for this process, in the memory of ``output``."""
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> Any:
    """``output_tensor_list``, filled by a tensor of each process's list; gradients go back where tensors came from."""
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """Rows of each process's tensor, in the memory of ``output``; gradients go back where rows came from."""
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)
