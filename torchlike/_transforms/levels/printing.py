"""How tensors print: those of a level as what they stand for, those with a tangent with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.tensor.printing import tensor_str
from torchlike._executor.level import LevelValue
from torchlike._transforms.levels.grad import GradLevel, GradStorage
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import level_below

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


def represented(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of ``repr(tensor)``; ``tensor_contents`` stands in place of the values."""
    if self._storage.__class__ is GradStorage:
        return _tracking(self, self._storage.level)
    value = self._storage.value
    if self._ex is not None and "escaped" in self._ex:
        return _nested(-2, tensor_str(self, contents=tensor_contents))
    if isinstance(value, LevelValue):
        return value.shown()
    level: Any = state.levels[-1] if state.levels else None
    dot = level.of(self) if isinstance(level, JvpLevel) else None
    if dot is None:
        return tensor_str(self, contents=tensor_contents)
    with level_below(level):
        if not level.functional:
            return tensor_str(self, contents=tensor_contents, tangent=dot)
        return _nested(level.depth, represented(self))


def _nested(depth: int, text: str) -> str:
    inside = "\n".join("    " + line for line in text.split("\n"))
    return f"GradTrackingTensor(lvl={depth}, value=\n{inside}\n)"


def _tracking(t: Tensor, level: GradLevel) -> str:
    if level.dead:
        return _nested(-2, represented(level.lower(t)))
    with level_below(level):
        return _nested(level.depth, represented(level.lower(t)))
