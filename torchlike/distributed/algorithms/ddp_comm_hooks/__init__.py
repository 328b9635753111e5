"""Communication hooks for ``DistributedDataParallel.register_comm_hook``."""

from torchlike.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from torchlike.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as post_localSGD_hook
from torchlike.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook
