"""The backward engine: runs the graph from its roots, latest node first.

Without ``create_graph`` gradients travel as plain values (arrays) and nodes apply their plans to
them directly; with it they travel as tensors through dispatch, and so have history themselves.
Hooks always see tensors.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jax

from torchlike._base import exhausted
from torchlike._base.dtypes import from_np
from torchlike._base.layout import is_dense
from torchlike._base.state import UNUSUAL, followed, state
from torchlike._core.autograd import anomaly, values
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd.hook_results import of_leaf_hook, of_node_hook, of_tensor_hook
from torchlike._core.autograd.values import adding, total
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace, demand_writable
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.mutation import grad_of, set_grad, write
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import fresh, value_of, wrap
from torchlike._executor import immediate
from torchlike._executor.pending import Array, Pending
from torchlike._executor.sparse import SparseValue
from torchlike._executor.spread import USED, as_before
from torchlike._ops.arithmetic import add
from torchlike._ops.shape import clone, copy

if TYPE_CHECKING:
    from torchlike._core.autograd.node import AccumulateGrad, Node
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._core.typed import Grads, Shape

_task_ids = itertools.count()
_NOBODY: frozenset = frozenset()
_NOT_ENTERED = object()


def kind_of_task() -> tuple[Any, Any]:
    """The (class, seed) of a backward that begins now; the latter None unless gradients start as tensors."""
    return DISPATCH.task() or (_Task, None)


def run(
    roots: Sequence[Any],
    grads: Grads,
    *,
    keep: bool = False,
    create: bool = False,
    accumulate: bool = True,
    captures: Sequence[Any] = (),
    ends: Iterable[Node] = (),
) -> dict[Any, Any]:
    """Propagate ``grads`` from ``roots`` ((node, output number) each).

    Args:
        grads: one for each root: tensors with ``create``, else plain values.
        keep: retain saved tensors. create: record the backward itself.
        accumulate: whether leaves receive ``.grad``.
        captures: edges whose gradient is wanted; only nodes that lead to them run. ends: nodes at which it ends:
            neither they nor their hooks run, whatever they lead to.
    Returns: {edge: gradient tensor} of the captured edges that a gradient reached.
    """
    task = kind_of_task()[0](roots, keep, create, accumulate, captures, ends)
    if state.levels:  # their values are computed by dispatch
        task.create = True
    if task.create:  # as it also is where modes or wrapper subclasses look on
        grads = [fresh(g) if isinstance(g, jax.Array | Pending) else g for g in grads]
    for (node, nr), grad in zip(roots, grads, strict=True):
        task.deliver(node, nr, task.fitting(node, nr, grad))
    if task.depth % _DEPTH == _DEPTH - 1:
        _in_thread(task, roots)
    else:
        _run(task, roots)
    return task.captured


def run_loss(edge: tuple[Node, int], seed: Any, keep: bool) -> None:
    """As ``run`` from one root, to all leaves and without history: the shortest way."""
    node, nr = edge
    if (UNUSUAL and state.task is not None) or node._ex is not None or node._arity != 1 or anomaly.current.enabled:
        task = _Task((edge,), keep, False, True, ())
        task.deliver(node, nr, seed if node._ex is None else task.fitting(node, nr, seed))
        (_in_thread if task.depth % _DEPTH == _DEPTH - 1 else _run)(task, (edge,))
        return
    task = _OfLoss()
    task.id, task.node, task.callbacks, task.around = next(_task_ids), None, (), _NOT_ENTERED
    task.keep, task.ready, task.buffers, task.awaited = keep, [], {}, _count_below({node: 0})
    try:
        values.run(task, node, [seed])
        for callback in task.callbacks:  # what a callback queues runs too
            callback()
    except exhausted.EXHAUSTED as error:
        raise exhausted.told(error) from None
    finally:
        if task.around is not _NOT_ENTERED:
            state.__dict__.update(grad=task.around, task=None)
            state.task = None


_DEPTH = 20  # backwards within backwards before another thread takes over, with a stack of its own


def _run(task: _Task, roots: Sequence[Any]) -> None:
    """Run the task in this thread, under its grad mode."""
    before = {"grad": state.grad, "task": state.task}
    try:
        state.grad, state.task = task.record, task
        if task.needed is not None:
            task.touch(roots)
        task.run()
        for callback in task.callbacks:  # what a callback queues runs too
            callback()
    except exhausted.EXHAUSTED as error:
        raise exhausted.told(error) from None
    finally:
        state.__dict__.update(before)
        state.task = before["task"]


def _in_thread(task: _Task, roots: Sequence[Any]) -> None:
    """Run the task in a thread that starts from this thread's modes."""
    modes, errors = state.copied(), []

    def body() -> None:
        state.take(modes)
        try:
            _run(task, roots)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def queue_callback(callback: Callable[[], object]) -> None:
    """Call ``callback()`` when the backward that is running has finished."""
    if state.task is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    state.task.callbacks.append(callback)


