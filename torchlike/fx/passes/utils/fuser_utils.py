"""torch.fx.passes.utils.fuser_utils: some steps of a graph as one that calls a module."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable

from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.fx.passes.tools_common import stable_topological_sort
from torchlike.fx.passes.utils.common import lift_subgraph_as_module
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

NodeList = list[Node]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """The steps in an order in which each comes behind those of them that it uses."""
    rest = dict.fromkeys(nodes)
    missing = {n: sum(i in rest for i in n.all_input_nodes) for n in rest}
    ready, order = [n for n in rest if not missing[n]], []
    heapq.heapify(ready)
    while ready:
        node = heapq.heappop(ready)
        order.append(node)
        for user in node.users:
            if user in missing:
                missing[user] -= 1
                if not missing[user]:
                    heapq.heappush(ready, user)
    if len(order) < len(rest):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes: they form a circle")
    return order


def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether the steps can be one: no value leaves them and comes back."""
    inside = set(partition)
    waiting = [user for node in inside for user in node.users if user not in inside]
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            waiting.extend(node.users)
    return True


def fuse_as_graphmodule(
    gm: GraphModule, nodes: list[Node], module_name: str, partition_lookup_table: dict[Node, int | None] | None = None,
    *, always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:  # fmt: skip
    """A module of some steps of ``gm``.

    Args:
        nodes: the steps, in their order. module_name: what the module says that it is.
        always_return_tuple: return a tuple where there is one result, too.

    Returns:
        the module, the steps outside whose values it takes, and those within whose values are needed outside.
    """
    inside = set(nodes)
    graph, made, inputs = Graph(), {}, []  # type: ignore[var-annotated]

    def inner(n: Node) -> Node:
        if n not in made:
            made[n] = graph.placeholder(n.name, type_expr=n.type)
            made[n].meta = n.meta.copy()
            inputs.append(n)
        return made[n]

    for node in nodes:
        made[node] = graph.node_copy(node, inner)
    outputs = tuple(n for n in nodes if any(user not in inside for user in n.users))
    results = tuple(made[n] for n in outputs)
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    module, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return module, tuple(inputs), outputs


def insert_subgm(
    gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...], orig_outputs: tuple[Node, ...]
) -> GraphModule:
    """Have ``gm`` call ``sub_gm``, whose class name is its path, for the values of ``orig_outputs``."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    call = gm.graph.call_module(name, orig_inputs)
    result = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(result, tuple):
        orig_outputs[0].replace_all_uses_with(call)
        return gm
    for i, old in enumerate(orig_outputs):
        old.replace_all_uses_with(gm.graph.call_function(operator.getitem, (call, i)))
    return gm


def erase_nodes(gm: GraphModule, nodes: Iterable[Node]) -> None:
    """Take out the steps, the last first."""
    for node in reversed(list(nodes)):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule, partitions: list[dict[Node, int | None]], prefix: str = "fused_", always_return_tuple: bool = False
) -> GraphModule:
    """Have ``gm`` call a module for each of some groups of its steps: ``fused_0``, ``fused_1`` and so on.

    Raises AssertionError for a group whose values leave it and come back.
    """
    for i, partition in enumerate(partitions):
        if not validate_partition(partition):
            raise AssertionError("Invalid partition, found dependency cycles")
        order = topo_sort(partition)
        sub_gm, inputs, outputs = fuse_as_graphmodule(
            gm, order, f"{prefix}{i}", always_return_tuple=always_return_tuple
        )
        with gm.graph.inserting_before(order[-1].next):
            insert_subgm(gm, sub_gm, inputs, outputs)
        erase_nodes(gm, order)
    stable_topological_sort(gm)
    return gm
