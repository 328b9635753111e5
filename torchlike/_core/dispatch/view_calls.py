"""Calls of view operators: a new tensor over the same storage, and its node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torchlike._base.layout import Layout, numel
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.dispatch.dispatch import plan_for, refresh, walk
from torchlike._core.dispatch.layers import SPARSE, Call, Form
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.mutation import placed
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._core.tensor.view_creation import INFERENCE, MULTIPLE, NO_GRAD
from torchlike._core.tensor.views import View, reader
from torchlike._executor.pending import Array
from torchlike._executor.sparse import NotStrided
from torchlike._ops.view import (
    as_strided,
    conj,
    is_conj,
    is_neg,
    memory_order,
    neg_view,
    permute,
    spread,
    view_,
    view_dtype,
    write_reshape,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy as np

    from torchlike._core.typed import Inputs, Ints, Shape, Steps
    from torchlike._decl.derive import Kernel, Plan
    from torchlike._decl.typed import Static


class Shaped:
    """A stand-in for a value whose numbers a view's plan does not need."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: Shape, dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def aval(self) -> tuple[Any, ...]:
        """What identifies it in the key of a plan."""
        return self.shape, self.dtype


class DiffView:
    """How a view is tied to its base.

    Attributes:
        base: the base tensor. under: its own view then; another one, taken in place since, makes the path go
            through the storage. version: the version at which the view's history was last current.
        depth, ints: how many steps and integers of the view's chain belong to the base itself.
        creation: None, or why it may not be changed in place: ``NO_GRAD`` or ``MULTIPLE``.
        lead: (steps, integers) from the base's value to where the rest of the chain begins, which
            is the storage for ``as_strided`` of a base that is itself an alias.
    """

    __slots__ = ("base", "under", "version", "depth", "ints", "creation", "lead")

    def __init__(
        self,
        base: Tensor,
        version: int,
        depth: int,
        ints: int,
        creation: str | None,
        lead: tuple[Steps, Ints] = ((), ()),
    ) -> None:
        self.base, self.version, self.depth, self.ints = base, version, depth, ints
        self.under = base._view
        self.creation, self.lead = creation, lead

    def path(self, t: Tensor) -> tuple[Steps, Ints]:
        """The steps and integers from the base to its view ``t``."""
        view = t._view
        if t._storage is not self.base._storage:  # given other memory since: its geometry over that of the base
            (size, strides, offset), (spreads, starts) = t._layout, _spread(self.base, _elements(self.base))
            return (spreads, (as_strided, (tuple(size), tuple(strides), None), 1)), (*starts, offset)
        if self.base._view is not self.under:
            steps, ints = _to_storage(self.base)
            return (steps, ints) if view is None else (steps + view.steps, ints + view.ints)
        steps, ints = self.lead
        return steps + view.steps[self.depth :], ints + view.ints[self.ints :]


def _to_storage(t: Tensor) -> tuple[Steps, Ints]:
    """The steps and integers from the values of ``t`` to the value of its storage, zeros where it has none."""
    storage = t._storage
    value, strides = storage.form, storage.strides
    spreads, starts = _spread(t, _elements(t))
    steps = (spreads, *_lazy(t))
    if _np_dtype(t) != value.dtype:
        steps = (*steps, (view_dtype, (value.dtype,), 0))
    order = None if strides is None else memory_order(Layout(value.shape, strides, 0))
    if order is None:
        return (*steps, (view_, (value.shape,), 0)), starts
    stored = (view_, (tuple([value.shape[d] for d in order]),), 0)
    return (*steps, stored, (permute, (tuple([order.index(d) for d in range(len(order))]),), 0)), starts


def attach(
    t: Tensor,
    step: tuple[Any, ...],
    ints: Ints,
    layout: Layout,
    dtype: np.dtype | None = None,
    creation: str | None = None,
) -> Tensor:
    """A new tensor that views ``t`` through one more step."""
    new = alias(t)
    view, diff = t._view, t._diff
    if view is None:
        new._view = View((step,), ints, layout, dtype)
    else:
        steps = view.steps
        if diff is not None and len(steps) > diff.depth and step[0].write is steps[-1][0].write is write_reshape:
            steps = steps[:-1]  # a reshape of a reshape is one; so a loop of them compiles once
        new._view = View((*steps, step), view.ints + ints, layout, dtype or view.dtype)
    new._cache = None
    if t._vc is not UNTRACKED:  # autograd does not follow the views of an inference tensor
        grad = state.grad
        if not grad:
            if grad is None:
                return new
            creation = INFERENCE if state.inference else NO_GRAD
        tie(t, new, creation)
    return new


