"""A backward that a ``__torch_dispatch__`` sees: gradients travel as tensors, each step as aten calls."""

from contextlib import nullcontext
from heapq import heappop, heappush
from itertools import repeat
from sys import getrefcount
from typing import Any

from torchlike._aten import parts
from torchlike._aten import python_dispatch as layer
from torchlike._aten.lower import GRADIENTS, MULTIPLIES, Later, redispatch
from torchlike._aten.packets import ops
from torchlike._base import state as flags
from torchlike._base.dtypes import FROM_NP
from torchlike._base.layout import contiguous_strides, is_dense
from torchlike._base.state import state
from torchlike._core.autocast.layer import cast
from torchlike._core.autograd import anomaly, engine
from torchlike._core.autograd.operator_node import OpNode, absent
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import CopySlices, demand_writable
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.tensor.mutation import grad_of, set_grad
from torchlike._core.tensor.tensor import (
    Tensor,
    alias,
    contiguous_format,
    preserve_format,
    strided,
)
from torchlike._decl.derive import results_of
from torchlike._executor.references import ONE

_aten = ops.aten


def wanted() -> bool:
    """Whether a backward that begins now is to be shown."""
    return bool(state.dispatch_modes) or layer.wrappers_alive()


class _Delayed:
    """Takes the place of a node in the queue: a gradient to be computed when its turn comes."""

    __slots__ = ("later", "edge")

    def __init__(self, later: Later, edge: tuple) -> None:
        self.later, self.edge = later, edge


class ShownTask(engine._Task):
    """A backward pass through dispatch."""

    __slots__ = ("holders", "alone")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.create = True  # gradients are tensors
        self.holders: dict[int, int] = {}  # how many buffers hold a gradient
        self.alone = False  # whether nobody else holds the first gradient of the node that runs

    def deliver(self, node: Any, nr: int, grad: Any) -> None:
        before = self.buffers.get(node)
        if before is not None:
            self._count(before[nr], -1)
        super().deliver(node, nr, grad)
        self._count(self.buffers[node][nr], 1)

    def _count(self, grad: Any, by: int) -> None:
        """Note that one buffer more, or less, holds ``grad``."""
        if grad is not None:
            n = self.holders.get(id(grad), 0) + by
            if n > 0:
                self.holders[id(grad)] = n
            else:
                self.holders.pop(id(grad), None)

    def run(self) -> None:
        ready, pushed = self.ready, len(self.ready)
        while ready:
            node = heappop(ready)[2]
            self.node = None
            if isinstance(node, _Delayed):
                pairs = [(node.edge, node.later.compute())]
            elif node in self.ends:
                if node in self.buffers and node in self.wanted:
                    self.capture(node, self.wanted[node], self.buffers.pop(node))
                continue
            else:
                pairs = self._results(node)
            for edge, grad in pairs:
                if edge is None or edge[0] is None:
                    continue
                target, nr = edge
                pushed += 1
                if isinstance(grad, Later):
                    heappush(ready, (-(node._seq - grad.rank / 8), pushed, _Delayed(grad, edge)))
                    continue
                if grad is not None:
                    self.deliver(target, nr, self.fitting(target, nr, grad, node))
                self.awaited[target] -= 1
                if not self.awaited[target]:
                    heappush(ready, (-target._seq, pushed, target))
            pairs, grad = [], None  # what is held here would count as somebody else's
        self.node = None

    def _results(self, node: Any) -> list:
        """(edge, gradient) of all that the node leads to."""
        grads = self.buffers.pop(node, None)
        if self.needed is not None and node not in self.needed:
            got = None
        elif grads is None:
            got = None if node._is_quiet() else self.step(node, [None] * node._arity)
        else:
            self._left(grads)
            pairs = self._parts(node, grads)
            if pairs is not None:
                return pairs
            got = self.step(node, grads)
        return list(zip(node._edges, got or repeat(None), strict=False))

    def _left(self, grads: list) -> None:
        """Note that these gradients have left their buffers."""
        for g in grads:
            self._count(g, -1)
        g = None  # which would count
        notes = state.dispatch_modes and not any([getattr(mode, "keeps", True) for mode in state.dispatch_modes])
        self.alone = bool(notes) or next(map(getrefcount, grads)) == ONE

    def _parts(self, node: Any, grads: list) -> list | None:
        """What leads to the nodes that stand for this one, if there are several; they are awaited from now on."""
        simple = isinstance(node, OpNode) and not self.record and not node._ex and node not in self.wanted
        pairs = parts.of(node, grads) if simple and not anomaly.current.enabled else None
        if pairs is None:
            return None
        made = parts.nodes([edge[0] for edge, _ in pairs], node)
        for edge in [e for n in made for e in n._edges if e is not None] + [edge for edge, _ in pairs]:
            if edge[0] is not None:
                self.awaited[edge[0]] = self.awaited.get(edge[0], 0) + 1
        if self.needed is not None:
            for n in sorted(made, key=lambda n: n._seq):  # so that what a node leads to is known before it
                if any(e is not None and e[0] in self.needed for e in n._edges):
                    self.needed.add(n)
        if not self.keep:
            node._release()
        return pairs + [(edge, None) for edge in node._edges]

    def apply(self, node: Any, grads: list) -> Any:
        if state.levels:  # a formula's calls would pass the transforms by, which see the whole kernel
            return _through(node, grads) if isinstance(node, OpNode) else node._apply_tensors(grads, call)
        if isinstance(node, OpNode) and not self.record and not (node._ex or {}).get("hooks"):
            got = _by_formula(node, grads)
            if got is not None:
                return got
        if isinstance(node, CopySlices):
            return _copy_slices(node, grads)
        if isinstance(node, OpNode):
            return _through(node, grads)
        return node._apply_tensors(grads, call)

    def accumulate_into(self, leaf: Any, grad: Any) -> None:
        with engine.adding:
            old = grad_of(leaf)
            if old is None:
                set_grad(leaf, self.first_gradient(leaf, grad))
            elif self.record:
                set_grad(leaf, redispatch(_aten.add.Tensor, old, grad))
            else:
                if type(old) is Tensor:
                    demand_writable(old)
                redispatch(_aten.add_.Tensor, old, grad)

    def first_gradient(self, leaf: Any, grad: Any) -> Any:
        if self.record:
            return super().first_gradient(leaf, grad)
        if self._is_free(leaf, grad):
            return grad.detach()
        sizes, strides = list(grad.shape), list(grad.stride())
        if is_dense(leaf._layout):
            strides = list(leaf.stride())
        options = {"dtype": grad.dtype, "layout": strided, "device": grad.device}
        new = redispatch(_aten.new_empty_strided.default, grad, sizes, strides, **options)
        redispatch(_aten.copy_.default, new, grad)
        return new

    def _is_free(self, leaf: Any, grad: Any) -> bool:
        """Whether ``grad`` itself may become ``.grad``: it is dense, in the leaf's order, and nobody else's."""
        if not self.alone or self.holders.get(id(grad), 0) > 0 or not is_dense(grad._layout):
            return False
        if not is_dense(leaf._layout):
            return True
        strides = zip(grad.stride(), leaf.stride(), grad.shape, strict=True)
        return all(ours == theirs for ours, theirs, n in strides if n != 1)


