"""torch.fx.passes.utils.matcher_utils: where a graph contains another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import _get_attr
from torchlike.fx.node import Node
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import tree_leaves

__all__ = ["InternalMatch", "SubgraphMatcher"]

__getattr__ = missing_names(__name__)

_Map = dict[Node, Any]


@dataclass
class InternalMatch:
    """One place where the pattern was found.

    Attributes:
        anchors: the last steps of the pattern. nodes_map: for each step of the pattern that here.
        placeholder_nodes: what stands here for the arguments of the pattern.
        returning_nodes: what stands here for its results.
    """

    anchors: list[Node]
    nodes_map: _Map = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Any] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    Args:
        pattern: a graph, whose placeholders stand for anything.
        match_output, match_placeholder: have its output and placeholders stand for such only.
        remove_overlapping_matches: leave out places that share steps with one found before.
        ignore_literals: have numbers and other constants of the pattern stand for any.

    >>> import torchlike as torch
    >>> pattern = torch.fx.symbolic_trace(lambda x: torch.relu(x) + 1).graph
    >>> graph = torch.fx.symbolic_trace(lambda a, b: torch.relu(a * b) + 1).graph
    >>> matcher = torch.fx.passes.utils.matcher_utils.SubgraphMatcher(pattern)
    >>> [match.returning_nodes for match in matcher.match(graph)]
    [[add]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern, self.match_output, self.match_placeholder = pattern, match_output, match_placeholder
        self.remove_overlapping_matches, self.ignore_literals = remove_overlapping_matches, ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op not in ("output", "placeholder") and not node.users:
                raise AssertionError(f"SubgraphMatcher cannot be used with a pattern that has dead code: {node}")
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [
            n for n in output.all_input_nodes if len(n.users) == 1 or not match_output and set(n.users) == {output}
        ]  # fmt: skip

    # -- one step against another ------------------------------------------------------------------
    def _like(self, wanted: Node, here: Any) -> bool:
        if not isinstance(here, Node):
            return wanted.op == "placeholder" and not self.match_placeholder
        if wanted.op == "placeholder" and not self.match_placeholder:
            return True
        if wanted.op != here.op:
            return False
        if wanted.op in ("placeholder", "output"):
            return True
        if wanted.op == "get_attr":
            return self._like_attribute(wanted, here)
        return wanted.target == here.target

    def _like_attribute(self, wanted: Node, here: Node) -> bool:
        owners = wanted.graph.owning_module, here.graph.owning_module
        if None in owners:
            return wanted.target == here.target
        first, second = _get_attr(owners[0], str(wanted.target)), _get_attr(owners[1], str(here.target))  # type: ignore[arg-type]
        return type(first) is type(second) and (isinstance(first, Tensor) or first is second)

    def _match(self, wanted: Any, here: Any, found: _Map) -> bool:
        """Whether ``here`` is as ``wanted``; fills ``found``, which is of no use if it is not."""
        if not isinstance(wanted, Node):
            return self.ignore_literals and not isinstance(here, Node) or self._same_literal(wanted, here)
        if wanted in found:
            return found[wanted] is here
        if any(here is v for v in found.values()) or not self._like(wanted, here):
            return False
        found[wanted] = here
        if wanted.op == "placeholder":
            return True
        if len(wanted.args) != len(here.args) or list(wanted.kwargs) != list(here.kwargs):
            return False
        first, second = _arguments(wanted), _arguments(here)
        return len(first) == len(second) and all(self._match(a, b, found) for a, b in zip(first, second, strict=True))

    @staticmethod
    def _same_literal(wanted: Any, here: Any) -> bool:
        return not isinstance(here, Node) and type(wanted) is type(here) and wanted == here

    # -- the whole pattern -------------------------------------------------------------------------
    def _from(self, anchors: list[Node], found: _Map, graph: Graph) -> Iterator[_Map]:
        """The ways of matching the anchors, given what is found already."""
        if not anchors:
            yield found
            return
        if anchors[0] in found:
            yield from self._from(anchors[1:], found, graph)
            return
        for node in graph.nodes:
            attempt = dict(found)
            if self._like(anchors[0], node) and self._match(anchors[0], node, attempt):
                yield from self._from(anchors[1:], attempt, graph)

    def _is_contained(self, found: _Map) -> bool:
        """Whether nothing outside uses what is within but the results."""
        inside = {here for wanted, here in found.items() if wanted.op != "placeholder"}
        returned = {found[n] for n in self.pattern_returning_nodes}
        for wanted, here in found.items():
            if wanted.op in ("placeholder", "get_attr", "output") or here in returned:
                continue
            if any(user not in inside for user in here.users):
                return False
        return True

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places of a graph that contain the pattern, in their order.

        Args:
            node_name_match: a text that the name of the last step contains.
        """
        matches = []
        used: set[Node] = set()
        for found in self._from(self.pattern_anchors, {}, graph):
            inside = {here for wanted, here in found.items() if wanted.op not in ("placeholder", "output", "get_attr")}
            names = [found[a].name for a in self.pattern_anchors]
            if not self._is_contained(found) or not all(node_name_match in name for name in names):
                continue
            if self.remove_overlapping_matches and used & inside:
                continue
            used |= inside
            matches.append(self._made(found))
        return matches

    def _made(self, found: _Map) -> InternalMatch:
        return InternalMatch(
            list(self.pattern_anchors),
            found,
            [found[p] for p in self.pattern_placeholder_nodes if p in found],
            [found[r] for r in self.pattern_returning_nodes],
        )


def _arguments(node: Node) -> list[Any]:
    return tree_leaves([list(node.args), [node.kwargs[k] for k in node.kwargs]])
