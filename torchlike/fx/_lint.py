"""Whether a graph is well formed."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torchlike.fx.node import Node, map_arg
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

if TYPE_CHECKING:
    from torchlike.fx.graph import Graph


def lint(graph: Graph) -> None:
    """Raise where the order, the arguments, the names or the targets of steps do not fit together.

    Raises:
        RuntimeError: an argument comes later or is of another graph, two steps have one name, an unknown attribute.
        ValueError: a target that is not the name of a module.
    """
    seen: set[Node] = set()
    names: set[str] = set()
    for node in graph.nodes:
        for n in node.all_input_nodes:
            _check_argument(graph, node, n, seen)
        if node.graph is not graph:
            raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
        if node.name in names:
            raise RuntimeError(f"Node redefined name {node.name}!")
        map_arg((node.args, node.kwargs), lambda n: n)
        seen.add(node)
        names.add(node.name)
    if graph.owning_module is not None:
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _check_path(graph.owning_module, node)


def _check_argument(graph: Graph, node: Node, n: Node, seen: set[Node]) -> None:
    if n.graph is not graph:
        raise RuntimeError(
            f"Argument '{n}' of Node '{node}' does not belong to this Graph, but was used as an argument! When you "
            "copy steps of another graph, have node_copy(arg_transform=...) give the copies of their arguments"
        )
    if n not in seen:
        raise RuntimeError(
            f"Argument '{n}' of Node '{node}' was used before it has been defined! Please check that Nodes in the "
            f"graph are topologically ordered\n{graph}"
        )


def _check_path(root: Any, node: Node) -> None:
    """Whether the module has what the step names."""
    here, parts = root, str(node.target).split(".")
    for i, part in enumerate(parts):
        found = getattr(here, part, None)
        last = i == len(parts) - 1
        if found is None and not hasattr(here, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {'.'.join(parts[:i])}"
            )
        if node.op == "call_module" and last and not callable(found):
            raise RuntimeError(
                f"Node {node} target {node.target} {part} of {'.'.join(parts[:i])} does not reference an nn.Module"
            )
        unregistered = last and node.op == "get_attr" and not isinstance(found, Module | Parameter)
        if unregistered and part not in getattr(here, "_buffers", {}):
            warnings.warn(
                f"Node {node} target {node.target} {part} of {'.'.join(parts[:i])} does not reference an nn.Module, "
                "nn.Parameter, or buffer, which is what 'get_attr' Nodes typically target",
                stacklevel=4,
            )
        here = found
