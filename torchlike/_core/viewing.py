"""Calls of view operators: a new tensor over the same storage, and its node."""

from torchlike._base.state import state
from torchlike._core import node as nodes
from torchlike._core.dispatch import plan_for, refresh
from torchlike._core.slow import KIND, slow_call
from torchlike._core.tensor import Tensor, alias
from torchlike._core.views import View
from torchlike._ops.view import as_strided


class Shaped:
    """A stand-in for a value whose numbers a view's plan does not need."""

    __slots__ = ("shape", "dtype")

    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, dtype

    @property
    def aval(self):
        """What identifies it in the key of a plan."""
        return self.shape, self.dtype


class DiffView:
    """How a view is tied to its base.

    Attributes:
        base: the base tensor. version: the version at which the view's history was last current.
        depth, ints: how many steps and integers of the view's chain belong to the base itself.
        creation: None, or the function of the operator's name giving the error of an in-place change.
    """

    __slots__ = ("base", "version", "depth", "ints", "creation")

    def __init__(self, base, version, depth, ints, creation):
        self.base, self.version, self.depth, self.ints, self.creation = base, version, depth, ints, creation


def _in_no_grad(name):
    return (
        "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this use "
        "case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view and the "
        "inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or both outside "
        "(if you want the inplace to be tracked)."
    )


def attach(t, step, ints, layout, dtype=None, creation=None):
    """A new tensor that views ``t`` through one more step."""
    new = alias(t)
    view, diff = t._view, t._diff
    if view is None:
        new._view = View((step,), ints, layout, dtype)
    else:
        new._view = View((*view.steps, step), view.ints + ints, layout, dtype or view.dtype)
    new._cache = None
    version = t._vc.version
    if diff is not None:
        new._diff = DiffView(diff.base, version, diff.depth, diff.ints, creation or diff.creation)
    else:
        own, own_ints = (0, 0) if view is None else (len(view.steps), len(view.ints))
        new._diff = DiffView(t, version, own, own_ints, creation)
    if not state.grad and new._diff.creation is None:
        new._diff.creation = _in_no_grad
    return new


def call_view(op, inputs, args):
    """The view of ``inputs[0]`` that ``op`` makes with the arguments ``args``."""
    t = inputs[0]
    if state.slow or t.__class__ not in KIND:
        return slow_call(call_view, op, inputs, args)
    if not isinstance(t, Tensor):
        raise TypeError(f"{op.name}(): argument 'self' (position 1) must be Tensor, not {type(t).__name__}")
    layout, static, ints, *rest = op.prepare(t, *args)
    new = attach(t, (op, static, len(ints)), ints, layout, *rest)
    if op is as_strided:
        new._view = View(new._view.steps[-1:], ints, layout)
    if t._diff is not None:
        refresh(t)
        new._diff.version = t._vc.version
    if t._rg and state.grad:
        shaped = (Shaped(t._layout.shape, _np_dtype(t)), *ints)
        plan = plan_for(op, (t, *ints), static, shaped)
        if plan is not None:
            saved = [ints[i - 1] for i in plan.inputs]
            new._edge = (nodes.make(op, plan, [nodes.edge_of(t)], saved, [None] * len(saved)), 0)
            new._rg = True
    return new


def _np_dtype(t):
    view = t._view
    return t._storage.value.dtype if view is None or view.dtype is None else view.dtype


def call_views(op, t, pieces, static):
    """The views of ``t`` that a multi-view operator makes, all outputs of one node.

    ``pieces`` is a list of (step operator, static, ints, layout); ``op`` maps ``t`` to the tuple.
    """
    if state.slow or t.__class__ not in KIND:
        return slow_call(lambda o, i, s: call_views(o, i[0], pieces, s), op, (t,), static)
    title = op.node.removesuffix("Backward")
    news = [
        attach(t, (step, s, len(ints)), ints, layout, None, _multi(i, title))
        for i, (step, s, ints, layout) in enumerate(pieces)
    ]
    if t._diff is not None:
        refresh(t)
    if t._rg and state.grad and news:
        plan = plan_for(op, (t,), static, (Shaped(t._layout.shape, _np_dtype(t)),))
        if plan is not None:
            node = nodes.make(op, plan, [nodes.edge_of(t)], [], [])
            for i, new in enumerate(news):
                new._edge, new._rg = (node, i), True
    return tuple(news)


def _multi(i, title):
    return lambda name: (
        f"Output {i} of {title} is a view and is being modified inplace. This view is the output of a function that "
        "returns multiple views. Such functions do not allow the output views to be modified inplace. You should "
        "replace the inplace operation by an out-of-place one."
    )
