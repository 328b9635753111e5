"""torch.fx.experimental.optimization: networks changed for inference."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, NoReturn

from torchlike.fx._symbolic_trace import Tracer, symbolic_trace
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.interpreter import Transformer
from torchlike.fx.node import Argument, Node, Target
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from torchlike.nn.modules.conv import Conv1d, Conv2d, Conv3d
from torchlike.nn.modules.dropout import Dropout
from torchlike.nn.modules.module import Module
from torchlike.nn.utils.fusion import fuse_conv_bn_eval

__all__ = [
    "UnionFind", "extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference", "remove_dropout",
    "replace_node_module",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_PAIRS = ((Conv1d, BatchNorm1d), (Conv2d, BatchNorm2d), (Conv3d, BatchNorm3d))


def _parent_name(target: str) -> tuple[str, str]:
    """The path of a module's parent, and its name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a step calls a module of the second class with the result of a module of the first.

    Args:
        pattern: two classes. modules: the modules by path.
    """
    if not node.args or not isinstance(node.args[0], Node):
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=True):
        if current.op != "call_module" or not isinstance(current.target, str) or current.target not in modules:
            return False
        if type(modules[current.target]) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Put ``new_module`` in the place of the module that a step calls."""
    parent, name = _parent_name(str(node.target))
    modules[str(node.target)] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """The network with each batch normalization folded into the convolution before it, for inference.

    Args:
        model: in eval mode. inplace: change its modules. no_trace: it is a GraphModule already.

    Raises:
        NotImplementedError: a batch normalization without running statistics.

    >>> import torchlike as torch
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).eval()
    >>> fused = torch.fx.experimental.optimization.fuse(net)
    >>> [type(m).__name__ for m in fused.children()]
    ['Conv2d']
    """
    model = model if inplace else copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pattern in _PAIRS:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, bn = modules[node.args[0].target], modules[node.target]
            if not bn.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, bn))
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: Module) -> Module:
    """The network without its Dropout modules."""
    traced = symbolic_trace(model)

    class Without(Transformer):
        def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
            if isinstance(self.submodules[str(target)], Dropout):
                return args[0]
            return super().call_module(target, args, kwargs)

    return Without(traced).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> GraphModule:
    """A module of some steps of a graph.

    Args:
        orig_module: what the names in them are of. nodes: the steps, in their order.
        inputs, outputs: the steps whose values it takes and gives.
    """
    graph = Graph()
    made: dict[Node, Node] = {n: graph.placeholder(n.name) for n in inputs}
    for node in nodes:
        made[node] = graph.node_copy(node, lambda n: made[n])
    graph.output([made[n] for n in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


class UnionFind:
    """Sets of numbers below ``n`` that can be joined."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v: int) -> None:
        """Make ``{v}`` a set."""
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The number that stands for the set of ``v``. ValueError if it is in none."""
        above = self.parent[v]
        if above is None:
            raise ValueError(f"{v} is in no set: call make_set first")
        if above != v:
            self.parent[v] = above = self.find(above)
        return above

    def join(self, a: int, b: int) -> int:
        """Join the sets of two numbers; the number that stands for the result."""
        first, second = self.find(a), self.find(b)
        if first == second:
            return first
        if self.size[first] < self.size[second]:
            first, second = second, first
        self.parent[second] = first
        self.size[first] += self.size[second]
        return first


def optimize_for_inference(
    model: Module, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> NoReturn:
    """Raises NotImplementedError: PyTorch's version chooses MKL-DNN layers; use :func:`fuse` and torch.compile."""
    raise NotImplementedError("torch.fx.experimental.optimization.optimize_for_inference: use fuse and torch.compile")
