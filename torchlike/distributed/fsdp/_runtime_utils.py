"""torch.distributed.fsdp._runtime_utils: PyTorch's inside of FullyShardedDataParallel, which is not here."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "not supported: XLA schedules collectives")
