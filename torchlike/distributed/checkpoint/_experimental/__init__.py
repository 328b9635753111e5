"""torch.distributed.checkpoint._experimental: checkpoints by processes of their own, which there are not."""

from torchlike.interop.lazy import on_first_use
from torchlike.interop.refusing import refusing

_WHY = "not supported; use torch.distributed.checkpoint.save, or async_save, which writes beside the training"
__getattr__, __dir__ = on_first_use(__name__, missing=refusing(__name__, _WHY))
