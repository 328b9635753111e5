"""torch.fx.passes.dialect.common.cse_pass: what is computed twice is computed once."""

from typing import Any

from torchlike._aten.packets import ops
from torchlike.fx.graph import Graph
from torchlike.fx.graph_module import GraphModule
from torchlike.fx.node import Node, map_arg
from torchlike.fx.passes.infra.pass_base import PassBase, PassResult
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree import tree_flatten

__getattr__ = missing_names(__name__)

_DRAWS = ("dropout", "rand", "rand_like", "randn", "randn_like", "randint", "randperm", "bernoulli", "multinomial",
          "normal", "native_dropout", "empty", "empty_like", "new_empty")  # fmt: skip


def get_CSE_banned_ops() -> set[Any]:
    """The operators whose results differ from call to call."""
    return {getattr(ops.aten, name) for name in _DRAWS if hasattr(ops.aten, name)}


class CSEPass(PassBase):
    """Replaces steps of a graph of aten calls that compute the same by the first of them.

    Args:
        banned_ops: operators that are left.

    >>> import torchlike as torch
    >>> from torchlike.fx.experimental.proxy_tensor import make_fx
    >>> from torchlike.fx.passes.dialect.common.cse_pass import CSEPass
    >>> traced = make_fx(lambda x: x.cos() + x.cos())(torch.ones(2))
    >>> [node.name for node in CSEPass()(traced).graph_module.graph.nodes]
    ['x_1', 'cos', 'add', 'output']
    """

    def __init__(self, banned_ops: Any = None) -> None:
        self.banned_ops = set() if banned_ops is None else set(banned_ops)

    def call(self, graph_module: GraphModule) -> PassResult:
        """The module with a new graph, and whether anything was computed twice."""
        made, copies, known, changed = Graph(), {}, {}, False  # type: ignore[var-annotated]
        banned = self.banned_ops | get_CSE_banned_ops()
        for node in graph_module.graph.nodes:
            packet = getattr(node.target, "overloadpacket", node.target)
            if node.op in ("placeholder", "output", "get_attr") or packet in banned or node.is_impure():
                copies[node] = made.node_copy(node, lambda n: copies[n])
                continue
            key = _key(node, copies)
            if key in known:
                copies[node], changed = known[key], True
                continue
            copies[node] = known[key] = made.node_copy(node, lambda n: copies[n])
        made._codegen = graph_module.graph._codegen
        return PassResult(GraphModule(graph_module, made), changed)


def _key(node: Node, copies: dict[Node, Node]) -> Any:
    leaves, structure = tree_flatten(map_arg((node.args, node.kwargs), lambda n: copies[n]))
    return node.target, str(structure), tuple([(type(x), id(x) if isinstance(x, Node) else repr(x)) for x in leaves])
