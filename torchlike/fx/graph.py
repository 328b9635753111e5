"""torch.fx.graph."""

from torchlike.fx._names import Graph
from torchlike.interop.alias import missing_names

__all__ = ["Graph"]

__getattr__ = missing_names(__name__)
