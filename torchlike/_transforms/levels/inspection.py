"""What a tensor inside of function transforms is: at which level, over which axis, of what."""

from __future__ import annotations

from typing import Any

from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._transforms.levels.functional import FunctionalLevel
from torchlike._transforms.levels.grad import GradLevel, GradStorage
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import innermost, level_below
from torchlike._transforms.levels.vmap import Batched, VmapLevel


def batch_of(t: Tensor) -> Batched | None:
    """What ``t`` stands for, if its own level is one of vmap."""
    if t._storage.__class__ is GradStorage or is_functional(t):
        return None
    value = t._storage.value
    return value if isinstance(value, Batched) else None


def tracks(t: Tensor) -> bool:
    """Whether the own level of ``t`` is one of grad or jvp, perhaps one that has ended."""
    level = innermost(t)
    if level is None:
        return t._storage.__class__ is GradStorage or escaped(t)
    return level.functional and isinstance(level, GradLevel | JvpLevel)


def is_functional(t: Tensor) -> bool:
    """Whether the own level of ``t`` is one of functionalize."""
    return isinstance(innermost(t), FunctionalLevel)


def level_of(t: Tensor) -> int:
    """The depth of the own level of ``t``: -1 outside of all, -2 if it has ended."""
    level = innermost(t)
    if level is not None and level.functional:
        return level.depth
    if t._storage.__class__ is GradStorage or escaped(t):
        return -2
    batch = batch_of(t)
    return -1 if batch is None else batch.level.depth


def unwrapped(t: Tensor) -> Tensor | None:
    """What ``t`` stands for at the level below its own; None outside of all levels."""
    if t._storage.__class__ is GradStorage and t._storage.level.dead:
        return t._storage.level.lower(t)
    if escaped(t):
        new = _same(t)
        new._ex = {k: v for k, v in t._ex.items() if k != "escaped"} or None
        return new
    level: Any = innermost(t)
    if level is None or isinstance(level, VmapLevel):
        batch = batch_of(t)
        return None if batch is None else batch.inner
    if not level.functional:
        return None
    with level_below(level):
        if isinstance(level, GradLevel):
            return level.lower(t)
        new = level.primal(t) if isinstance(level, JvpLevel) else _same(t)
    extras_of(new)["below"] = (*(t._ex or {}).get("below", ()), level)
    return new


def _same(t: Tensor) -> Tensor:
    """``t`` as another object, with its history."""
    new = alias(t)
    new._edge, new._rg, new._acc = t._edge, t._rg, t._acc
    return new


def escaped(t: Tensor) -> bool:
    """Whether ``t`` has left the level of grad that it was made in."""
    return t._ex is not None and "escaped" in t._ex
