"""What changes modules in place: :func:`replicate`, :func:`checkpoint`, and ``fully_shard`` under its older name."""

from torchlike.distributed._composable import fsdp as fsdp
from torchlike.distributed._composable.checkpoint_activation import checkpoint as checkpoint
from torchlike.distributed._composable.contract import _get_registry as _get_registry
from torchlike.distributed._composable.contract import contract as contract
from torchlike.distributed._composable.replicate import replicate as replicate