def tie(t: Tensor, new: Tensor, creation: str | None = None) -> None:
    """Let autograd know that ``new`` is a view of ``t``, whose own steps its view begins with."""
    view, diff, version = t._view, t._diff, t._vc.version
    if diff is not None:
        new._diff = DiffView(diff.base, version, diff.depth, diff.ints, creation or diff.creation, diff.lead)
        new._diff.under = diff.under
    else:
        own, own_ints = (0, 0) if view is None else (len(view.steps), len(view.ints))
        new._diff = DiffView(t, version, own, own_ints, creation)


def call_view(op: Kernel, inputs: Inputs, args: tuple[Any, ...]) -> Tensor:
    """The view of ``inputs[0]`` that ``op`` makes with the arguments ``args``."""
    t = inputs[0]
    if state.active or t.__class__ not in KIND:
        return walk(Call(op, VIEW, inputs, args))
    if not isinstance(t, Tensor):
        raise TypeError(f"{op.name}(): argument 'self' (position 1) must be Tensor, not {type(t).__name__}")
    found = _prepared(op, t, args)
    try:
        layout, static, ints, *rest = op.prepare(t, *args) if found is None else found.parts
    except NotStrided:
        return SPARSE(Call(op, VIEW, inputs, args))
    new = attach(t, (op, static, len(ints)), ints, layout, *rest)
    if CAPTURES and op is as_strided:
        placed(t)
    if op is as_strided and t._view is not None and t._view.steps:
        op, static, ints = restart(t, new)
    elif op is view_dtype:  # not differentiable: aliases the storage, but is no view of a base
        new._diff = None
        return new
    if t._diff is not None and state.grad:
        refresh(t)
        new._diff.version = t._vc.version
    if t._rg and state.grad and t._vc is not UNTRACKED:
        if found is None or found.plan is None:
            shaped = (Shaped(t._layout.shape, _np_dtype(t)), *ints)
            plan = plan_for(op, (t, *ints), static, shaped)
            if found is not None:
                found.plan = plan
        else:
            plan = found.plan
        if plan is not None:
            saved = [ints[i - 1] for i in plan.inputs]
            node = operator_node.make(op, plan, [nodes.edge_of(t)], saved, [None] * len(saved))
            node.given = args
            new._edge, new._rg = (node, 0), True
            if nodes.WATCHERS:
                nodes.watch(node)
    return new


VIEW = Form("view", call_view)


class _Prepared:
    """What a view operator makes of a geometry and of arguments.

    Attributes:
        parts: what its ``prepare`` returned. plan: that of its derivative, once one was asked for.
    """

    __slots__ = ("parts", "plan")
    plan: Plan | None

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts, self.plan = parts, None


_PREPARED: dict[Any, _Prepared] = {}
KEPT = 4096  # of these; beyond, all are forgotten
_PLAIN = frozenset((int, type(None), tuple))


def _prepared(op: Kernel, t: Tensor, args: tuple[Any, ...]) -> _Prepared | None:
    """What ``op.prepare`` says, which is the same for one geometry; None where it is to be asked each time."""
    if op is as_strided:  # it reads the storage, whatever shows it
        return None
    form, view = t._storage.form, t._view
    if form.__class__ is not Array or CAPTURES or not _PLAIN.issuperset([a.__class__ for a in args]):
        return None
    if view is not None and (view.dtype is not None or form.dtype.kind == "c"):
        return None
    key = op, form.shape, None if view is None else view.layout, form.dtype, args
    found = _PREPARED.get(key)
    if found is None:
        if not all([n.__class__ is int for a in args if a.__class__ is tuple for n in a]):
            return None
        if len(_PREPARED) >= KEPT:
            _PREPARED.clear()
        found = _PREPARED[key] = _Prepared(tuple(op.prepare(t, *args)))
    return found


