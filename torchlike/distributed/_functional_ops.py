"""``torch.ops._c10d_functional``: collectives that give new tensors, as operators that programs call by these names.

They are composed of the functions of ``_functional_collectives``, and done at once; results are plain tensors.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torchlike.distributed as dist
from torchlike._aten.packets import OpNamespace, ops
from torchlike._core.tensor.tensor import Tensor
from torchlike._library.library import Library
from torchlike.distributed import ReduceOp
from torchlike.distributed import _functional_collectives as C
from torchlike.distributed._async_tensor import awaited
from torchlike.distributed._calls import functional

__all__: list[str] = []

_TWICE = ("all_gather_into_tensor", "all_to_all_single", "reduce_scatter_tensor")  # in a namespace of autograd, too


def _named(reduce_op: str) -> ReduceOp:
    if reduce_op not in C.REDUCE_OP_TO_STR.values():
        raise RuntimeError(f"Unrecognized reduce_op: {reduce_op}")
    return ReduceOp[reduce_op.upper()]


def _of_size(group: Any, group_size: int) -> Any:
    found = C._meant(group)
    if dist.get_world_size(found) != group_size:
        raise RuntimeError(f"group_size is {group_size}, and the group has {dist.get_world_size(found)} processes")
    return found


def _all_reduce(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    return C.all_reduce(input, _named(reduce_op).name, group_name)


@functional("all_reduce")
def _all_reduce_(input: Tensor, reduce_op: str, group_name: Any) -> Tensor:
    dist.all_reduce(input, _named(reduce_op), C._meant(group_name))
    return input


def _all_reduce_coalesced(inputs: Sequence[Tensor], reduce_op: str, group_name: Any) -> list[Tensor]:
    return C.all_reduce_coalesced([*inputs], _named(reduce_op).name, group_name)


def _all_reduce_coalesced_(inputs: Sequence[Tensor], reduce_op: str, group_name: Any) -> list[Tensor]:
    return [_all_reduce_(x, reduce_op, group_name) for x in inputs]


def _all_gather(input: Tensor, group_size: int, group_name: Any) -> Tensor:
    return C.all_gather_tensor(input if input.dim() else input.reshape(1), 0, _of_size(group_name, group_size))


def _all_gather_out(input: Tensor, group_size: int, group_name: Any, *, out: Tensor) -> Tensor:
    return _into(out, _all_gather(input, group_size, group_name))


def _all_gather_coalesced(inputs: Sequence[Tensor], group_size: int, group_name: Any) -> list[Tensor]:
    return [_all_gather(x, group_size, group_name) for x in inputs]


def _reduce_scatter(input: Tensor, reduce_op: str, group_size: int, group_name: Any) -> Tensor:
    return C.reduce_scatter_tensor(input, _named(reduce_op).name, 0, _of_size(group_name, group_size))


def _reduce_scatter_out(input: Tensor, reduce_op: str, group_size: int, group_name: Any, *, out: Tensor) -> Tensor:
    return _into(out, _reduce_scatter(input, reduce_op, group_size, group_name))


def _reduce_scatter_coalesced(
    inputs: Sequence[Tensor], reduce_op: str, group_size: int, group_name: Any
) -> list[Tensor]:  # fmt: skip
    return [_reduce_scatter(x, reduce_op, group_size, group_name) for x in inputs]


def _all_to_all(input: Tensor, output_split_sizes: Any, input_split_sizes: Any, group_name: Any) -> Tensor:
    return C.all_to_all_single(input, output_split_sizes, input_split_sizes, group_name)


def _broadcast(input: Tensor, src: int, group_name: Any) -> Tensor:
    return C.broadcast(input, src, group_name)


@functional("broadcast")
def _broadcast_(input: Tensor, src: int, group_name: Any) -> Tensor:
    dist.broadcast(input, group=C._meant(group_name), group_src=src)
    return input


def _isend(tensor: Tensor, dst: int, tag: int, group_name: Any) -> Tensor:
    """Nothing, as PyTorch's."""
    dist.send(tensor, group=C._meant(group_name), tag=tag, group_dst=dst)
    return tensor.new_empty(0)


