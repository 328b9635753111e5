"""torch.fx.node."""

from torchlike.fx._names import Node, map_arg
from torchlike.interop.alias import missing_names

__all__ = ["Node", "map_arg"]

__getattr__ = missing_names(__name__)
