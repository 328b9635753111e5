"""``torch.distributed.elastic.multiprocessing``: what scripts under a launcher use of it."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
