"""Views: a chain of steps from the base's value, read and written inside one compiled kernel.

Each step is a view operator with static arguments and runtime integers, so that ``x[i]`` in a loop
compiles once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jax.core import Tracer

from torchlike._base.layout import contiguous_strides, is_disjoint
from torchlike._base.state import state
from torchlike._decl.derive import Derived
from torchlike._executor import immediate
from torchlike._executor.scalars import with_arrays
from torchlike._ops._overlap import put
from torchlike._ops.constant import constant
from torchlike._ops.view import DISTINCT, MOVING, may_overlap

if TYPE_CHECKING:
    from torchlike._base.layout import Layout
    from torchlike._core.typed import Ints, Steps
    from torchlike._decl.typed import Forward


class View:
    """Geometry of a tensor that is not a contiguous base, and the steps that read it.

    Attributes:
        steps: ((view operator, static arguments, number of integers), ...), empty for a base whose
            strides are not contiguous. ints: the runtime integers of all steps, flat.
        layout: shape, strides and offset as PyTorch reports them.
        dtype: numpy dtype where it is not the base's, else None.
        ordered: whether the strides are those of a contiguous tensor, or None where nobody has asked :meth:`in_order`.
    """

    __slots__ = ("steps", "ints", "layout", "shape", "dtype", "ordered")
    ordered: bool | None

    def __init__(self, steps: Steps, ints: Ints, layout: Layout, dtype: np.dtype | None = None) -> None:
        self.steps, self.ints, self.layout, self.dtype = steps, ints, layout, dtype
        self.shape, self.ordered = layout.shape, None

    def in_order(self) -> bool:
        """Whether the strides are those of a contiguous tensor, so that results lie as those of such."""
        self.ordered = found = self.layout.strides == contiguous_strides(self.shape)
        return found


def chain_read(steps: Steps) -> Forward:
    """The function (base value, *ints) -> view value."""

    def run(base: Any, *ints: Any) -> Any:
        for op, static, n in steps:
            here, ints = ints[:n], ints[n:]
            base = op.read(base, *static, *here)
        return base

    return run


def _unbatched(op: Any) -> Any:
    """The view operator itself, where vmap maps it."""
    while op not in MOVING and hasattr(op, "base"):
        op = op.base
    return op


def chain_write(steps: Steps) -> Forward:
    """The function (base value, view value, *ints) -> base value with the view replaced."""
    kinds = [_unbatched(op) for op, _, _ in steps]
    moving = [all([k in MOVING for k in kinds[i:]]) for i in range(len(kinds))]

    def run(base: Any, new: Any, *ints: Any) -> Any:
        values, splits = [base], []
        for i, (op, static, n) in enumerate(steps):
            here, rest = ints[:n], ints[n:]
            shown = op.read(values[-1], *static, *here)
            if moving[i] and may_overlap(kinds[i], static, shown.shape != values[-1].shape):
                new = _put(values[-1], new, steps[i:], ints)
                break
            splits.append(here)
            values.append(shown)
            ints = rest
        n = len(splits)
        for (op, static, _), here, value in zip(steps[:n][::-1], splits[::-1], values[:n][::-1], strict=True):
            new = op.write(value, new, *static, *here)
        return new

    return run


def _put(value: Any, new: Any, steps: Steps, ints: Any) -> Any:
    return put(value, new, lambda x: chain_read(steps)(x, *ints))


def followed_by_jax(value: Any) -> bool:
    """Whether jax may differentiate what is computed of ``value``: one of a function of the user that jax traces."""
    return isinstance(value, Tracer) and state.capture is None and np.issubdtype(value.dtype, np.inexact)


def stopped(view: View | None, layout: Layout, unseen: bool) -> View:
    """The same view, through which jax sees no derivative. ``unseen``: autograd does not see changes through it."""
    step = (constant, (unseen,), 0)
    if view is None:
        return View((step,), (), layout)
    return View((*view.steps, step), view.ints, layout, view.dtype)


def demand_no_derivative(target: Any, operands: Any) -> None:
    """Refuse that a view without derivative is changed to what jax differentiates: it cannot be both."""
    steps = () if target._view is None else target._view.steps
    if any([op is constant and not static[0] for op, static, _ in steps]):
        for x in operands:
            steps = () if x._view is None else x._view.steps
            if followed_by_jax(x._storage.form) and not any([op is constant for op, _, _ in steps]):
                raise RuntimeError(
                    f"in a function that jax traces (jit, grad, vmap, scan, to_jax) a tensor of shape "
                    f"{list(target.shape)} that detach() gave is changed in place by values that jax may "
                    "differentiate, while the tensor that it shares memory with keeps its own derivative; change "
                    "x.detach().clone(), or use torch.no_grad() or x.data for a change without derivative"
                )


REPLAYED = frozenset({"ConjBackward", "NegViewBackward", "ViewAsRealBackward", "ViewAsComplexBackward"})
_readers: dict = {}
_writers: dict = {}
_moves: dict[Any, bool] = {}


def reader(steps: Steps) -> Derived:
    """The operator (base, *ints) -> view; its nodes show as AsStridedBackward0 where strides can tell the view."""
    found = _readers.get(steps)
    if found is None:
        last = steps[-1][0].node
        node = last if last in REPLAYED else "AsStridedBackward"
        found = _readers[steps] = Derived("as_strided", node, chain_read(steps), ("read", steps))
    return found


def writer(steps: Steps) -> Derived:
    """The operator (base, new view value, *ints) -> new base."""
    found = _writers.get(steps)
    if found is None:
        found = _writers[steps] = Derived("copy_to_view", "CopySlicesBackward", chain_write(steps), ("write", steps))
    return found


def moves(steps: Steps) -> bool:
    """Whether a view shows elements of its base, wherever they lie, and nothing computed of them."""
    found = _moves.get(steps)
    if found is None:
        found = _moves[steps] = all([op in MOVING for op, _, _ in steps])
    return found


def distinct(view: View) -> bool:
    """Whether no two elements of a view share a place, as its steps tell, or lengths and strides one by one."""
    return all([op in DISTINCT for op, _, _ in view.steps]) or is_disjoint(view.layout)


def read(base: Any, view: View) -> Any:
    """The view's value, from the base's."""
    return immediate.run(reader(view.steps), (), with_arrays((base, *view.ints)))


def write(base: Any, view: View, new: Any) -> Any:
    """The base's value with the view replaced by ``new``."""
    return immediate.run(writer(view.steps), (), with_arrays((base, new, *view.ints)))