def is_whole_backward() -> bool:
    """Whether the backward that is running fills ``.grad`` of all leaves: it was given no ``inputs``."""
    return state.task is not None and state.task.accumulate and state.task.needed is None


def count_running(graph_nodes: Iterable[Any]) -> int:
    """How many of these nodes the backward that is running reaches."""
    task = state.task
    reached = task.awaited if task.needed is None else task.needed
    return sum(node in reached and node in task.awaited for node in graph_nodes)


class _Task:
    """One backward pass: what is still awaited, what has arrived.

    ``create``: whether gradients travel as tensors through dispatch. ``record``: whether they get history by it.
    ``ends``: the nodes that are not run, whatever they lead to.
    """

    __slots__ = (
        "keep", "create", "accumulate", "record", "wanted", "captured", "awaited", "needed", "buffers", "ready",
        "id", "depth", "node", "callbacks", "ends", "__weakref__",
    )  # fmt: skip
    _quick = True  # whether a node without hooks needs no more than its own ``apply``

    def __init__(
        self, roots: Sequence[Any], keep: bool, create: bool, accumulate: bool, captures: Sequence[Any],
        ends: Iterable[Node] = (),
    ) -> None:  # fmt: skip
        self.node: Node | None
        self.callbacks: Any = []
        self.id, self.node = next(_task_ids), None
        outer = state.task
        self.depth = 0 if outer is None else outer.depth + 1
        self.keep, self.create, self.accumulate, self.record = keep, create, accumulate, create
        self.captured, self.wanted, self.needed = {}, {}, None
        self.ends = frozenset(ends) if ends else _NOBODY
        self.awaited = awaited = _count_edges(roots, self.ends)
        if captures:
            for node, nr in captures:
                if node is not None:
                    self.wanted.setdefault(node, set()).add(nr)
            self.needed = _leading_to(awaited, self.wanted)
        self.buffers = {}
        # Nodes of one number, which leaves are, run in the order in which they became ready.
        if len(roots) == 1:
            self.ready = [(-roots[0][0]._seq, 0, roots[0][0])]
            return
        roots = [node for node in {node: None for node, _ in roots} if not awaited[node]]
        self.ready = [(-node._seq, i, node) for i, node in enumerate(roots)]
        heapify(self.ready)

    def deliver(self, node: Node, nr: int, grad: Any) -> None:
        """Add a gradient to the buffer of output ``nr`` of ``node``."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = [None] * node._arity
            buffer[nr] = grad
            return
        old = buffer[nr]
        if old is None:
            buffer[nr] = grad
        elif self.create:
            buffer[nr] = call(add, (old, grad, None), ())
        else:
            buffer[nr] = total(old, grad)

    def fitting(self, node: Node, nr: int, grad: Any, source: Node | None = None) -> Any:
        """``grad`` in the shape and dtype of output ``nr`` of ``node``, whose tensor may have others by now.

        ``source``: the node that it comes from. Raises RuntimeError where the shape does not broadcast to that of
        the gradient.
        """
        if node._ex is None or "refits" not in node._ex:
            return grad
        out = node._outs()[nr]
        shape, dtype = tuple(out.shape), getattr(out.dtype, "np", out.dtype)
        if tuple(grad.shape) == shape and dtype == getattr(grad.dtype, "np", grad.dtype):
            return grad
        if not _broadcasts(shape, tuple(grad.shape)):
            where = "" if source is None else f"Function {source.name()} returned an "
            place = 0 if source is None else source.next_functions.index((node, nr))
            raise RuntimeError(
                f"{where}invalid gradient at index {place} - got {list(grad.shape)} but expected shape compatible with "
                f"{list(shape)}"
            )
        return self.raw(self.tensor(grad).sum_to_size(shape).to(from_np(dtype)))

    def run(self) -> None:
        if self.needed is None and not self.create and self._quick and not anomaly.current.enabled:
            values.run(self)
            return
        ready, buffers, awaited, needed = self.ready, self.buffers, self.awaited, self.needed
        pushed, release, wanted = len(ready), not self.keep, self.wanted
        direct = not anomaly.current.enabled  # nodes that nobody watches need no more than ``apply``
        while ready:
            node = heappop(ready)[2]
            grads = buffers.pop(node, None)
            self.node = None
            if node in self.ends:
                if grads is not None and node in self.wanted:
                    self.capture(node, self.wanted[node], grads)
                continue
            if needed is not None and node not in needed:
                results = repeat(None)
            elif grads is None:
                results = repeat(None) if node._is_quiet() else self.step(node, [None] * node._arity) or repeat(None)
            elif direct and node._ex is None and node._simple and node not in wanted:
                self.node = node
                results = self.apply(node, grads)
                if release:
                    node._release()
                if node._ex is not None:
                    results = self.after(node, results, grads)
            elif direct and node._ex is None and node.__class__ is nodes.AccumulateGrad and not self.accumulate:
                leaf = node.variable
                self.captured[node, 0] = self.tensor(self.in_grad_dtype(leaf, grads[0]) if leaf._ex else grads[0])
                continue
            else:
                results = self.step(node, grads) or repeat(None)
            for edge, grad in zip(node._edges, results):  # noqa: B905  (the keyword costs as much as two rounds)
                if edge is None or edge[0] is None:
                    continue
                target, nr = edge
                if grad is not None:
                    self.deliver(target, nr, self.fitting(target, nr, grad, node))
                left = awaited[target] = awaited[target] - 1
                if not left:
                    pushed += 1
                    heappush(ready, (-target._seq, pushed, target))
        self.node = None

    def enter(self) -> None:
        """Let the thread know that this backward runs; ``_run`` has seen to it."""

    def touch(self, roots: Sequence[Any]) -> None:
        """Run the tensor hooks of roots that lead to nothing wanted, as PyTorch does."""
        for node in {node: None for node, _ in roots}:
            if node not in self.needed and node._ex is not None and node not in self.ends:
                self.before(node, node._ex, self.buffers[node])

    def step(self, node: Node, grads: Grads) -> Any:
        """Hooks, captures and the node itself; None where nothing flows on."""
        self.node = node
        try:
            return self._step(node, grads)
        except Exception:
            if anomaly.current.enabled:
                anomaly.explain(node)
            raise

    def _step(self, node: Node, grads: Grads) -> Any:
        if node.__class__ is nodes.AccumulateGrad and node.variable._ex and grads[0] is not None:
            grads = [self.in_grad_dtype(node.variable, grads[0])]
        ex = node._ex
        wanted = self.wanted.get(node)
        goes_on = self.needed is None or self._goes_on(node)
        if wanted is not None and goes_on:  # PyTorch captures before the hooks of a node that will run
            self.capture(node, wanted, grads)
        if ex is not None:
            grads = self.before(node, ex, grads)
        if wanted is not None and not goes_on:
            self.capture(node, wanted, grads)
        if ex is not None and (goes_on or (wanted is not None and self.accumulate)):
            grads = self.prehooked(ex, grads)
        if node.__class__ is nodes.AccumulateGrad:
            if goes_on:
                self.leaf(node, grads)
            return None
        if not goes_on:
            if wanted is not None and self.accumulate:
                self.after(node, [None] * len(node._edges), grads)
            return None
        if node._fills or any(g is not None for g in grads):
            if node._refusals:
                self.demand_derivatives(node)
            watched = anomaly.current.enabled
            results = anomaly.watched(node, self.apply, grads) if watched else self.apply(node, grads)
        else:
            results = [None] * len(node._edges)
        if not self.keep:
            node._release()
        return self.after(node, results, grads) if node._ex is not None else results

    def leaf(self, node: AccumulateGrad, grads: Grads) -> None:
        """Add to the leaf's ``.grad`` (requires_grad may have been switched off since) and run its hooks."""
        if node.variable._rg and grads[0] is not None:
            self.accumulate_into(node.variable, grads[0])
        self.after_accumulation(node, grads)

    def in_grad_dtype(self, leaf: Tensor, grad: Any) -> Any:
        """The gradient in the dtype that the leaf's ``.grad`` was given."""
        dtype = leaf._ex.get("grad_dtype")
        if dtype is None or dtype.np == (grad.dtype.np if self.create else grad.dtype):
            return grad
        return grad.to(dtype) if self.create else immediate.cast(grad, dtype.np)

    def _goes_on(self, node: Node) -> bool:
        """Whether the node itself runs: it adds to a leaf, or leads to what is wanted."""
        if node.__class__ is nodes.AccumulateGrad:
            return self.accumulate and node in self.wanted
        return any(e is not None and e[0] in self.needed for e in node._edges)

    def capture(self, node: Node, wanted: Iterable[int], grads: Grads) -> None:
        for nr in wanted:
            if grads[nr] is not None:
                self.captured[node, nr] = self.tensor(grads[nr])

    def apply(self, node: Any, grads: Any) -> Any:
        if self.create:
            return node._apply_tensors(grads, call)
        if node._python:
            results = node._apply_tensors([None if g is None else _own(g) for g in grads], call)
            return [None if r is None else value_of(r) for r in results]
        return node.apply(grads)

    def tensor(self, grad: Any) -> Any:
        return grad if self.create or grad is None else _own(grad)

    def raw(self, grad: Any) -> Any:
        return grad if self.create or grad is None else value_of(grad)

    # -- hooks -----------------------------------------------------------------------------------
    def before(self, node: Node, ex: dict[str, Any], grads: Grads) -> list[Any]:
        """Tensor hooks, then ``.grad`` of tensors that retain it."""
        grads = list(grads)
        for nr, hooks in list(ex.get("tensor_hooks", {}).items()):
            grad = self.tensor(grads[nr])  # one object for all: a hook may leave attributes on it for the next
            for hook in list(hooks.values()):
                grad = of_tensor_hook(hook, grad)
            grads[nr] = self.raw(grad)
        for nr, ref in list(ex.get("retains", {}).items()):
            t = ref()
            if t is not None and grads[nr] is not None:
                grad = call(clone, (grads[nr],), (None,)) if self.create else _own(grads[nr])
                with adding:
                    old = grad_of(t)
                    set_grad(t, grad if old is None else call(add, (old, grad, None), ()))
        return grads

    def prehooked(self, ex: dict[str, Any], grads: Grads) -> Grads:
        """Prehooks of the node: ``hook(grad_outputs)``, which may replace them."""
        hooks = list(ex.get("prehooks", {}).values())
        given: tuple[Any, ...] = tuple(self.tensor(g) for g in grads) if hooks else ()
        for hook in hooks:
            given = of_node_hook(hook, given, followed(hook)(given))
        return [self.raw(g) for g in given] if hooks else grads

    def after(self, node: Node, results: Any, grads: Grads) -> Grads:
        """Posthooks: ``hook(grad_inputs, grad_outputs)``, which may replace the former."""
        hooks = list(node._ex.get("hooks", {}).values()) if node._ex else ()
        for hook in hooks:
            given = node._spread(self.tensor(r) for r in self.wanted_of(node, results))
            got = of_node_hook(hook, given, followed(hook)(given, tuple(self.tensor(g) for g in grads)))
            results = [self.raw(g) for g in node._gather(got)]
        return results

    def demand_derivatives(self, node: Node) -> None:
        """Raise what the node says of a wanted gradient that it has no derivative for."""
        for position, error in node._refusals.items():
            edge = node._edges[position]
            if edge is not None and (self.needed is None or edge[0] in self.needed):
                raise error

    def wanted_of(self, node: Node, results: Any) -> Grads:
        """The results with None where no captured gradient depends on them."""
        if self.needed is None:
            return results
        return [
            r if edge is not None and edge[0] in self.needed else None
            for r, edge in zip(results, node._edges, strict=True)
        ]

    def after_accumulation(self, node: AccumulateGrad, grads: Grads) -> None:
        ex = node.variable._ex
        for hook in list(ex.get("post_accumulate", {}).values()) if ex else ():
            of_leaf_hook(followed(hook)(node.variable), node.variable)
        for hook in list(node._ex.get("hooks", {}).values()) if node._ex else ():
            of_node_hook(hook, (), followed(hook)((), tuple(self.tensor(g) for g in grads)))

    # -- leaves ----------------------------------------------------------------------------------
    def accumulate_into(self, leaf: Tensor, grad: Any) -> None:
        """``leaf.grad += grad``: in place, unless the sum itself must have history."""
        with adding:
            old = grad_of(leaf) if CAPTURES else leaf._grad
            if old is None:
                if leaf._view is not None or self.create:
                    set_grad(leaf, self.first_gradient(leaf, grad))
                    return
                if USED:
                    grad = as_before(leaf._storage.value, grad)
                if CAPTURES or grad.__class__ is not Array:
                    set_grad(leaf, _own(grad))
                else:
                    leaf._grad = _own(grad)
            elif self.create:
                first = grad if isinstance(old._storage.value, SparseValue) else old  # dense + sparse, never the other
                set_grad(leaf, call(add, (first, old if first is grad else grad, None), ()))
            else:
                value = value_of(old)
                if value.shape != grad.shape:
                    raise RuntimeError(
                        f"The size of the .grad of a leaf, {list(value.shape)}, must match that of the gradient "
                        f"added to it, {list(grad.shape)}; set .grad to None first"
                    )
                if value.dtype != grad.dtype or old._view is not None:  # an operator checks what may be added in place
                    call_inplace(add.inplace, (old, wrap(grad), None), ())
                    return
                demand_writable(old)
                added = total(value, grad)
                if isinstance(value, SparseValue) and not isinstance(added, SparseValue):  # no tensor changes layout
                    set_grad(leaf, fresh(added))
                else:
                    write(old, added)

    def first_gradient(self, leaf: Tensor, grad: Any) -> Tensor:
        """A new ``.grad``, in the memory order of the leaf."""
        if self.create:
            if isinstance(grad._storage.form, SparseValue):
                return call(clone, (grad,), (None,))
            start = immediate.zeros_beside(grad.shape, grad.dtype.np, (value_of(grad),))
            grad = call_inplace(copy.inplace, (wrap(start), grad), (False,))
        else:
            grad = _own(grad)
        if leaf._view is not None and is_dense(leaf._view.layout):
            restride(grad, leaf._view.layout.strides)
        return grad


