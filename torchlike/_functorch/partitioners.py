"""A graph of forward and backward, cut apart into two: what the backward needs of the forward becomes results of it."""

import operator
from collections.abc import Callable, Iterable
from typing import Any

from torchlike._aten.packets import OpOverload
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names

__all__ = ["default_partition"]

__getattr__ = missing_names(__name__)


def default_partition(
    joint_module: GraphModule, _joint_inputs: Any, *, num_fwd_outputs: int, **_unused: Any
) -> tuple[GraphModule, GraphModule]:
    """The modules of forward and backward of a graph whose inputs are called ``primals...`` and ``tangents...``.

    Every step of the forward whose result the backward uses is kept.

    Args:
        num_fwd_outputs: how many of the results are those of the function; the others are gradients.

    Returns:
        forward(*primals) -> (*outputs, *kept), backward(*kept, *tangents) -> gradients.
    """
    graph = joint_module.graph
    nodes = list(graph.nodes)
    outputs = list(flat_nodes(nodes[-1].args[0]))
    fwd_outputs, bwd_outputs = outputs[:num_fwd_outputs], outputs[num_fwd_outputs:]
    late = _following(nodes)
    writes = _writes(nodes)
    forward = _needed([n for n in fwd_outputs if isinstance(n, Node)], set())
    if any(n not in late for n in writes):  # what is read before a change is read in the forward
        forward = {n for n in nodes[:-1] if n not in late}
    for n in nodes:  # parts of results are kept, not tuples
        if n.target is operator.getitem and n.args[0] in forward:
            forward.add(n)
    backward = _needed([n for n in (*bwd_outputs, *writes) if isinstance(n, Node)], forward)
    for n in writes:
        if n in late and n.args[0] not in late:
            raise NotImplementedError(f"default_partition: the backward changes {n.args[0]} of the forward in place")
    primals = [n for n in nodes if n.op == "placeholder" and not n.name.startswith("tangents")]
    tangents = [n for n in nodes if n.op == "placeholder" and n.name.startswith("tangents")]
    used = set(_inputs_of(backward)) | {n for n in bwd_outputs if isinstance(n, Node)}
    kept = [n for n in nodes if n in used and n not in backward and n not in tangents and n.op != "get_attr"]
    steps = [n for n in nodes if n in forward and n.op != "placeholder"]
    later = [n for n in nodes if (n in backward or n in used and n.op == "get_attr") and n.op != "placeholder"]
    return (
        _module(joint_module, primals, steps, [*fwd_outputs, *kept]),
        _module(joint_module, [*kept, *tangents], later, bwd_outputs),
    )


def flat_nodes(tree: Any) -> Iterable[Any]:
    """The nodes and numbers in nested lists and tuples."""
    if isinstance(tree, tuple | list):
        for x in tree:
            yield from flat_nodes(x)
    else:
        yield tree


def _following(nodes: list[Node]) -> set[Node]:
    """The nodes that depend on a tangent."""
    found: set[Node] = set()
    for n in nodes:
        if n.op == "placeholder" and n.name.startswith("tangents") or not found.isdisjoint(n.all_input_nodes):
            found.add(n)
    return found


def _writes(nodes: list[Node]) -> list[Node]:
    """The steps that change a tensor, which count although nobody may use what they return."""
    return [n for n in nodes if isinstance(n.target, OpOverload) and n.target._schema.is_mutable]


def _needed(ends: list[Node], known: set[Node]) -> set[Node]:
    """The nodes that ``ends`` depend on, not looking behind those that are ``known``."""
    found, stack = set(), list(ends)
    while stack:
        n = stack.pop()
        if n not in found and n not in known:
            found.add(n)
            stack.extend(n.all_input_nodes)
    return found


def _inputs_of(nodes: set[Node]) -> list[Node]:
    return [x for n in nodes for x in n.all_input_nodes]


def _module(root: GraphModule, inputs: list[Node], steps: list[Node], outputs: list) -> GraphModule:
    graph, made = Graph(), {}
    for n in inputs:
        made[n] = graph.placeholder(n.name)
        made[n].meta = dict(n.meta)
    copy: Callable = made.__getitem__
    for n in steps:
        made[n] = graph.node_copy(n, copy)
    graph.output(tuple([copy(n) if isinstance(n, Node) else n for n in outputs]))
    return GraphModule(root, graph)
