"""torch.distributed.algorithms._comm_hooks.default_hooks: hooks of FullyShardedDataParallel, which takes none."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__,
    "not supported; FullyShardedDataParallel takes no hooks: reduce p.grad by hand, or use DistributedDataParallel",
)
