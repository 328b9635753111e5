"""``functorch.dim``: its names say that they are not here when they are used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "dimensions are no objects here; use vmap, einsum or functorch.einops.rearrange")
