"""What a communication hook of DistributedDataParallel is given."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from torchlike._base.dtypes import dtype as Dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._collectives import ReduceOp, all_reduce
from torchlike.distributed.distributed_c10d import found
from torchlike.futures import Future

__all__ = ["BuiltinCommHookType", "GradBucket"]


class BuiltinCommHookType(IntEnum):
    """The hooks that DistributedDataParallel has itself: a mean as it is, or computed and sent as float16."""

    ALLREDUCE, FP16_COMPRESS = 1, 2


class GradBucket:
    """What a communication hook gets: the gradients of some parameters, one after the other in one tensor."""

    def __init__(self, index: int, buffer: Tensor, parameters: list[Tensor], last: bool) -> None:
        self._index, self._buffer, self._parameters, self._last = index, buffer, parameters, last

    def index(self) -> int:
        """The number of the bucket."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, flat."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Let another tensor be the gradients."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """A view of the gradient of each parameter."""
        return unflattened(self._buffer, self._parameters)

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether this is the last bucket of a backward."""
        return self._last


def unflattened(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a flat tensor, in the shapes of ``like``."""
    parts, begin = [], 0
    for t in like:
        parts.append(flat[begin : begin + t.numel()].view(t.shape))
        begin += t.numel()
    return parts


def mean(process_group: Any, flat: Tensor) -> Future:
    """The future of the mean over a group's processes, in the place of ``flat``."""
    group = found(process_group)
    flat.div_(group.size())
    work = all_reduce(flat, ReduceOp.SUM, group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda done: done.value()[0])


def compressed(process_group: Any, bucket: Any, dtype: Dtype) -> Future:
    """The future of a bucket's mean, computed and sent as ``dtype``."""
    buffer = bucket.buffer()
    return mean(process_group, buffer.to(dtype)).then(lambda done: buffer.copy_(done.value()))
