"""torch.distributed.fsdp.api: the choices that FullyShardedDataParallel takes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from torchlike.interop.refusing import refusing
from torchlike.nn.modules.batchnorm import _BatchNorm

__getattr__ = refusing(__name__, "torchlike has no such choice of FSDP")


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
        buffer_dtype: of buffers, from the first forward on; in state dicts they have their own.
        keep_low_precision_grads: only False is supported.
        _module_classes_to_ignore: with an ``auto_wrap_policy``, modules of these classes compute in float32.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters stay in the memory of the host, where those of CPUs are; only False on other devices."""

    offload_params: bool = False


class StateDictType(enum.Enum):
    """What ``state_dict()`` of a FullyShardedDataParallel gives: whole tensors, or the cut ones as DTensors."""

    FULL_STATE_DICT = enum.auto()
    LOCAL_STATE_DICT = enum.auto()
    SHARDED_STATE_DICT = enum.auto()


class OptimStateKeyType(enum.Enum):
    """How an optimizer's state dict calls parameters: by their names, or by their numbers."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


@dataclass
class StateDictConfig:
    """``offload_to_cpu``: whether the tensors of a state dict are on the CPU."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """``rank0_only``: whether the state dicts of other processes are empty."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """For the parts that a process holds."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """For cut tensors, which are DTensors here whatever ``_use_dtensor`` says."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """``offload_to_cpu``: whether the tensors of an optimizer's state dict are on the CPU."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """``rank0_only``: whether the state dicts of other processes are empty."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """For the parts that a process holds."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """For cut tensors, which are DTensors here whatever ``_use_dtensor`` says."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What a FullyShardedDataParallel's state dicts are; see ``FullyShardedDataParallel.get_state_dict_type``."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
