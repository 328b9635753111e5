"""``fully_shard`` and what belongs to it, under its older name."""

from torchlike.distributed._composable.fsdp.fully_shard import UnshardHandle as UnshardHandle
from torchlike.distributed.fsdp import CPUOffloadPolicy as CPUOffloadPolicy
from torchlike.distributed.fsdp import FSDPModule as FSDPModule
from torchlike.distributed.fsdp import MixedPrecisionPolicy as MixedPrecisionPolicy
from torchlike.distributed.fsdp import OffloadPolicy as OffloadPolicy
from torchlike.distributed.fsdp import fully_shard as fully_shard
from torchlike.distributed.fsdp import register_fsdp_forward_method as register_fsdp_forward_method
