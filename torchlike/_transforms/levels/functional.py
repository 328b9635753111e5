"""The level of functionalize: which tensors are its function's own, and what of them a derivative keeps.

No operator here changes an array anyway. Where a derivative around the function may keep what a call reads or makes,
it gets a tensor of its own, so that later changes in place do it no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from torchlike._base.state import state
from torchlike._core.autograd.operator_node import OpNode
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor.tensor import Tensor
from torchlike._ops import shape as shapes
from torchlike._ops import view as views
from torchlike._transforms.levels.levels import Level, level_below

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call


class FunctionalLevel(Level):
    """One call of a function that is made functional."""

    functional = owns = veils = True

    def __init__(self) -> None:
        super().__init__()
        self.own: WeakSet[Any] = WeakSet()  # the storages that the function made or was given

    def holds(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x._storage in self.own and not self.left(x)

    def adopt(self, t: Tensor) -> Tensor:
        self.own.add(t._storage)
        return t

    def data(self, t: Tensor) -> Tensor:
        """``t.data``: with the derivatives of the levels below, at which it is another object of the same memory."""
        if not self.holds(t):
            return super().data(t)
        with level_below(self):
            return self.adopt(call_view(views.alias, (t,), ()))

    def handle(self, made: Call) -> Any:
        held = [self.holds(x) for x in made.inputs]
        tensors = any([isinstance(x, Tensor) for x in made.inputs])
        if made.form.writes and not held[0] and any(held):
            raise RuntimeError(
                f"{made.op.name}: mutating a non-functional tensor with a functional tensor is not allowed. Please "
                "ensure that all of your inputs are wrapped inside of a functionalize() call: pass what the function "
                "changes as an argument."
            )
        out = _kept_apart(made) if state.grad and any(held) and _watched(made.inputs) else made.run()
        if any(held) or not tensors:
            for t in out if isinstance(out, tuple | list) else (out,):
                self.own.add(t._storage)
        return out


def _watched(inputs: Sequence[Any]) -> bool:
    """Whether something around this level may keep tensors of a call of these inputs."""
    return bool(state.levels) or any([isinstance(x, Tensor) and x._rg for x in inputs])


def _kept_apart(made: Call) -> Any:
    """The results of a call that gives others nothing to keep that the function can change."""
    op, form, inputs, static = made
    if not form.fresh and not form.writes:
        return made.run()
    given = tuple([_copy(x) if isinstance(x, Tensor) else x for x in inputs])
    if not form.writes:
        out = made.run(given)
        if not isinstance(out, tuple):
            return _as_result(out)
        shown = tuple([_as_result(t) for t in out])
        return shown if type(out) is tuple else type(out)(shown)  # of results with names
    target = inputs[0]
    if op is not shapes.copy.inplace:
        new = call(op, given, static)
        if new.shape != target.shape or new.dtype is not target.dtype:
            return made.run()  # which casts, or says why not
        given = (target, new)
    call_inplace(shapes.copy.inplace, (target, given[1]), (False,))
    return target


def _copy(t: Tensor) -> Tensor:
    new: Tensor = call(shapes.clone, (t,), (None,))
    return new


def _as_result(t: Tensor) -> Tensor:
    """A result as the function sees it: a copy, where what made it may keep it."""
    node = None if t._edge is None else t._edge[0]
    if not state.levels and (node is None or isinstance(node, OpNode) and not node.plan.outputs):
        return t
    return _copy(t)
