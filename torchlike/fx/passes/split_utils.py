"""torch.fx.passes.split_utils: a module split by tags of its steps."""

from __future__ import annotations

from typing import Any

from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule, _get_attr
from torchlike.fx.node import Node, map_arg
from torchlike.fx.passes.utils.common import HolderModule, lift_subgraph_as_module
from torchlike.fx.proxy import GraphAppendingTracer, Proxy
from torchlike.interop.alias import missing_names

__all__ = ["getattr_recursive", "setattr_recursive", "split_by_tags"]

__getattr__ = missing_names(__name__)


def getattr_recursive(obj: Any, name: str) -> Any:
    """The attribute at a path."""
    return _get_attr(obj, name)


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the attribute at a path, whose parents are there."""
    path, _, field = attr.rpartition(".")
    setattr(_get_attr(obj, path) if path else obj, field, value)


class _Part:
    def __init__(self, name: str) -> None:
        self.name, self.graph = name, Graph()
        self.made: dict[Node, Node] = {}
        self.inputs: list[Node] = []
        self.outputs: dict[Node, None] = {}

    def inner(self, n: Node) -> Node:
        if n not in self.made:
            self.made[n] = self.graph.placeholder(n.name, type_expr=n.type)
            self.made[n].meta = n.meta.copy()
            self.inputs.append(n)
        return self.made[n]


def split_by_tags(
    gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False, return_tuple: bool = False,
    GraphModuleCls: type = GraphModule,
) -> Any:  # fmt: skip
    """A module that calls one of ``gm``'s parts after the other.

    Args:
        gm: each step that calls something has an attribute ``tag``, the name of its part.
        tags: the names of the parts, in the order in which they run.
        return_fqn_mapping: also return, for each path in the parts, that in ``gm``.
        return_tuple: have parts return tuples always.

    Raises AssertionError for a step without a tag, or one that needs a later part.
    """
    parts = {tag: _Part(tag) for tag in tags}
    home: dict[Node, _Part] = {}
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        if getattr(node, "tag", None) not in parts:
            raise AssertionError(f"Node {node} has no tag of {tags}: set node.tag")
        home[node] = parts[node.tag]
    for node, part in home.items():
        for n in node.all_input_nodes:
            source = home.get(n)
            if source is not None and tags.index(source.name) > tags.index(part.name):
                raise AssertionError(f"Node {node} of part {part.name} needs {n} of {source.name}, which comes later")
            if source is not None and source is not part:
                source.outputs.setdefault(n)
            if n.op == "get_attr" and n not in part.made:
                part.made[n] = part.graph.node_copy(n)
        part.made[node] = part.graph.node_copy(node, part.inner)
    return _joined(gm, parts, home, return_fqn_mapping, return_tuple, GraphModuleCls)


def _joined(gm: Any, parts: dict[str, _Part], home: dict, with_paths: bool, tuples: bool, cls: type) -> Any:
    graph, values, modules, paths = Graph(), {}, {}, {}  # type: ignore[var-annotated]
    for node in gm.graph.nodes:
        if node.op in ("placeholder", "get_attr") and (node.op == "placeholder" or node.users.keys() - home.keys()):
            values[node] = graph.node_copy(node)
        if node.op == "output":
            map_arg(node.args[0], lambda n: home[n].outputs.setdefault(n) if n in home else None)
    for part in parts.values():
        results = tuple(part.made[n] for n in home if n in part.outputs)
        part.graph.output(results[0] if len(results) == 1 and not tuples else results)
        modules[part.name], more = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
        paths.update(more)
        call = graph.call_module(part.name, tuple(values[n] for n in part.inputs))
        outputs = [n for n in home if n in part.outputs]
        if len(outputs) == 1 and not tuples:
            values[outputs[0]] = call
        else:
            proxy = Proxy(call, GraphAppendingTracer(graph))
            values.update({n: proxy[i].node for i, n in enumerate(outputs)})
    old = gm.graph.output_node()
    graph.output(map_arg(old.args[0], lambda n: values[n])).meta.update(old.meta)
    root = HolderModule(modules)
    for node in graph.find_nodes(op="get_attr"):
        setattr_recursive(root, str(node.target), _get_attr(gm, str(node.target)))
    made = cls(root, graph)
    return (made, paths) if with_paths else made
