"""torch._dynamo.export: the graph of a function, as a module that is called like it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from torchlike._core.tensor.tensor import Tensor
from torchlike.compiler._compile import compile
from torchlike.fx._codegen import PyTreeCodeGen, PyTreeInfo
from torchlike.fx.experimental.proxy_tensor import make_fx
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.nn import Module
from torchlike.utils import _pytree as pytree


class ExportResult(NamedTuple):
    """A graph, as a module that is called like the function, and what it holds under: nothing that can be looked at."""

    graph_module: GraphModule
    guards: set


def export(
    f: Callable,
    *extra_args: Any,
    aten_graph: bool = False,
    pre_dispatch: bool = False,
    decomposition_table: dict | None = None,
    tracing_mode: str = "symbolic",
    dynamic_shapes: Any = None,
    specialize_float: bool = True,
    assume_static_by_default: bool = False,
    same_signature: bool = True,
    disable_constraint_solver: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
    _log_export_usage: bool = True,
    constraints: Any = None,
    **extra_kwargs: Any,
) -> Any:
    """A function of example arguments that gives ``(graph_module, guards)`` of ``f``.

    The graph has the calls that ``f`` makes for these arguments: sizes, numbers and branches are those of the example.
    Parameters and other tensors from outside are attributes of the module.

    Args:
        aten_graph: the graph is one of aten's calls. decomposition_table, pre_dispatch: as of ``make_fx``.

    Raises:
        Unsupported (a RuntimeError): ``f`` is not one graph, as where it branches on the values of tensors.
        NotImplementedError: ``dynamic_shapes`` or ``constraints``; ``torch.export.export`` takes them.

    >>> import torchlike as torch
    >>> module, _ = torch._dynamo.export(torch.nn.ReLU())(torch.zeros(2))
    >>> module(torch.ones(3)), [node.op for node in module.graph.nodes]
    (tensor([1., 1., 1.]), ['placeholder', 'call_function', 'output'])
    """
    if dynamic_shapes is not None or constraints is not None:
        raise NotImplementedError(
            "torch._dynamo.export(dynamic_shapes=...): graphs have the example's sizes; use torch.export.export"
        )
    if not aten_graph and (decomposition_table is not None or pre_dispatch):
        raise AssertionError("torch._dynamo.export: decomposition_table and pre_dispatch need aten_graph=True")

    def of_examples(*args: Any, **kwargs: Any) -> ExportResult:
        names, values = _bound(f, args, kwargs)
        module, spec, out_spec, leaves = _flat(f, args, kwargs, values)
        if aten_graph:
            module = make_fx(module, decomposition_table, pre_dispatch=pre_dispatch)(*leaves)
        module.graph.set_codegen(PyTreeCodeGen(PyTreeInfo(names, spec, out_spec)))
        module.recompile()
        return ExportResult(module, set())

    return of_examples(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else of_examples


def _bound(f: Callable, args: tuple, kwargs: dict) -> tuple[list[str], tuple]:
    """Names and values of the arguments that are given, also of each one that ``*`` and ``**`` collect."""
    found = inspect.signature(f.forward if isinstance(f, Module) else f)
    given: dict[str, Any] = {}
    for name, value in found.bind(*args, **kwargs).arguments.items():
        kind = found.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            given |= {f"{name}_{i}": x for i, x in enumerate(value)}
        else:
            given |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return list(given), tuple(given.values())


def _flat(f: Callable, args: tuple, kwargs: dict, values: tuple) -> tuple[GraphModule, Any, Any, list]:
    """The module of the leaves of the arguments, how they and the results are put together, and the leaves."""
    caught: list[tuple[GraphModule, list, tuple]] = []

    def keep(graph: GraphModule, inputs: list) -> Callable:
        outs = tuple([node.meta["example_value"] for node in graph.graph.output_node().args[0]])
        caught.append((graph, inputs, outs))
        return lambda *_: outs

    result = compile(f, backend=keep, fullgraph=True)(*args, **kwargs)
    leaves, spec = pytree.tree_flatten(values)
    results, out_spec = pytree.tree_flatten(result)
    graph, inputs, outs = caught[0] if caught else (GraphModule({}, Graph()), [], ())
    return _Joined(graph.graph, inputs, outs, leaves).module(results), spec, out_spec, leaves


class _Joined:
    """A graph anew, with a placeholder for each leaf of the arguments and an attribute for each other tensor."""

    def __init__(self, graph: Graph, inputs: list, outs: tuple, leaves: list) -> None:
        self.graph, self.held = Graph(), {}  # type: ignore[var-annotated]
        self.known: dict[int, Node] = {}
        copied: dict[Node, Node] = {}
        for i, leaf in enumerate(leaves):
            self.known.setdefault(id(leaf), self.graph.placeholder(f"arg{i}"))
        nodes = list(graph.nodes)
        for node, tensor in zip([n for n in nodes if n.op == "placeholder"], inputs, strict=True):
            copied[node] = self.node(tensor, node.name)
        for node in nodes:
            if node.op not in ("placeholder", "output"):
                copied[node] = self.graph.node_copy(node, copied.__getitem__)
        if outs:
            last = graph.output_node().args[0]
            self.known |= {id(t): copied[n] for t, n in zip(outs, last, strict=True)}  # type: ignore[arg-type,index]

    def node(self, tensor: Tensor, name: str) -> Node:
        """Where a tensor is in the graph; one from outside becomes an attribute."""
        if id(tensor) not in self.known:
            self.held[name] = tensor
            self.known[id(tensor)] = self.graph.get_attr(name)
        return self.known[id(tensor)]

    def module(self, results: list) -> GraphModule:
        """The module that gives these results, tensors or not."""
        self.graph.output([self.node(x, f"kept{i}") if isinstance(x, Tensor) else x for i, x in enumerate(results)])
        return GraphModule(self.held, self.graph)
