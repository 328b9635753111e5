"""Levels of function transforms: each runs the calls of its function in terms of the level below.

A level is entered for the time its function runs; ``state.levels`` holds those of this thread, the innermost last.
A call goes to the innermost one, which computes it with calls at the level below: so autograd of what a function
closes over is recorded outside of the transform, and transforms nest in any order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from torchlike._base.state import AUTOCAST, INFERENCE, LEVELS, state
from torchlike._core.dispatch.layers import AUTOCAST as CASTS
from torchlike._core.dispatch.layers import TRANSFORMS

if TYPE_CHECKING:
    from torchlike._core.dispatch.layers import Call
    from torchlike._core.tensor.tensor import Tensor
    from torchlike._decl.derive import Kernel


class Level:
    """What an active transform does with calls. Levels are compared by identity.

    Attributes:
        depth: 1 for the outermost level; a dual level of forward-mode AD, which is no function's, does not count.
        functional: whether it is one of torch.func, in whose functions tensors cannot be asked to require grad.
        owns: whether new tensors are of this level. wraps: whether they then stand for others of the level below.
        casts: whether autocast comes first, since the casts are calls like others to the level.
        veils: whether its tensors, which are those of the level below themselves, show nothing of their history there.
        counts: whether it is one of the levels that are numbered.
        maps: whether one call stands for many, so that random numbers are made inside it.
    """

    functional = counts = True
    owns = wraps = casts = maps = veils = False

    def __init__(self) -> None:
        self.depth = current_depth() + 1

    def handle(self, call: Call) -> Any:
        """The result of a call, from calls at the level below, where it is handled."""
        raise NotImplementedError

    def detach(self, t: Tensor) -> Tensor:
        """``t.detach()``."""
        with level_below(self):
            return t.detach()

    def data(self, t: Tensor) -> Tensor:
        """``t.data``."""
        with level_below(self):
            return t.data

    def inside(self, t: Tensor) -> Tensor:
        """What ``t`` is at the level below, where new tensors are not of this level."""
        return t

    def holds(self, x: Any) -> bool:
        """Whether ``x`` is a tensor of this level."""
        return False

    def left(self, t: Tensor) -> bool:
        """Whether ``t`` is what a tensor of this level, of the same storage, stands for."""
        return t._ex is not None and self in t._ex.get("below", ())

    def hides(self, storage: Any) -> bool:
        """Whether the memory of a tensor of this level cannot be had as memory, which has no derivative."""
        return False

    def carries(self, t: Tensor) -> bool:
        """Whether ``t`` has a derivative at this level that its value does not show."""
        return False

    def adopt(self, t: Tensor) -> Tensor:
        """Let the new tensor ``t`` be of this level, which owns it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._before = state.levels, state.active & LEVELS
        state.levels = (*state.levels, self)
        state.active |= LEVELS
        return self

    def __exit__(self, *exc: object) -> None:
        set_levels(*self._before)


def leave_inference() -> tuple[bool, int]:
    """Make normal tensors from here on, also in inference mode: what a derivative is taken of has to be followed."""
    before = state.inference, state.active & INFERENCE
    state.inference = False
    state.active &= ~INFERENCE
    return before


def resume_inference(before: tuple[bool, int]) -> None:
    """What :func:`leave_inference` has left."""
    state.inference = before[0]
    state.active |= before[1]


def current_depth() -> int:
    """The depth of the innermost level that counts, 0 without any."""
    return next((level.depth for level in reversed(state.levels) if level.counts), 0)


def captured(op: Kernel) -> RuntimeError:
    """The error of a change in place of what the function did not make and was not given."""
    while not op.declaration.full_name and hasattr(op, "base"):  # over a mapped axis
        op = op.base
    base, dot, overload = op.declaration.full_name.partition(".")
    base = base or op.name
    return RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        f"(aten::{base}_{dot}{overload}) that would mutate a captured Tensor. This is not supported; please rewrite "
        "the function being transformed to explicitly accept the mutated Tensor(s) as inputs."
    )


def set_levels(levels: tuple[Level, ...], bit: int) -> None:
    """Let these be the levels of this thread, and ``bit`` (LEVELS or 0) say whether there are any."""
    state.levels = levels
    state.active = (state.active & ~LEVELS) | bit


@contextlib.contextmanager
def level_below(level: Level) -> Iterator[None]:
    """Calls inside are at the level below ``level``, which is active."""
    before = state.levels
    outer = before[: before.index(level)]
    set_levels(outer, LEVELS if outer else 0)
    try:
        yield
    finally:
        set_levels(before, LEVELS)


@TRANSFORMS.install
def _layer(call: Call) -> Any:
    before = state.levels
    if state.active & AUTOCAST and before[-1].casts:
        return CASTS(call)
    state.levels = outer = before[:-1]  # as set_levels, without a call
    if not outer:
        state.active &= ~LEVELS
    try:
        return before[-1].handle(call)
    finally:
        state.levels = before
        state.active |= LEVELS


def born(t: Tensor) -> None:
    """Let a new tensor that no operator call has made be of the levels that own tensors."""
    for level in reversed(state.levels):
        if level.owns:
            level.adopt(t)
        if level.wraps:
            return
        t = level.inside(t)


def innermost(t: Tensor) -> Level | None:
    """The innermost of the active levels that ``t`` is of."""
    for level in reversed(state.levels):
        with level_below(level):
            if level.holds(t):
                return level
    return None


def _veils(t: Tensor) -> bool:
    level = innermost(t)
    return level is not None and level.veils


TRANSFORMS.born, TRANSFORMS.veils = born, _veils
