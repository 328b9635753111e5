"""torch.fx.proxy."""

from torchlike.fx._names import Attribute, GraphAppendingTracer, Proxy, TracerBase
from torchlike.interop.alias import missing_names

__all__ = ["Attribute", "GraphAppendingTracer", "Proxy", "TracerBase"]

__getattr__ = missing_names(__name__)