def _saved(node: OpNode) -> list:
    """The saved values as tensors with history; results are detached anew, as PyTorch does."""
    kept = node._kept or ()
    found: list = [None] * len(kept)
    for i in _in_turn(node, len(kept)):
        whole, own = node._kept_tensor(i), node._output_of(i)
        # in a level it has history below; a wrapper is what its class makes of it there, too
        if (
            own in node.plan.diff
            and isinstance(kept[i], Tensor)
            and (not state.levels or layer.has_dispatch(type(kept[i])))
        ):
            whole = layer.invoke(_aten.detach.default, (kept[i],), {})
            whole = alias(whole, type(whole)) if whole is kept[i] else whole
            whole._edge, whole._rg = (node, own), True
        found[i] = whole
    if node._kept is None:
        node.tensors()  # raises that they were freed
    return found


def _in_turn(node: OpNode, n: int) -> list[int]:
    """The positions of saved values in PyTorch's order: results by their names."""
    inputs = len(node.plan.inputs)
    if n - inputs < 2:
        return list(range(n))
    results = results_of(node.plan.op.declaration, len(node.plan.outs))
    return [*range(inputs), *sorted(range(inputs, n), key=lambda i: results[node.plan.outputs[i - inputs]])]


def _arguments(node: OpNode, grads: list) -> tuple:
    """What the backward kernel takes: saved values, and gradients, zeros for those that did not arrive."""
    values = _saved(node)
    for i in node.plan.diff:
        values.append(_absent(node.plan.outs[i], grads) if grads[i] is None else grads[i])
    return tuple(values)


