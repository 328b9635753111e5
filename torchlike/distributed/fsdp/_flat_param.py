"""torch.distributed.fsdp._flat_param: flat parameters, which there are not."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "not supported: FullyShardedDataParallel keeps the module's own parameters, as DTensors"
)
