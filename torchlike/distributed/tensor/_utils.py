"""torch.distributed.tensor._utils: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "DTensors of torchlike are laid out by XLA; ask .placements and .to_local()")
