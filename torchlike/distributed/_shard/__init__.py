"""torch.distributed._shard, which DTensor has replaced: names that can be imported and refuse."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "ShardedTensor is not supported; use torch.distributed.tensor.DTensor")
