"""torchlike.viz: a picture of the graph that autograd has recorded, and a table of a module's layers."""

from torchlike.interop.alias import missing_names
from torchlike.viz._graph import Graph as Graph
from torchlike.viz._graph import graph as graph
from torchlike.viz._summary import Summary as Summary
from torchlike.viz._summary import summary as summary

__getattr__ = missing_names(__name__)
__all__ = ["Graph", "Summary", "graph", "summary"]
