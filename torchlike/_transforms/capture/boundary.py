"""The graph of a program's outputs: one node, whose backward is the second half of the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.saved_tensors import FREED, PackedValues, SavesTensors, packs
from torchlike._core.tensor.tensor import wrap
from torchlike._decl.derive import Derived
from torchlike._executor import immediate

if TYPE_CHECKING:
    from torchlike._core.typed import Edge, Grads


class CompiledFunctionBackward(nodes.Node):
    """The history of what a compiled function returned.

    Attributes:
        program: maps residuals and gradients of the roots to those of ``_edges``; None if the function ran
            backward itself and freed its graph. residuals: what the first half left for it, PackedValues
            where hooks have taken it.
        metas: (shape, dtype) of each root.
    """

    __slots__ = ("program", "residuals", "metas", "_arity")

    def __init__(
        self, program: Callable[..., Any] | None, residuals: Any, metas: Sequence[Any], edges: list[Any]
    ) -> None:
        self.program, self.metas, self._edges = program, metas, edges
        self.residuals = PackedValues(residuals) if residuals is not None and packs() else residuals
        self._arity, self._seq, self._ex = len(metas), nodes.next_sequence(), None
        if nodes.WATCHERS:
            nodes.watch(self)

    def _outs(self) -> Any:
        return self.metas

    def _release(self) -> None:
        self.residuals = None

    def apply(self, grads: Grads) -> Any:
        pairs = zip(grads, self.metas, strict=True)
        seeds = [immediate.zeros(m.shape, m.dtype) if g is None else g for g, m in pairs]
        return self.program(self._kept(), seeds)

    def _kept(self) -> Any:
        if self.residuals is None:
            raise RuntimeError(FREED)
        return self.residuals.unpacked(self) if type(self.residuals) is PackedValues else self.residuals

    def _apply_tensors(self, grads: Grads, call: Callable[..., Any], made_by: Edge = None) -> list[Any]:
        """Below transforms; what it gives has no history."""
        if state.grad:
            raise RuntimeError(self._refusal)
        residuals = self._kept()
        n = len(residuals)
        pairs = zip(grads, self.metas, strict=True)
        seeds = [wrap(immediate.zeros(m.shape, m.dtype)) if g is None else g for g, m in pairs]
        run = Derived("compiled_backward", self.name(), lambda *v: tuple(self.program(list(v[:n]), list(v[n:]))))
        return list(call(run, (*map(wrap, residuals), *seeds), ()))

    _refusal = (
        "torch.compile does not support double backward: the backward of a compiled function is not recorded; call "
        "torch.autograd.grad inside the compiled function"
    )


def explore(roots: Sequence[Any], start: int, older: Collection[Any] = ()) -> tuple[list[tuple[Any, int]], bool]:
    """(sinks, freed): the edges at which the graph below ``roots`` leaves the trace, and whether it was freed.

    Nodes numbered below ``start``, and those of ``older``, existed before; leaves are sinks too.
    """
    sinks, seen, stack = {}, set(), [edge for edge in roots if edge is not None]
    freed = False
    while stack:
        edge = stack.pop()
        node = edge[0]
        if node is None:
            continue
        if isinstance(node, nodes.AccumulateGrad) or node._seq < start or node in older:
            sinks[edge] = None
            continue
        if node in seen:
            continue
        seen.add(node)
        freed = freed or (isinstance(node, SavesTensors) and node._kept is None)
        stack.extend(e for e in node._edges if e is not None)
    return list(sinks), freed
