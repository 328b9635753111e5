"""torch.distributed._tensor.placement_types: ``torch.distributed.tensor.placement_types`` under its older name."""

from torchlike.distributed.tensor.placement_types import Partial as Partial
from torchlike.distributed.tensor.placement_types import Placement as Placement
from torchlike.distributed.tensor.placement_types import Replicate as Replicate
from torchlike.distributed.tensor.placement_types import Shard as Shard
