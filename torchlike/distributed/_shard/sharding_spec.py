"""torch.distributed._shard.sharding_spec: DTensor has replaced it."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "ShardedTensor is not supported; use torch.distributed.tensor.DTensor")