def restart(t: Tensor, new: Tensor) -> tuple[Kernel, Static, Ints]:
    """Make ``new``, ``as_strided`` of the view ``t``, read the storage, whose elements its strides count.

    Returns the operator, static arguments and integers that make it from ``t`` itself.
    """
    step, ints, value = new._view.steps[-1], new._view.ints[-1:], t._storage.form
    size, stride, order = step[1]
    cast = ((view_dtype, (_np_dtype(t),), 0),) if _np_dtype(t) != value.dtype else ()
    before = cast
    if cast:
        flat = (view_, ((numel(value.shape),),), 0)
        before = (flat, *cast) if order is None else ((permute, (order,), 0), flat, *cast)
        step = (as_strided, (size, stride, None), 1)
    new._view = View((*before, step, *_lazy(t)), ints, new._view.layout, new._view.dtype)
    if new._diff is not None:
        _lead(t, new, cast, len(before))
    spreads, starts = _spread(t, _elements(t))
    return reader((spreads, (as_strided, (size, stride, None), 1))), (), starts + ints


def _lead(t: Tensor, new: Tensor, cast: Steps, before: int) -> None:
    """Set how ``new``, which reads the storage itself, is reached from the base's value."""
    base = new._diff.base
    lead, depth = ((), ()), 0
    if base._view is not None and base._view.steps:
        spreads, starts = _spread(base, _elements(base))
        lead, depth = ((spreads, *_lazy(base), *(cast if _np_dtype(base) != _np_dtype(t) else ())), starts), before
    new._diff.lead, new._diff.depth, new._diff.ints, new._diff.under = lead, depth, 0, base._view


def _elements(t: Tensor) -> int:
    """How many elements of the dtype of ``t`` its storage has."""
    value = t._storage.form
    return numel(value.shape) * value.dtype.itemsize // _np_dtype(t).itemsize


def _lazy(t: Tensor) -> Steps:
    """The steps between what the storage of ``t`` holds and its values: conjugate, negative; each undoes itself."""
    if t._view is None:
        return ()
    return tuple([(op, (), 0) for marked, op in ((is_conj, conj), (is_neg, neg_view)) if marked(t)])


def _spread(t: Tensor, length: int) -> tuple[tuple[Any, ...], Ints]:
    """The step, and its integers, from the values of ``t`` to a storage of ``length`` elements."""
    shape, strides, offset = t._layout
    return (spread, (tuple(shape), tuple(strides), length), 1), (offset,)


def _np_dtype(t: Tensor) -> np.dtype:
    view = t._view
    return t._storage.form.dtype if view is None or view.dtype is None else view.dtype


def call_views(op: Kernel, t: Tensor, pieces: Iterable[Any], static: Static) -> tuple[Tensor, ...]:
    """The views of ``t`` that a multi-view operator makes, all outputs of one node.

    ``pieces`` is a list of (step operator, static, ints, layout); ``op`` maps ``t`` to the tuple.
    """
    if state.active or t.__class__ not in KIND:
        return walk(Call(op, VIEWS, (t,), (static, pieces)))
    if t._view is None and t._diff is None and t._vc is not UNTRACKED and state.grad:  # as attach() does, at once
        news, version = [], t._vc.version
        for step, s, ints, layout in pieces:
            new = alias(t)
            new._view, new._cache = View(((step, s, len(ints)),), ints, layout, None), None
            new._diff = DiffView(t, version, 0, 0, MULTIPLE)
            news.append(new)
    else:
        news = [attach(t, (step, s, len(ints)), ints, layout, None, MULTIPLE) for step, s, ints, layout in pieces]
    if t._diff is not None and state.grad:
        refresh(t)
    if t._rg and state.grad and news and t._vc is not UNTRACKED:
        plan = plan_for(op, (t,), static, (Shaped(t._layout.shape, _np_dtype(t)),))
        if plan is not None:
            node = operator_node.make(op, plan, [nodes.edge_of(t)], [], [])
            for i, new in enumerate(news):
                new._edge, new._rg = (node, i), True
            if nodes.WATCHERS:
                nodes.watch(node)
    return tuple(news)


def _run_views(op: Kernel, inputs: Inputs, static: Static) -> tuple[Tensor, ...]:
    return call_views(op, inputs[0], static[1], static[0])


VIEWS = Form("views", _run_views)  # its static arguments are the operator's, and the pieces
