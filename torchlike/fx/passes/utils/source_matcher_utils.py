"""torch.fx.passes.utils.source_matcher_utils: steps by what they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torchlike.fx.graph import Graph
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]

__getattr__ = missing_names(__name__)


@dataclass
class SourcePartition:
    """The steps that come from one call of a module or function.

    Attributes:
        nodes: the steps. source: what was called. input_nodes, output_nodes: the steps outside that it needs, and those
            within that others need. params: the attributes that it reads.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """The steps that come from some modules or functions, by what ``meta["source_fn_stack"]`` says of them.

    Args:
        wanted_sources: the classes and functions. filter_fn: said of all output steps of a group, it is kept.
    """
    groups: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        stack = node.meta.get("source_fn_stack") or [node.meta.get("source_fn")]
        if stack[-1] is None:
            continue
        name, source = stack[-1]
        if source in wanted_sources:
            groups.setdefault(source, {}).setdefault(name, []).append(node)
    found = {source: [_partition(source, nodes) for nodes in by.values()] for source, by in groups.items()}
    if filter_fn is None:
        return found
    kept = {s: [p for p in ps if all(map(filter_fn, p.output_nodes))] for s, ps in found.items()}
    return {s: ps for s, ps in kept.items() if ps}


def _partition(source: Any, nodes: list[Node]) -> SourcePartition:
    inside = set(nodes)
    outside = dict.fromkeys(n for node in nodes for n in node.all_input_nodes if n not in inside)
    return SourcePartition(
        nodes, source, [n for n in outside if n.op != "get_attr"],
        [n for n in nodes if any(user not in inside for user in n.users)], [n for n in outside if n.op == "get_attr"],
    )  # fmt: skip


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second group uses a value of the first."""
    return any(n in subgraph1.nodes for node in subgraph2.nodes for n in node.all_input_nodes)
