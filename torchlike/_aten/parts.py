"""The node of an operator that PyTorch composes, as the nodes of its parts: what a ``__torch_dispatch__`` sees of it.

The parts are recorded when a backward comes to the node, by the calls that the operator is in forward (``aten=`` of
declarations, ``lowered.py``), on what the node has saved and with its own edges; the engine runs them in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._aten import lower
from torchlike._aten import python_dispatch as layer
from torchlike._base import state as flags
from torchlike._base.dtypes import FROM_NP
from torchlike._base.state import state
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.tensor.tensor import Tensor, alias, value_of, wrap
from torchlike._decl.op import Op, ViewOp
from torchlike._executor import immediate

_Pairs = list[tuple[Any, Any]]


def of(node: Any, grads: list) -> _Pairs | None:
    """(edge, gradient) of each result as its parts make it; None where the node is one call, or is not to be parted."""
    plan = node.plan
    op = plan.op
    if not isinstance(op, Op) or isinstance(op, ViewOp) or plan.refuses or state.trace is not None or state.levels:
        return None
    compose = lower.composition(op)
    if compose is None or getattr(node, "given", None) is not None or not _told(plan) or lower.NAMED[0](plan):
        return None
    inputs = _inputs(node, grads)
    if any(layer.has_dispatch(type(x)) for x in inputs):
        return None
    try:
        with _recording():
            out = compose(*lower.arguments(op, inputs, plan.static).values())
    except (RuntimeError, TypeError, ValueError, IndexError):  # of values that stand for others
        return None
    outs = list(out) if isinstance(out, list | tuple) else [out]
    pairs = [(outs[i]._edge, grads[i]) for i in plan.diff if _fits(outs, i, plan)]
    found = [(edge, grad) for edge, grad in pairs if edge is not None]
    return found if found and len(pairs) == len(plan.diff) and not _same(found, node) else None


def _told(plan: Any) -> bool:
    """Whether the saved inputs tell the parts: where results are saved instead, an input may be missing."""
    tensors = [i for i in plan.tensors if plan.avals[i] is not None]
    return not plan.outputs or set(plan.inputs).issuperset(tensors)


def _inputs(node: OpNode, grads: list) -> tuple:
    """The inputs of the call, at its edges; zeros for tensors of which only the shape matters."""
    plan = node.plan
    edges = dict(zip(plan.wanted, node._edges, strict=True))
    saved = {i: node._kept_tensor(at) for at, i in enumerate(plan.inputs)} if node._kept else {}
    like = [value_of(g) for g in grads if g is not None]
    found = []
    for i, aval in enumerate(plan.avals):
        x = saved.get(i)
        if x is None and aval is not None:
            zeros = i in plan.tensors
            x = wrap(immediate.zeros_beside(aval.shape, aval.dtype, like)) if zeros else 1
        if isinstance(x, Tensor):
            x = x if layer.has_dispatch(type(x)) else alias(x)
            if i in edges and type(x) is Tensor:
                x._edge, x._rg = edges[i], True
        found.append(x)
    return tuple(found)


@contextmanager
def _recording() -> Iterator[None]:
    """Calls are recorded, and nobody looks on."""
    grad, off, autocast = state.grad, state.overrides_off, state.active & flags.AUTOCAST
    state.active &= ~flags.AUTOCAST
    with layer.modes_set_to(()), layer.above_autograd():
        state.grad, state.overrides_off = True, 2
        try:
            yield
        finally:
            state.grad, state.overrides_off = grad, off
            state.active |= autocast


def _fits(outs: list, i: int, plan: Any) -> bool:
    out, aval = outs[i] if i < len(outs) else None, plan.outs[i]
    return isinstance(out, Tensor) and tuple(out.shape) == tuple(aval.shape) and out.dtype is FROM_NP[aval.dtype]


def _same(pairs: _Pairs, node: OpNode) -> bool:
    """Whether the parts are the operator itself, under another overload."""
    return any(isinstance(n, OpNode) and n.plan.op is node.plan.op for n in nodes([e[0] for e, _ in pairs], node))


def nodes(roots: list, node: OpNode) -> list:
    """The parts' own nodes: those above the edges of the node that they stand for."""
    ends = {edge[0] for edge in node._edges if edge is not None}
    found = {n: None for n in roots if n not in ends}
    stack = list(found)
    for at in stack:  # which grows
        for edge in at._edges:
            if edge is not None and edge[0] is not None and edge[0] not in ends and edge[0] not in found:
                found[edge[0]] = None
                stack.append(edge[0])
    return stack


__all__ = ["nodes", "of"]
