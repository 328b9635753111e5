"""torch.fx.experimental.const_fold: what a graph computes of parameters alone, computed once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.fx._symbolic_trace import symbolic_trace
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node
from torchlike.fx.passes.split_module import split_module
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.container import ParameterList
from torchlike.nn.modules.module import Module
from torchlike.nn.parameter import Parameter

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

__getattr__ = missing_names(__name__)

_AFFIX = "const_fold"  # of the two parts, 0 for what is constant


class FoldedGraphModule(GraphModule):
    """A module whose constant part runs once, before the first call, and leaves its results as parameters.

    Args:
        root, graph: as in GraphModule. const_subgraph: the graph of the constant part.
        fx_const_folded_attrs_name: where ``graph`` looks the results up.
        device_for_folded_attrs: where numbers among them go.
    """

    def __init__(
        self,
        root: Module,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._fold()
        return super().__call__(*args, **kwargs)

    def _fold(self) -> None:
        if self.const_subgraph_module is not None and not self.has_folding_been_run:
            self.run_folding()

    def run_folding(self) -> None:
        """Run the constant part, if there is one. The first call of the module does, if this was not called.

        Raises:
            AssertionError: it has run. AttributeError: a result is no tensor and no integer.
        """
        name = self.fx_const_folded_attrs_name
        if self.const_subgraph_module is None or name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        results = self.const_subgraph_module()
        if isinstance(getattr(self, name, None), ParameterList):
            setattr(self, name, ParameterList([self._parameter(r) for r in results]))
        elif hasattr(self, name):
            setattr(self, name, self._parameter(results))
        self.has_folding_been_run = True

    def _parameter(self, value: Any) -> Parameter:
        if isinstance(value, int):  # PyTorch makes one float of it
            return Parameter(_numbers(value).to(self.device_for_folded_attrs), requires_grad=False)
        if not hasattr(value, "detach"):
            raise AttributeError(
                f"'{type(value).__name__}' object has no attribute 'detach': what is folded must be a tensor or an "
                "integer; leave it out by skip_folding_node_fn"
            )
        return Parameter(value.detach(), requires_grad=value.requires_grad)

    # Copies are plain GraphModules, which would never fold.
    def __copy__(self) -> GraphModule:
        self._fold()
        return super().__copy__()

    def __reduce__(self) -> tuple:
        self._fold()
        return super().__reduce__()


def _numbers(*values: int) -> Tensor:
    return Tensor(list(values))  # type: ignore[call-arg]


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """The name, as an identifier that is no attribute of the module: with a number behind it where it is.

    >>> import torchlike as torch
    >>> get_unique_attr_name_in_module(torch.fx.symbolic_trace(torch.nn.ReLU()), "forward")
    'forward_1'
    """
    name = re.sub("[^0-9a-zA-Z_]", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        stem, _, number = name.rpartition("_")
        name = f"{stem}_{int(number) + 1}" if stem and number.isdecimal() else f"{name}_1"
    return name


def split_const_subgraphs(
    module: Module | GraphModule,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """The module with what it computes of parameters alone computed once, by :meth:`FoldedGraphModule.run_folding`.

    Args:
        module: is traced, unless it has a graph. skip_folding_node_fn: says which steps are not to be folded.
        device_for_folded_attrs: where integers that are folded go.

    Raises NotImplementedError if the paths of two submodules differ in dots and underscores alone.

    >>> import torchlike as torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.w = torch.nn.Parameter(torch.ones(2))
    ...     def forward(self, x):
    ...         return x + self.w * 3
    >>> folded = split_const_subgraphs(Net())
    >>> print(folded.code.strip())
    def forward(self, x):
        _fx_const_folded_attrs = self._FX_CONST_FOLDED_ATTRS
        add = x + _fx_const_folded_attrs;  x = _fx_const_folded_attrs = None
        return add
    >>> folded(torch.zeros(2))
    tensor([3., 3.], grad_fn=<AddBackward0>)
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_steps(traced, skip_folding_node_fn)
    if all(node.op == "get_attr" for node in constant):
        return FoldedGraphModule(traced, traced.graph)
    _check_paths(traced)
    split = split_module(traced, module, lambda node: 0 if node in constant else 1, partition_affix=_AFFIX)
    calls = {str(node.target): node for node in split.graph.nodes if node.op == "call_module"}
    for path in calls:
        part = getattr(split, path)
        for node in part.graph.find_nodes(op="call_module"):
            setattr(split, str(node.target), getattr(part, str(node.target)))
    paths = [f"submod_{_AFFIX}_{part}" for part in (0, 1)]
    const_graph = _looking_up(getattr(split, paths[0]).graph, calls[paths[0]])
    attribute = get_unique_attr_name_in_module(split, "_FX_CONST_FOLDED_ATTRS")
    _look_up_results(split, calls[paths[0]], attribute, const_graph)
    if paths[1] in calls:
        _inline(getattr(split, paths[1]).graph, calls[paths[1]])
    for node in split.graph.find_nodes(op="get_attr"):
        if not node.users:
            split.graph.erase_node(node)
    split.graph.lint()
    return FoldedGraphModule(split, split.graph, const_graph, attribute, device_for_folded_attrs)


