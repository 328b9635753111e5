"""torch.fx: graphs of Python functions and modules, programs that change them, and modules made of them."""

from torchlike.fx import _symbolic_trace as _symbolic_trace
from torchlike.fx import graph as graph
from torchlike.fx import graph_module as graph_module
from torchlike.fx import immutable_collections as immutable_collections
from torchlike.fx import interpreter as interpreter
from torchlike.fx import node as node
from torchlike.fx import operator_schemas as operator_schemas
from torchlike.fx import proxy as proxy
from torchlike.fx import subgraph_rewriter as subgraph_rewriter
from torchlike.fx import traceback as traceback
from torchlike.fx._symbolic_trace import PH as PH
from torchlike.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from torchlike.fx._symbolic_trace import Tracer as Tracer
from torchlike.fx._symbolic_trace import symbolic_trace as symbolic_trace
from torchlike.fx._symbolic_trace import wrap as wrap
from torchlike.fx.graph import CodeGen as CodeGen
from torchlike.fx.graph import Graph as Graph
from torchlike.fx.graph_module import GraphModule as GraphModule
from torchlike.fx.interpreter import Interpreter as Interpreter
from torchlike.fx.interpreter import Transformer as Transformer
from torchlike.fx.node import Node as Node
from torchlike.fx.node import has_side_effect as has_side_effect
from torchlike.fx.node import map_arg as map_arg
from torchlike.fx.proxy import Proxy as Proxy
from torchlike.fx.subgraph_rewriter import replace_pattern as replace_pattern
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
