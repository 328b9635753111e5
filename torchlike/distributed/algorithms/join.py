"""torch.distributed.algorithms.join: importable, and refused when used."""

from torchlike.interop.refusing import refusing

__getattr__ = refusing(__name__, "torchlike has no joining of uneven inputs; give all processes as many batches")