def _irecv(tensor: Tensor, src: int, tag: int, group_name: Any) -> Tensor:
    dist.recv(tensor, group=C._meant(group_name), tag=tag, group_src=src)
    return tensor


def _batch(op_list: Any, peer_list: Any, tag_list: Any, tensors: Sequence[Tensor], group_name: Any) -> list[Tensor]:
    calls = {"isend": _isend, "irecv": _irecv}
    order = sorted(range(len(tensors)), key=lambda i: op_list[i] != "isend")  # what is sent is waited for by others
    found = {i: calls[op_list[i]](tensors[i], peer_list[i], tag_list[i], group_name) for i in order}
    return [found[i] for i in range(len(tensors))]


def _wait(tensor: Tensor) -> Tensor:
    return C.wait_tensor(tensor)


def _wrap(input: Tensor) -> Tensor:
    """A tensor that is there already, as one of its own."""
    return input.clone()


def _into(out: Tensor, found: Tensor) -> Tensor:
    if out.shape != found.shape:
        raise RuntimeError(f"out has the shape {tuple(out.shape)}, and the result {tuple(found.shape)}")
    return out.copy_(found)


_SCHEMAS: dict[str, Callable[..., Any]] = {
    "all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor": _all_reduce,
    "all_reduce_(Tensor(a!) input, str reduce_op, Any group_name) -> Tensor(a!)": _all_reduce_,
    "all_reduce_coalesced(Tensor[] inputs, str reduce_op, Any group_name) -> Tensor[]": _all_reduce_coalesced,
    "all_reduce_coalesced_(Tensor[](a!) inputs, str reduce_op, Any group_name) -> Tensor[](a!)":
        _all_reduce_coalesced_,
    "all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor": _all_gather,
    "all_gather_into_tensor_out(Tensor input, int group_size, Any group_name, *, Tensor(a!) out) -> Tensor(a!)":
        _all_gather_out,
    "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, Any group_name) -> Tensor[]":
        _all_gather_coalesced,
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor": _reduce_scatter,
    "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, Any group_name, *, Tensor(a!) out) -> "
    "Tensor(a!)": _reduce_scatter_out,
    "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, Any group_name) -> Tensor[]":
        _reduce_scatter_coalesced,
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, Any group_name) -> "
    "Tensor": _all_to_all,
    "broadcast(Tensor input, int src, Any group_name) -> Tensor": _broadcast,
    "broadcast_(Tensor(a!) input, int src, Any group_name) -> Tensor(a!)": _broadcast_,
    "isend(Tensor tensor, int dst, int tag, str group_name) -> Tensor": _isend,
    "irecv(Tensor tensor, int src, int tag, str group_name) -> Tensor": _irecv,
    "batch_p2p_ops(str[] op_list, int[] peer_list, int[] tag_list, Tensor[] tensors, str group_name) -> Tensor[]":
        _batch,
    "wait_tensor(Tensor tensor) -> Tensor": _wait,
    "_wrap_tensor_autograd(Tensor input) -> Tensor": _wrap,
}  # fmt: skip


_NAMES = [schema.partition("(")[0] for schema in _SCHEMAS]
FUNCTIONAL = [n for n in _NAMES if n.strip("_") == n and not n.endswith("_out")]  # what gives new tensors


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with plain results; what it changes in place it gives as it is."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result if any(result is x for x in (*args, *kwargs.values())) else awaited(result)

    return called


def _defined(namespace: str, schemas: dict[str, Callable[..., Any]]) -> Library:
    setattr(ops, namespace, OpNamespace(namespace))
    library = Library(namespace, "FRAGMENT")
    for schema, function in schemas.items():
        library.impl(library.define(schema), _plain(function), "CompositeImplicitAutograd")
    return library


_kept = [  # operators live as long as their library
    _defined("_c10d_functional", _SCHEMAS),
    _defined("_c10d_functional_autograd", {s: f for s, f in _SCHEMAS.items() if s.partition("(")[0] in _TWICE}),
]
