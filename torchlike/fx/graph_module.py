"""torch.fx.graph_module."""

from torchlike.fx._names import GraphModule
from torchlike.interop.alias import missing_names

__all__ = ["GraphModule"]

__getattr__ = missing_names(__name__)
