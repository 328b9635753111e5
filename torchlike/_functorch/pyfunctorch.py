"""``torch._functorch.pyfunctorch``: its names say that they are not here when they are used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "transforms are no interpreters here; torch._C._functorch tells the levels of a tensor"
)
