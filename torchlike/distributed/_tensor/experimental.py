"""torch.distributed._tensor.experimental: ``torch.distributed.tensor.experimental`` under its older name."""

from torchlike.distributed.tensor import experimental as _experimental
from torchlike.distributed.tensor.experimental import implicit_replication as implicit_replication
from torchlike.distributed.tensor.experimental import local_map as local_map

__getattr__ = _experimental.__getattr__
