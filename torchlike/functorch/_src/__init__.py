"""The paths of functorch that were its own before it came with PyTorch."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
