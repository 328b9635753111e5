"""``x[1, :, None]`` in one step of Python, where no node is recorded: the geometry of all its views together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.geometry import clamp_slice
from torchlike._base.layout import Layout
from torchlike._base.state import UNUSUAL, state
from torchlike._core.dispatch.dispatch import refresh
from torchlike._core.dispatch.view_calls import tie
from torchlike._core.tensor.storage import CAPTURES, UNTRACKED
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._core.tensor.view_creation import INFERENCE, NO_GRAD
from torchlike._core.tensor.views import View
from torchlike._executor.pending import Array
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._core.typed import Ints, Steps

_BOUNDS = frozenset({int, type(None)})


def at_once(t: Tensor, index: tuple[Any, ...]) -> Tensor | None:
    """The view of ``t`` at ints, slices, None and ``...``; None where that is to be made step by step, or is wrong."""
    grad = state.grad
    if UNUSUAL or CAPTURES or grad is None or t.__class__ is not Tensor or t._vc is UNTRACKED:
        return None
    if t._storage.form.__class__ is not Array:
        return None
    if grad:
        if t._diff is not None:
            refresh(t)
        if t._rg:
            return None
    view, diff = t._view, t._diff
    own: tuple[Steps, Ints] = ((), ()) if view is None else (view.steps, view.ints)
    found = _followed(t._layout, index, own, len(own[0]) if diff is None else diff.depth)
    if found is None:
        return None
    new = alias(t)
    new._view, new._cache = View(*found, None if view is None else view.dtype), None
    tie(t, new, None if grad else INFERENCE if state.inference else NO_GRAD)
    return new


def _followed(layout: Layout, index: tuple[Any, ...], own: Any, depth: int) -> tuple[Steps, Ints, Layout] | None:
    """Steps, integers and geometry of a view, the first ``depth`` steps of which are those of its base."""
    shape, strides, offset = layout
    steps, ints = own
    dim, first, rest = 0, len(steps), -1
    for x in index:
        kind, after = x.__class__, dim + 1
        if kind is int:
            if dim >= len(shape) or not -shape[dim] <= x < shape[dim]:
                return None
            start = x + shape[dim] if x < 0 else x
            offset += start * strides[dim]
            shape, strides = shape[:dim] + shape[after:], strides[:dim] + strides[after:]
            steps, ints = (*steps, (views.select, (dim,), 1)), (*ints, start)
        elif kind is slice:
            bounds = None if dim >= len(shape) else _bounds(x, shape[dim])
            if bounds is None:
                return None
            start, size, step = bounds
            if size != shape[dim] or step != 1:
                offset += start * strides[dim]
                shape = (*shape[:dim], size, *shape[after:])
                if step != 1:
                    strides = (*strides[:dim], strides[dim] * step, *strides[after:])
                steps, ints = (*steps, (views.slice_, (dim, size, step), 1)), (*ints, start)
            dim = after
        elif x is None:
            stride = shape[dim] * strides[dim] if dim < len(shape) else 1
            shape, strides = (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], stride, *strides[dim:])
            if len(steps) > depth and steps[-1][0].write is views.write_reshape:
                steps = steps[:-1]  # as in ``attach``: a reshape of a reshape is one
                first = min(first, len(steps))
            steps, dim = (*steps, (views.unsqueeze, (shape,), 0)), after
        elif x is Ellipsis:
            if rest < 0:
                rest = len(layout.shape) - sum([y.__class__ is int or y.__class__ is slice for y in index])
                if rest < 0:
                    return None
            dim, rest = dim + rest, 0
        else:
            return None
    return (steps, ints, Layout(shape, strides, offset)) if len(steps) > first else None


def _bounds(part: slice, length: int) -> tuple[int, int, int] | None:
    """Where a slice of a dimension begins, how many it takes, and its step; None for what is no plain slice."""
    start, stop, step = part.start, part.stop, part.step
    if not _BOUNDS.issuperset((type(start), type(stop))):
        return None
    if step is None:
        step = 1
    elif step.__class__ is not int or step <= 0:
        return None
    first, last = clamp_slice(length, start, stop)
    return first, (last - first + step - 1) // step, step
