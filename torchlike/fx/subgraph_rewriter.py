"""torch.fx.subgraph_rewriter: parts of graphs replaced by others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchlike.fx._symbolic_trace import symbolic_trace
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from torchlike.fx.node import Node
from torchlike.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

__getattr__ = missing_names(__name__)


class Match(NamedTuple):
    """A place that was replaced: the last step of the pattern, and for each of its steps that of the graph."""

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, as :class:`Match`, and the steps that stand there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable | GraphModule, replacement: Callable | GraphModule
) -> list[Match]:
    """Replace each part of the graph of ``gm`` that does what ``pattern`` does by what ``replacement`` does.

    Args:
        gm: is changed. pattern, replacement: functions or modules with the same number of arguments; those of the
            pattern stand for anything. Functions, methods, constants and keyword arguments must be the same.

    Returns:
        the places, in their order; parts that overlap one before are left.

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y) * 2)
    >>> matches = torch.fx.replace_pattern(traced, lambda a, b: torch.relu(a + b), lambda a, b: torch.maximum(a, b))
    >>> print(traced.code.strip())
    def forward(self, x, y):
        maximum = torch.maximum(x, y);  x = y = None
        mul = maximum * 2;  maximum = None
        return mul
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable | Graph | GraphModule,
    replacement: Callable | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """As :func:`replace_pattern`, of the places that all filters accept.

    Args:
        match_filters: functions of a match, the graph and the pattern. ignore_literals: constants match any.
        replacement_callback: gives the replacement of each match, in the place of ``replacement``.
        node_name_match: a text that the name of the last step contains.
    """
    return _replace(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback, node_name_match
    )  # fmt: skip


def _graph_of(given: Any) -> Graph:
    if isinstance(given, GraphModule):
        return given.graph
    return given if isinstance(given, Graph) else symbolic_trace(given).graph


def _replace(
    gm: GraphModule,
    pattern: Any,
    replacement: Any,
    filters: list[Callable] | None = None,
    ignore_literals: bool = False,
    callback: Callable | None = None,
    name: str = "",
) -> list[ReplacedPatterns]:
    pattern_graph = _graph_of(pattern)
    common = _graph_of(replacement) if replacement is not None else None
    if common is None and callback is None:
        raise AssertionError("Must provide either replacement or replacement_callback")
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = [
        m for m in matcher.match(gm.graph, name) if all(f(m, gm.graph, pattern_graph) for f in filters or ())
    ]  # fmt: skip
    changed: dict[Node, Node] = {}
    done = []
    for match in matches:
        graph = common if common is not None else callback(match, gm.graph, pattern_graph)  # type: ignore[misc]
        done.append(_replace_one(gm, pattern_graph, graph, match, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return done


def _replace_one(
    gm: GraphModule, pattern: Graph, replacement: Graph, match: InternalMatch, changed: dict[Node, Node]
) -> ReplacedPatterns:
    """Replace one place. ``changed`` has what stands for steps that other places had, and is added to."""
    placeholders = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(match.placeholder_nodes) != len(placeholders):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} arguments, the replacement {len(placeholders)}: expected "
            "as many"
        )
    given = [changed.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    match.nodes_map.update(
        {p: changed[n] for p, n in match.nodes_map.items() if p.op == "placeholder" and n in changed}
    )
    copies: dict[Node, Any] = dict(zip(placeholders, given, strict=True))
    if not replacement.output_node().all_input_nodes or match.returning_nodes == []:
        raise AssertionError("the pattern and its replacement must return something")
    users = [user for n in match.returning_nodes for user in n.users]
    with gm.graph.inserting_before(min(users)) if users else gm.graph.inserting_before():
        result = gm.graph.graph_copy(replacement, copies)
    made = [copies[n] for n in replacement.nodes if n.op not in ("placeholder", "output")]
    results = [result] if isinstance(result, Node) else list(result)
    if len(results) != len(match.returning_nodes):
        raise AssertionError(f"the pattern returns {len(match.returning_nodes)} values, its replacement {len(results)}")
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output") and not match.nodes_map[node].users:
            gm.graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, made)


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Take over what the new steps name from the replacement, and drop the modules that none names."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        target = str(node.target)
        if node.op in ("call_module", "get_attr") and not _has_attr(gm, target):
            if not _has_attr(replacement, target):
                raise RuntimeError(f'Attempted to create a "{node.op}" node with target {target}, which nobody has')
            _assign_attr(copy.deepcopy(_get_attr(replacement, target)), gm, target)
    gm.graph.lint()
