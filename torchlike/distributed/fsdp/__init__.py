"""torch.distributed.fsdp: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no FSDP yet; give parameters a sharding of jax")
