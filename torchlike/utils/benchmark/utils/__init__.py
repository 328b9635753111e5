"""What ``torch.utils.benchmark`` is made of."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
