"""Communication hooks by name."""

import functools
from collections.abc import Callable
from enum import Enum
from typing import Any

from torchlike.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torchlike.distributed.algorithms.ddp_comm_hooks.default_hooks import (
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
)
from torchlike.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    batched_powerSGD_hook,
    powerSGD_hook,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _as_it_is(model: Any, state: Any, comm_hook: Callable) -> None:
    model.register_comm_hook(state, comm_hook)


def _of_rank(model: Any, state: Any, comm_hook: Callable, matrix_approximation_rank: int) -> None:
    model.register_comm_hook(PowerSGDState(state, matrix_approximation_rank), comm_hook)


def _quantized(model: Any, state: Any) -> None:
    raise NotImplementedError("register_ddp_comm_hook: hooks that quantize gradients are not supported; use POWER_SGD")


class DDPCommHookType(Enum):
    """The hooks of this package, each with what registers it."""

    ALLREDUCE = functools.partial(_as_it_is, comm_hook=allreduce_hook)
    FP16_COMPRESS = functools.partial(_as_it_is, comm_hook=fp16_compress_hook)
    BF16_COMPRESS = functools.partial(_as_it_is, comm_hook=bf16_compress_hook)
    QUANTIZE_PER_TENSOR = functools.partial(_quantized)
    QUANTIZE_PER_CHANNEL = functools.partial(_quantized)
    POWER_SGD = functools.partial(_of_rank, comm_hook=powerSGD_hook, matrix_approximation_rank=1)
    POWER_SGD_RANK2 = functools.partial(_of_rank, comm_hook=powerSGD_hook, matrix_approximation_rank=2)
    BATCHED_POWER_SGD = functools.partial(_of_rank, comm_hook=batched_powerSGD_hook, matrix_approximation_rank=1)
    BATCHED_POWER_SGD_RANK2 = functools.partial(_of_rank, comm_hook=batched_powerSGD_hook, matrix_approximation_rank=2)
    NOOP = functools.partial(_as_it_is, comm_hook=noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """``model.register_comm_hook`` of a hook by its name.

    ``state`` is the hook's; for those of PowerSGD it is the group of processes, by default all. NotImplementedError
    for those that quantize.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    >>> register_ddp_comm_hook(DDPCommHookType.FP16_COMPRESS, model)
    >>> torch.distributed.destroy_process_group()
    """
    comm_hook_type.value(model=model, state=state)
