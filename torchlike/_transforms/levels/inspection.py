"""What a tensor inside of function transforms is: at which level, over which axis, of what."""

from __future__ import annotations

import contextlib
from typing import Any

from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._transforms.levels.grad import GradStorage
from torchlike._transforms.levels.jvp import NONE, JvpLevel
from torchlike._transforms.levels.levels import level_below
from torchlike._transforms.levels.vmap import Batched


def batch_of(t: Tensor) -> Batched | None:
    """What ``t`` stands for, if its own level is one of vmap."""
    value = t._storage.value
    return value if t._storage.__class__ is not GradStorage and isinstance(value, Batched) else None


def tracks(t: Tensor) -> bool:
    """Whether the own level of ``t`` is one of grad or jvp, perhaps one that has ended."""
    return t._storage.__class__ is GradStorage or _escaped(t) or _dual_level(t) is not None


def level_of(t: Tensor) -> int:
    """The depth of the own level of ``t``: -1 outside of all, -2 if it has ended."""
    if t._storage.__class__ is GradStorage:
        level = t._storage.level
        return -2 if level.dead else level.depth
    if _escaped(t):
        return -2
    found: Any = _dual_level(t) or batch_of(t)
    if isinstance(found, Batched):
        found = found.level
    return -1 if found is None else found.depth


def unwrapped(t: Tensor) -> Tensor | None:
    """What ``t`` stands for at the level below its own; None outside of all levels."""
    if t._storage.__class__ is GradStorage:
        level = t._storage.level
        with level_below(level) if level in state.levels else contextlib.nullcontext():
            return level.lower(t)
    if _escaped(t):
        new = alias(t)
        new._edge, new._rg, new._acc = t._edge, t._rg, t._acc
        new._ex = {k: v for k, v in t._ex.items() if k != "escaped"} or None
        return new
    dual = _dual_level(t)
    if dual is not None:
        with level_below(dual):
            return dual.primal(t)
    batch = batch_of(t)
    return None if batch is None else batch.inner


def _escaped(t: Tensor) -> bool:
    return t._ex is not None and "escaped" in t._ex


def _dual_level(t: Tensor) -> JvpLevel | None:
    """The innermost level of jvp, if it is the innermost of all and ``t`` has a tangent there."""
    level = state.levels[-1] if state.levels else None
    if isinstance(level, JvpLevel) and level.functional and level.kept(t)[0] not in (None, NONE):
        return level
    return None
