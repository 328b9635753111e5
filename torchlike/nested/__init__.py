"""torch.nested: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no nested tensors; pad the sequences and mask them")
