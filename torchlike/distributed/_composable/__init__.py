"""What changes modules in place: :func:`replicate`, and ``fully_shard`` under its older name."""

from torchlike.distributed._composable import fsdp as fsdp
from torchlike.distributed._composable.replicate import replicate as replicate