def _absent(out: Any, grads: list) -> Tensor:
    zeros = absent(out, grads)
    return zeros if state.trace is None or type(zeros) is not Tensor else state.trace.known(zeros)


def _by_formula(node: OpNode, grads: list) -> list | None:
    """The gradients as the calls of the node's formula, or None."""
    plan = node.plan
    given = getattr(node, "given", None)
    passes = plan.kernel is None and given is None and plan.op.declaration.backward is None
    if passes or not GRADIENTS[0][0](plan, given):
        return None
    grad, state.grad = state.grad, False
    try:
        return _gradients(node, grads)
    finally:
        state.grad = grad


def _gradients(node: OpNode, grads: list) -> list | None:
    """The calls of the node's formula, recorded where autograd is on."""
    missing = [i for i in node.plan.diff if grads[i] is None]
    return GRADIENTS[0][1](node.plan, _arguments(node, grads), getattr(node, "given", None), node, missing)


def _through(node: OpNode, grads: list) -> Any:
    """The backward kernel as a call, recorded if the backward is."""
    plan, arguments = node.plan, _arguments(node, grads)
    out = call(plan.kernel, arguments, ()) if plan.kernel else ()
    out = out if isinstance(out, tuple) else (out,)
    return out if plan.route is None else plan.routed(arguments, out)


def _copy_slices(node: CopySlices, grads: list) -> Any:
    """The gradient of a base that a view was written into: the view's part is what the inner call makes of it."""
    layout = (node._ex or {}).get("layout")
    inner = node.inner
    if layout is None or not isinstance(inner, OpNode):
        return node._apply_tensors(grads, call)
    grad = grads[0]
    sizes = list(grad.shape)
    base = redispatch(_aten.new_empty_strided.default, grad, sizes, list(contiguous_strides(tuple(sizes))))
    base = redispatch(_aten.copy_.default, base, grad)
    part = redispatch(_aten.as_strided.default, base, list(layout.shape), list(layout.strides), layout.offset)
    copy = redispatch(_aten.clone.default, part, memory_format=contiguous_format)
    got = _by_formula(inner, [copy])
    got = list(got if got is not None else _through(inner, [copy]))
    got = [g.compute() if isinstance(g, Later) else g for g in got]
    old = got.pop(node.carries) if node.carries is not None else None
    redispatch(_aten.copy_.default, part, redispatch(_aten.zeros_like.default, part) if old is None else old)
    return [base, *got]


class CastTask(engine._Task):
    """A backward under autocast: matrix products of float32 in formulas are cast, as PyTorch casts them.

    Where forward ran under autocast too, what it saved is of lower precision already, and nothing changes.
    """

    __slots__ = ()
    _quick = False

    def apply(self, node: Any, grads: list) -> Any:
        if isinstance(node, OpNode) and node.plan.kernel is not None and _multiplies(node.plan):
            with layer.above_autograd() if self.create else nullcontext():
                got = self._by_formula(node, [self.tensor(g) for g in grads])
            if got is not None:
                return got
        return super().apply(node, grads)

    def _by_formula(self, node: OpNode, grads: list) -> list | None:
        got = _gradients(node, grads) if self.create else _by_formula(node, grads)
        if got is None:
            return None
        got = [g.compute() if isinstance(g, Later) else g for g in got]
        kinds = [FROM_NP[node.plan.avals[i].dtype] for i in node.plan.wanted]
        return [self.raw(g if g.dtype is d else cast(g, d)) for g, d in zip(got, kinds, strict=True)]


def _multiplies(plan: Any) -> bool:
    """Whether a plan's formula has matrix products, of float32."""
    if plan.multiplies is None:
        _aten.mm  # noqa: B018  (brings what knows formulas)
        plan.multiplies = MULTIPLIES[0](plan)
    return plan.multiplies


def seed(root: Any) -> Any:
    """The gradient 1 of a root."""
    grad = redispatch(_aten.ones_like.default, root, pin_memory=False, memory_format=preserve_format)
    if grad is None:
        raise RuntimeError(
            "element 0 of gradients tuple is None, but the corresponding Tensor requires grad: a __torch_dispatch__ "
            "returned None for aten::ones_like"
        )
    return grad


def _task() -> tuple | None:
    """The kind of task for a backward that begins now, and its seed, if it is shown."""
    if state.dispatch_modes or layer.wrappers_alive():
        return ShownTask, seed
    return (CastTask, None) if state.active & flags.AUTOCAST else None


DISPATCH.task = _task
