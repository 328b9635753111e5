"""torch.fx: names that programs import. Graphs are not made: what would need one raises NotImplementedError."""

from torchlike.fx import graph as graph
from torchlike.fx import graph_module as graph_module
from torchlike.fx import node as node
from torchlike.fx import proxy as proxy
from torchlike.fx._names import Graph as Graph
from torchlike.fx._names import GraphModule as GraphModule
from torchlike.fx._names import Interpreter as Interpreter
from torchlike.fx._names import Node as Node
from torchlike.fx._names import Proxy as Proxy
from torchlike.fx._names import Tracer as Tracer
from torchlike.fx._names import Transformer as Transformer
from torchlike.fx._names import has_side_effect as has_side_effect
from torchlike.fx._names import map_arg as map_arg
from torchlike.fx._names import replace_pattern as replace_pattern
from torchlike.fx._names import symbolic_trace as symbolic_trace
from torchlike.fx._names import wrap as wrap
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)