def _own(grad: Any) -> Tensor:
    """A tensor over a gradient that no other tensor has."""
    return fresh(grad.own() if isinstance(grad, SparseValue) else immediate.own(grad))


class _OfLoss(_Task):
    """A backward that begins at one node, outside of any other, and fills ``.grad`` of all leaves."""

    __slots__ = ("around",)  # the grad mode outside, once it is entered
    around: Any
    callbacks: Any
    create = record = False
    accumulate = True
    needed = None
    depth = 0
    ends = _NOBODY
    wanted = captured = MappingProxyType({})  # type: ignore[assignment]

    __init__ = object.__init__  # type: ignore[assignment]  # ``run_loss`` fills it

    def enter(self) -> None:
        if self.around is _NOT_ENTERED:
            self.around, self.callbacks = state.grad, []
            state.grad, state.task = False, self


def _broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether what has ``shape`` can be expanded ``to`` that shape."""
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _count_edges(roots: Sequence[Any], ends: Collection[Node] = ()) -> dict[Any, int]:
    """{node: number of edges into it} over the graph below the roots, down to ``ends``."""
    return _count_below({roots[0][0]: 0} if len(roots) == 1 else dict.fromkeys([node for node, _ in roots], 0), ends)


def _count_below(awaited: dict[Any, int], ends: Collection[Node] = ()) -> dict[Any, int]:
    """The counts of some nodes, with those of all below them."""
    stack = list(awaited)
    for node in stack:  # which grows
        if ends and node in ends:
            continue
        for edge in node._edges:
            if edge is None:
                continue
            target = edge[0]
            if target in awaited:
                awaited[target] += 1
            elif target is not None:
                awaited[target] = 1
                if target._edges:
                    stack.append(target)
    return awaited


def _leading_to(graph: Iterable[Any], wanted: Mapping[Any, set[int]]) -> set[Any]:
    """The nodes from which a captured edge can be reached, the captured nodes included."""
    needed = set(wanted)
    for node in sorted(graph, key=lambda n: n._seq):
        if node not in needed and any(e is not None and e[0] in needed for e in node._edges):
            needed.add(node)
    return needed