def _constant_steps(traced: GraphModule, skip: Callable[[Node], bool] | None) -> set[Node]:
    """The steps that depend on no argument and do no more than compute a value."""
    constant: set[Node] = set()
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output") or not constant.issuperset(node.all_input_nodes):
            continue
        if (skip is None or not skip(node)) and (node.op == "get_attr" or not node.is_impure()):
            constant.add(node)
    return constant


def _check_paths(traced: GraphModule) -> None:
    """Refuse submodules that split_module would give one name, or that of an attribute."""
    taken = {str(n.target).partition(".")[0]: "" for n in traced.graph.find_nodes(op="get_attr")}
    for node in traced.graph.find_nodes(op="call_module"):
        path, name = str(node.target), str(node.target).replace(".", "_")
        other = taken.get(name, path)
        if other != path and (other or path != name):
            raise NotImplementedError(
                f"split_const_subgraphs: the module {path} would be {name}, which is there; rename one of them"
            )
        taken[name] = path


def _looking_up(graph: Graph, call: Node) -> Graph:
    """The graph of the constant part without arguments: they are attributes."""
    for placeholder, given in zip(graph.find_nodes(op="placeholder"), call.args, strict=True):
        assert isinstance(given, Node)
        with graph.inserting_before(placeholder):
            made = graph.create_node("get_attr", given.target, type_expr=given.type)
        made.meta = placeholder.meta.copy()
        placeholder.replace_all_uses_with(made)
        graph.erase_node(placeholder)
    return graph


def _look_up_results(split: GraphModule, call: Node, attribute: str, const_graph: Graph) -> None:
    """Have the results of the constant part looked up in place of its call; until it has run they are empty."""
    results = const_graph.output_node().args[0]
    if call.users:
        setattr(split, attribute, ParameterList() if isinstance(results, tuple) else Parameter(_numbers()))
        with split.graph.inserting_before(call):
            call.replace_all_uses_with(split.graph.get_attr(attribute))
    split.graph.erase_node(call)


def _inline(graph: Graph, call: Node) -> None:
    """Put the steps of a part in the place of its call."""
    values: dict[Node, Node] = {}
    for placeholder, given in zip(graph.find_nodes(op="placeholder"), call.args, strict=True):
        assert isinstance(given, Node)
        values[placeholder] = given
        given.meta = given.meta or placeholder.meta.copy()
    with call.graph.inserting_before(call):
        results: Any = call.graph.graph_copy(graph, values)
    if isinstance(results, Node):
        call.replace_all_uses_with(results)
    else:
        for item in list(call.users):
            item.replace_all_uses_with(results[item.args[1]])  # type: ignore[index]
            call.graph.erase_node(item)
    call.graph.erase_node(call)
