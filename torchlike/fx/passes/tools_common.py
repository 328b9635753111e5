"""torch.fx.passes.tools_common: the order of steps, and what they are."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx._qualified import qualified_name
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["get_node_target", "is_node_output_tensor", "legalize_graph", "stable_topological_sort"]

__getattr__ = missing_names(__name__)

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}
Tensors = tuple[Tensor] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a step calls: a function, a method, or the class of a module.

    Raises AssertionError for a step that calls nothing.
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}")
    if node.op == "call_module":
        cls: Any = type(submodules[str(node.target)])
        return f"{cls.__module__}.{cls.__name__}".replace("torchlike.", "torch.", 1)
    return node.target if isinstance(node.target, str) else qualified_name(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a pass that notes types found a tensor to be the value of the step."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Put the steps in an order in which each comes behind those that it uses, into a new graph of ``gm``.

    Raises RuntimeError if they use each other in a circle.
    """
    return _in_order(gm, stable=False)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """As :func:`legalize_graph`, in the order that differs least from the present one."""
    return _in_order(gm, stable=True)


def _in_order(gm: GraphModule, stable: bool) -> GraphModule:
    order = _sorted(gm.graph, stable)
    if len(order) < len(gm.graph.nodes):
        raise RuntimeError(f"Input graph has cycles, unable to add {set(gm.graph.nodes) - set(order)}")
    made, copies = Graph(), {}  # type: ignore[var-annotated]
    for node in order:
        copies[node] = made.node_copy(node, lambda n: copies[n])
    made._codegen = gm.graph._codegen
    gm.graph = made
    return gm


def _sorted(graph: Graph, stable: bool) -> list[Node]:
    """The steps, each behind those that it uses: the first that can come next, or all that can come at once."""
    missing = {node: len(node.all_input_nodes) for node in graph.nodes}
    ready = [node for node in graph.nodes if not missing[node]]  # which is a heap
    order: list[Node] = []
    while ready:
        now = [heapq.heappop(ready)] if stable else sorted(ready)
        ready = ready if stable else []
        order += now
        for user in [user for node in now for user in node.users]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    return [n for n in order if n.op != "output"] + [n for n in order if n.op == "output"]
