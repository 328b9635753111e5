"""torchlike.viz: pictures of the graph that autograd has recorded and of tensors over devices, tables of modules."""

from torchlike.interop.alias import missing_names
from torchlike.viz._graph import Graph as Graph
from torchlike.viz._graph import graph as graph
from torchlike.viz._sharding import Sharding as Sharding
from torchlike.viz._sharding import sharding as sharding
from torchlike.viz._summary import Summary as Summary
from torchlike.viz._summary import summary as summary

__getattr__ = missing_names(__name__)
__all__ = ["Graph", "Sharding", "Summary", "graph", "sharding", "summary"]
