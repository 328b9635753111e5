"""How tensors print: those of a level as what they stand for, those with a tangent with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._core.tensor.printing import level_str, tensor_str
from torchlike._transforms.levels.functional import FunctionalLevel
from torchlike._transforms.levels.grad import GradStorage
from torchlike._transforms.levels.inspection import batch_of, escaped
from torchlike._transforms.levels.levels import innermost, level_below
from torchlike._transforms.levels.vmap import VmapLevel

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


def represented(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of ``repr(tensor)``; ``tensor_contents`` stands in place of the values."""
    level: Any = innermost(self)
    if level is None:
        return _outside(self, tensor_contents)
    with level_below(level):
        if isinstance(level, VmapLevel):
            batch = level.of(self)
            return level_str("BatchedTensor", repr(batch.inner), lvl=level.depth, bdim=batch.dim)
        if isinstance(level, FunctionalLevel):
            return f"FunctionalTensor(lvl={level.depth}, value=\\\n{represented(self)})"
        if self._storage.__class__ is GradStorage and self._storage.level is level:
            return level_str("GradTrackingTensor", repr(level.lower(self)), lvl=level.depth)
    return _dual(self, level, tensor_contents)


def _dual(t: Tensor, level: Any, contents: str | None) -> str:
    """The text of a tensor of a level of jvp."""
    dot = level.of(t)
    with level_below(level):
        if level.functional:
            return level_str("GradTrackingTensor", represented(t), lvl=level.depth)
        return tensor_str(t, contents=contents, tangent=dot)


def _outside(t: Tensor, contents: str | None) -> str:
    """The text of a tensor of no active level."""
    if t._storage.__class__ is GradStorage:
        return level_str("GradTrackingTensor", represented(t._storage.level.lower(t)), lvl=-2)
    if escaped(t):
        return level_str("GradTrackingTensor", tensor_str(t, contents=contents), lvl=-2)
    batch = batch_of(t)
    if batch is not None:
        return level_str("BatchedTensor", repr(batch.inner), lvl=batch.level.depth, bdim=batch.dim)
    return tensor_str(t, contents=contents)
