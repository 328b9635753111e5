"""torch.distributed.tensor: importable; DTensors are refused when they are used."""

from torchlike.distributed.tensor.placement_types import Partial as Partial
from torchlike.distributed.tensor.placement_types import Placement as Placement
from torchlike.distributed.tensor.placement_types import Replicate as Replicate
from torchlike.distributed.tensor.placement_types import Shard as Shard
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no DTensor yet; give arrays a sharding of jax")
