"""torch.distributed._composable.fsdp.fully_shard: ``torch.distributed.fsdp``'s ``fully_shard`` under its older name."""

from torchlike.distributed.fsdp import FSDPModule as FSDPModule
from torchlike.distributed.fsdp import UnshardHandle as UnshardHandle
from torchlike.distributed.fsdp import fully_shard as fully_shard
from torchlike.distributed.fsdp import register_fsdp_forward_method as register_fsdp_forward_method
