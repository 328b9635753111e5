"""Communication hooks for ``DistributedDataParallel.register_comm_hook``."""

from torchlike.distributed.algorithms.ddp_comm_hooks import debugging_hooks as debugging_hooks
from torchlike.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from torchlike.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_localSGD_hook
from torchlike.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook
from torchlike.distributed.algorithms.ddp_comm_hooks._types import DDPCommHookType as DDPCommHookType
from torchlike.distributed.algorithms.ddp_comm_hooks._types import register_ddp_comm_hook as register_ddp_comm_hook
