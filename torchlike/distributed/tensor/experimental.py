"""torch.distributed.tensor.experimental: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no DTensor yet; give arrays a sharding of jax")
