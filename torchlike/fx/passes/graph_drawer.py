"""torch.fx.passes.graph_drawer: graphs as pictures, by the package pydot."""

import importlib
from typing import Any

from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.fx.passes.shape_prop import TensorMetadata
from torchlike.interop.alias import missing_names

__all__ = ["FxGraphDrawer"]

__getattr__ = missing_names(__name__)

_COLORS = {"placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2", "get_attr": "LightGrey",
           "output": "PowderBlue"}  # fmt: skip


class FxGraphDrawer:
    """Draws the graph of a module: a box for each step, and for its arguments arrows.

    Args:
        graph_module: the module. name: of the picture. ignore_getattr: leave out attributes.
        skip_node_names_in_args: leave out the names of steps among the arguments in boxes.

    Raises:
        RuntimeError: pydot is not installed.
    """

    def __init__(
        self, graph_module: GraphModule, name: str, ignore_getattr: bool = False, skip_node_names_in_args: bool = True
    ) -> None:
        try:
            self._pydot = importlib.import_module("pydot")
        except ImportError as error:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot through your favorite "
                "Python package manager."
            ) from error
        self._name, self._quiet = name, skip_node_names_in_args
        self._dots = {name: self._draw(graph_module, name, ignore_getattr)}
        for child_name, child in graph_module.named_children():
            if isinstance(child, GraphModule):
                path = f"{name}_{child_name}"
                self._dots[path] = self._draw(child, path, ignore_getattr)

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The ``pydot.Dot`` of the module or of a submodule (``<name>_<submodule>``)."""
        return self._dots[self._name if submod_name is None else submod_name]

    get_main_dot_graph = get_dot_graph

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The ``pydot.Dot`` of a submodule."""
        return self._dots[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All of them by name."""
        return self._dots

    def _draw(self, module: GraphModule, name: str, ignore_getattr: bool) -> Any:
        dot = self._pydot.Dot(name, rankdir="TB")
        for node in module.graph.nodes:
            if ignore_getattr and node.op == "get_attr":
                continue
            color = _COLORS.get(node.op, "LightBlue")
            dot.add_node(
                self._pydot.Node(
                    node.name, label=self._label(node), shape="record", style='"filled,rounded"', fillcolor=color
                )  # fmt: skip
            )
            for user in node.users:
                dot.add_edge(self._pydot.Edge(node.name, user.name))
        return dot

    def _label(self, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}", f"target={node._pretty_print_target(node.target)}"]
        plain = [str(a) for a in node.args if not (self._quiet and isinstance(a, Node))]
        if plain:
            lines.append(f"args=({', '.join(plain)})")
        meta = node.meta.get("tensor_meta")
        if isinstance(meta, TensorMetadata):
            lines += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}"]
        text = "|".join(line.replace("{", r"\{").replace("}", r"\}").replace("<", r"\<").replace(">", r"\>")
                        for line in lines)  # fmt: skip
        return '"{' + text.replace('"', r"\"") + r'}"'
