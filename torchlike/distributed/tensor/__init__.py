"""torch.distributed.tensor: placements; tensors over a mesh are not in torchlike yet, and their names say so."""

from torchlike.distributed.tensor.placement_types import Partial as Partial
from torchlike.distributed.tensor.placement_types import Placement as Placement
from torchlike.distributed.tensor.placement_types import Replicate as Replicate
from torchlike.distributed.tensor.placement_types import Shard as Shard
from torchlike.interop.unbuilt import names_of

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

__getattr__ = names_of("torch.distributed.tensor")
