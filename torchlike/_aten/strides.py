"""How the elements of a node's input lay when it was called, where the node it comes from tells."""

from typing import Any

from torchlike._base.layout import contiguous_strides
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.tensor.tensor import wrap
from torchlike._decl.op import ViewOp
from torchlike._executor.immediate import Abstract

_SAME = frozenset(["_conj", "_neg_view", "alias", "view_as"])  # views that leave the strides as they are


def _strides(edge: Any) -> Any:
    """The strides of the tensor that an edge comes from; None where nothing tells them."""
    node = edge[0]
    leaf = getattr(node, "variable", None)
    if leaf is not None:
        return leaf._layout.strides
    if not isinstance(node, OpNode) or not isinstance(node.plan.op, ViewOp):
        return None
    op, base = node.plan.op, node.plan.avals[0]
    inner = None if node._edges[0] is None else _strides(node._edges[0])
    if op.name in _SAME:
        return inner
    if inner is not None and tuple(inner) != contiguous_strides(base.shape):
        return None
    layout, *_ = op.prepare(wrap(Abstract(base.shape, base.dtype)), *node.given)
    return layout[1]


def by_columns(node: Any, i: int) -> bool:
    """Whether the elements of input ``i``, a matrix, lay column by column."""
    edge = None if node is None else dict(zip(node.plan.wanted, node._edges, strict=True)).get(i)
    strides = None if edge is None else _strides(edge)
    if strides is None or len(strides) != 2:
        return False
    rows, columns = node.plan.avals[i].shape
    return tuple(strides) == (1, rows) and tuple(strides) != contiguous_strides((rows, columns))


__all__ = ["by_columns"]
