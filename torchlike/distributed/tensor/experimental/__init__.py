"""torch.distributed.tensor.experimental: functions of parts of DTensors, plain tensors beside them, cut sequences."""

from torchlike.distributed.tensor._dtensor import mixing as implicit_replication  # noqa: F401
from torchlike.distributed.tensor.experimental._attention import context_parallel as context_parallel
from torchlike.distributed.tensor.experimental._local_map import local_map as local_map
from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no such experiment; constrain layouts with torchlike.sharding.shard")
