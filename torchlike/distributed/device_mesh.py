"""torch.distributed.device_mesh: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no meshes of PyTorch yet; use jax.sharding.Mesh")
