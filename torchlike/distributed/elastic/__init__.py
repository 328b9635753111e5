"""``torch.distributed.elastic``: what scripts under a launcher use of it."""

from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, "not supported"))
