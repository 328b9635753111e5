"""torch.fx.passes.split_module: a module as a few modules that are called one after the other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule, _get_attr
from torchlike.fx.node import Node, map_arg
from torchlike.fx.proxy import GraphAppendingTracer, Proxy
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.module import Module

__all__ = ["Partition", "split_module"]

__getattr__ = missing_names(__name__)


class Partition:
    """The steps of one part.

    Attributes:
        node_names: of the steps. inputs, outputs: names of the steps of other parts that it needs, and of its own that
            others need. dependencies, dependents: the parts that come before and behind it. graph: its graph.
    """

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int | str],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that does what ``m`` does by calling parts of it, ``submod_0``, ``submod_1`` and so on.

    Args:
        m: a traced module. root_m: the module that was traced.
        split_callback: for each step the number or name of its part.
        qualname_map: filled with the path in ``m`` of each path in the parts.
        keep_original_order: call the parts in the order of their first steps.
        keep_original_node_name: have steps of parts keep their names.
        partition_affix: put before the names of parts, ``submod_<affix>_0``.
        tuple_return: have parts with one result return a tuple, too.

    Raises:
        RuntimeError: parts need each other in a circle. NotImplementedError: keep_original_input_name=False.

    >>> import torchlike as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.exp(torch.relu(x)))
    >>> split = torch.fx.passes.split_module.split_module(
    ...     traced, torch.nn.Module(), lambda node: 0 if node.name == "relu" else 1)
    >>> print(split.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    """
    if not keep_original_input_name:
        raise NotImplementedError("torch.fx.passes.split_module(keep_original_input_name=False)")
    return _Split(m, root_m, split_callback, partition_affix, keep_original_node_name, tuple_return).made(
        keep_original_order, qualname_map
    )


class _Split:
    """One split."""

    def __init__(
        self, m: Any, root: Module, choose: Callable, affix: str | None, keep_names: bool, tuples: bool
    ) -> None:
        self.m, self.root, self.keep_names, self.tuples = m, root, keep_names, tuples
        self.parts: dict[str, Partition] = {}
        self.part_of: dict[Node, Partition] = {}
        for node in m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(choose(node))
            if affix is not None:
                name = f"{affix}_{name}"
            part = self.parts.setdefault(name, Partition(name))
            part.node_names.append(node.name)
            self.part_of[node] = part
        for node in m.graph.nodes:
            if node.op == "output":
                map_arg(node.args[0], lambda n: self._needs(n, None))
            elif node in self.part_of:
                map_arg((node.args, node.kwargs), functools.partial(self._needs, user=self.part_of[node]))

    def _needs(self, needed: Node, user: Partition | None) -> None:
        """Note that a part, or the output, uses the value of a step."""
        source = self.part_of.get(needed)
        if source is user:
            return
        if source is not None:
            source.outputs.setdefault(needed.name)
            if user is not None:
                source.dependents.setdefault(user.name)
                user.dependencies.setdefault(source.name)
        if user is not None:
            user.inputs.setdefault(needed.name)

    def _order(self, keep: bool) -> list[Partition]:
        """The parts, each behind those that it needs."""
        waiting = {p.name: set(p.dependencies) for p in self.parts.values()}
        ready = [name for name, needed in waiting.items() if not needed]
        done: list[str] = []
        if keep:
            return self._in_order_of_steps()
        while ready:
            name = ready.pop()
            done.append(name)
            for other in self.parts[name].dependents:
                waiting[other].discard(name)
                if not waiting[other] and other not in done and other not in ready:
                    ready.append(other)
        if len(done) != len(self.parts):
            raise RuntimeError("cycle exists between partitions!")
        return [self.parts[name] for name in done]

    def _in_order_of_steps(self) -> list[Partition]:
        order = list(dict.fromkeys(self.part_of.values()))
        seen: set[str] = set()
        for part in order:
            if not set(part.dependencies) <= seen:
                raise RuntimeError("cycle exists between partitions!")
            seen.add(part.name)
        return order

    def _fill(self) -> None:
        """Copy each step into the graph of its part."""
        steps = {node.name: node for node in self.m.graph.nodes}
        for part in self.parts.values():
            for name in part.inputs:
                node = steps[name]
                made = part.graph.placeholder(name, type_expr=node.type)
                made.meta = node.meta.copy()
                part.environment[node] = made
        for node, part in self.part_of.items():
            self._copy(node, part)

    def _copy(self, node: Node, part: Partition) -> None:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: part.environment[n])
        target = node.target
        if node.op == "call_module":
            part.targets[str(target).replace(".", "_")] = _get_attr(self.m, str(target))
            target = str(target).replace(".", "_")
        name = node.name if self.keep_names else None
        made = part.graph.create_node(node.op, target, tuple(args), dict(kwargs), name=name, type_expr=node.type)
        made.meta = node.meta.copy()
        part.environment[node] = made

    def made(self, keep_order: bool, paths: dict[str, str] | None) -> GraphModule:
        """The module."""
        order = self._order(keep_order)
        self._fill()
        graph, values, attributes = Graph(), {}, {}  # type: ignore[var-annotated]
        steps = {node.name: node for node in self.m.graph.nodes}

        def outside(node: Node) -> None:
            """A step of the whole module that is of no part."""
            if node.name in values or node.op not in ("placeholder", "get_attr"):
                return
            if node.op == "get_attr":
                made = graph.get_attr(str(node.target))
                attributes[str(node.target)] = _get_attr(self.m, str(node.target))
            else:
                made = graph.placeholder(
                    node.name if self.keep_names else str(node.target), node.type, node.args[0] if node.args else ...
                )
            made.meta = node.meta.copy()
            values[node.name] = made

        for node in self.m.graph.nodes:
            if node.op == "placeholder" or not keep_order:
                outside(node)
        for part in order:
            for name in part.inputs:
                outside(steps[name])
            attributes[part.submod_name] = self._module_of(part, steps, paths)
            call = graph.call_module(part.submod_name, tuple(values[name] for name in part.inputs))
            if len(part.outputs) > 1 or self.tuples:
                proxy = Proxy(call, GraphAppendingTracer(graph))
                values.update({name: proxy[i].node for i, name in enumerate(part.outputs)})
            else:
                values.update(dict.fromkeys(part.outputs, call))
        for node in self.m.graph.nodes:
            if node.op == "output":
                map_arg(node.args[0], outside)
                graph.output(map_arg(node.args[0], lambda n: values[n.name]))
        return GraphModule(attributes, graph)

    def _module_of(self, part: Partition, steps: dict[str, Node], paths: dict[str, str] | None) -> GraphModule:
        results = tuple(part.environment[steps[name]] for name in part.outputs)
        part.graph.output(results[0] if len(results) == 1 and not self.tuples else results)
        if paths is not None:
            for node in self.part_of:
                if node.op == "call_module" and self.part_of[node] is part:
                    paths[f"{part.submod_name}.{str(node.target).replace('.', '_')}"] = str(node.target)
        return GraphModule(part.targets, part.graph)
