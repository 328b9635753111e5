"""``torch._functorch.autograd_function``: its names say that they are not here when they are used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "custom Functions are called within transforms as they are; give them `vmap` and `jvp`"
)
