"""Communication hooks: means of gradients, sent as they are or in half precision."""

from collections.abc import Callable
from typing import Any

from torchlike._base.dtypes import bfloat16, float16
from torchlike._base.dtypes import dtype as Dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._buckets import compressed, mean
from torchlike.futures import Future

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, Any], Future]


def allreduce_hook(process_group: Any, bucket: Any) -> Future:
    """The mean of the gradients, in ``process_group`` or among all processes: what happens without a hook.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> model.register_comm_hook(None, allreduce_hook)
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 1.]])
    >>> torch.distributed.destroy_process_group()
    """
    return mean(process_group, bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean of the gradients, computed and sent as float16."""
    return compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future:
    """The mean of the gradients, computed and sent as bfloat16."""
    return compressed(process_group, bucket, bfloat16)


def _wrapped(hook: Hook, dtype: Dtype) -> Hook:
    def compressed(state: Any, bucket: Any) -> Future:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda done: buffer.copy_(_only(done.value())))

    return compressed


def _only(value: Any) -> Tensor:
    return value[0] if isinstance(value, list) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives ``hook`` the gradients as float16."""
    return _wrapped(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that gives ``hook`` the gradients as bfloat16."""
    return _wrapped(hook, bfloat16)
