"""torch._functorch: the names of functorch's parts, which programs written for it import."""

from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
