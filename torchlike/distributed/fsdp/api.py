"""torch.distributed.fsdp.api: the choices that FullyShardedDataParallel takes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no such choice of FSDP; state_dict() gives cut tensors")


class ShardingStrategy(enum.Enum):
    """What is cut. XLA brings parameters together where they are used, whichever of the first two it is."""

    FULL_SHARD = enum.auto()
    SHARD_GRAD_OP = enum.auto()
    NO_SHARD = enum.auto()
    HYBRID_SHARD = enum.auto()
    _HYBRID_SHARD_ZERO2 = enum.auto()


class BackwardPrefetch(enum.Enum):
    """When parameters come for backward: XLA decides."""

    BACKWARD_PRE = enum.auto()
    BACKWARD_POST = enum.auto()


@dataclass
class MixedPrecision:
    """In which dtypes a module computes.

    Attributes:
        param_dtype: of the parameters in forward and backward. reduce_dtype: in which gradients are reduced.
        cast_forward_inputs, cast_root_forward_inputs: whether inputs get ``param_dtype``.
        buffer_dtype, keep_low_precision_grads: only None and False are supported.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


@dataclass
class CPUOffload:
    """Whether parameters stay in the memory of the host; only False is supported."""

    offload_params: bool = False
