"""torch._custom_ops: the old place of what ``torch.library`` has; programs find ``get_ctx`` there."""

from torchlike.interop.alias import missing_names
from torchlike.library import get_ctx as get_ctx

__getattr__ = missing_names(__name__)

__all__ = ["get_ctx"]
