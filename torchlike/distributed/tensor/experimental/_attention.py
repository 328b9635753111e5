"""torch.distributed.tensor.experimental._attention: attention over a sequence that is cut over processes."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator, Sequence
from typing import Any

from torchlike._base.state import no_grad, state
from torchlike._core.conversion.factories import arange
from torchlike._core.overrides.torch_function import arm
from torchlike._core.tensor.tensor import Tensor
from torchlike._functions._install import FUNCTIONS
from torchlike.distributed._functional_collectives import all_gather_tensor
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._layouts import alone
from torchlike.interop.refusing import refusing
from torchlike.nn.functional.attention import scaled_dot_product_attention

__getattr__ = refusing(__name__, "torchlike has no such part of context parallelism; there is context_parallel")


class _RotateMethod(enum.Enum):
    ALL_TO_ALL = enum.auto()
    ALL_GATHER = enum.auto()


class _Options:
    """``enable_load_balance``: each process has a part from the front and one from the back, so that causal attention
    is as much work everywhere. rotate_method: without effect, keys and values are gathered.
    """

    enable_load_balance = True
    rotate_method = _RotateMethod.ALL_GATHER


_cp_options = _Options()


def set_rotate_method(rotate_method: str) -> None:
    """Accept how keys and values are to travel, "allgather" or "alltoall"; they are gathered, whatever it is.

    NotImplementedError for another word.
    """
    known = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in known:
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = known[rotate_method]


def _order(length: int, size: int, what: str) -> list[range]:
    """The positions that each process has, front to back: two ranges, or one."""
    parts = 2 * size if _cp_options.enable_load_balance else size
    if length % parts:
        raise ValueError(f"{what}: a sequence of {length} is not cut into {parts} equal parts, over {size} processes")
    n = length // parts
    return [range(i * n, (i + 1) * n) for i in range(parts)]


def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    return FUNCTIONS["cat"](tensors, dim)


def _mine(length: int, size: int, rank: int, what: str) -> list[range]:
    order = _order(length, size, what)
    return [order[rank], order[-1 - rank]] if _cp_options.enable_load_balance else [order[rank]]


def _positions(length: int, size: int, rank: int) -> Tensor:
    own = _mine(length, size, rank, "context_parallel()")
    return _cat([arange(r.start, r.stop) for r in own])


class _Attention:
    """Attention of this process's queries to the keys of all."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.group = mesh.get_group()
        self.size, self.rank = mesh.size(), mesh.get_local_rank()

    def part(self, x: Tensor, dim: int) -> Tensor:
        """What this process has of a tensor without history."""
        own = _mine(x.shape[dim], self.size, self.rank, "context_parallel()")
        return _cat([x.narrow(dim, r.start, len(r)) for r in own], dim)

    def __enter__(self) -> None:
        arm()
        self._before, state.function_modes = state.function_modes, (*state.function_modes, self)

    def __exit__(self, *exc: object) -> None:
        state.function_modes = self._before

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == scaled_dot_product_attention.__name__:
            return self._attend(*args, **(kwargs or {}))
        if "attention" in name or "transformer" in name:
            raise NotImplementedError(
                f"context_parallel(): {name} attends to this process's part alone; use scaled_dot_product_attention"
            )
        return func(*args, **(kwargs or {}))

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, **options: Any,
    ) -> Tensor:  # fmt: skip
        if attn_mask is not None or dropout_p:
            raise NotImplementedError("context_parallel(): attention with a mask or dropout is not supported")
        mask = None
        if is_causal:
            if query.shape[-2] != key.shape[-2]:
                raise NotImplementedError("context_parallel(): causal attention between sequences of other lengths")
            length = query.shape[-2] * self.size
            places = [_positions(length, self.size, rank) for rank in range(self.size)]
            mask = places[self.rank][:, None] >= _cat(places)
        key, value = (all_gather_tensor(x, x.dim() - 2, self.group) for x in (key, value))
        return scaled_dot_product_attention(query, key, value, mask, **options)


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh, *, buffers: Sequence[Tensor] | None = None, buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:  # fmt: skip
    """A context in which each process has a part of a sequence, and ``scaled_dot_product_attention`` attends to all.

    In one process that has all devices the sequence is whole, and nothing changes.

    Args:
        mesh: of one dimension. buffers: tensors that become this process's part, in place, and whole again afterwards.
        buffer_seq_dims: the dimension of the sequence of each. no_restore_buffers: those that stay parts.

    Raises:
        ValueError: lists of other lengths, a sequence that is not cut into equal parts (twice as many as processes).
        NotImplementedError: attention with a mask or dropout, ``MultiheadAttention``.
    """
    held, dims, stay = list(buffers or ()), list(buffer_seq_dims or ()), no_restore_buffers or set()
    if len(held) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    if not {id(x) for x in stay} <= {id(x) for x in held}:
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    if alone():
        yield
        return
    mode, before = _Attention(mesh), [x.data for x in held]
    cut = [mode.part(x, dim) for x, dim in zip(before, dims, strict=True)]
    for x, part in zip(held, cut, strict=True):
        x.data = part
    kept = {id(x) for x in stay}
    try:
        with mode:
            yield
    finally:
        for x, whole in zip(held, before, strict=True):
            if id(x) not in kept:
                x.data = whole


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int], load_balancer: Any = None
) -> list[Tensor]:
    """The whole sequences of parts that all processes have, in their order, without history."""
    if load_balancer is not None:
        raise NotImplementedError("context_parallel_unshard(load_balancer=) is not supported: leave it out")
    if alone():
        return list(buffers)
    size, found = mesh.size(), []
    with no_grad():
        for x, dim in zip(buffers, seq_dims, strict=True):
            whole = all_gather_tensor(x.detach().contiguous(), dim % x.dim(), mesh.get_group())
            length = whole.shape[dim]
            order = _cat([_positions(length, size, rank) for rank in range(size)])
            found.append(whole.index_select(dim, order.argsort()))
    return found
