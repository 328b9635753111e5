"""How tensors print: those of a level as what they stand for, those with a tangent with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlike._base.state import state
from torchlike._core.tensor.printing import tensor_str
from torchlike._executor.level import LevelValue
from torchlike._transforms.levels.jvp import JvpLevel
from torchlike._transforms.levels.levels import level_below

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


def represented(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The text of ``repr(tensor)``; ``tensor_contents`` stands in place of the values."""
    value = self._storage.value
    if isinstance(value, LevelValue):
        return value.shown()
    level: Any = state.levels[-1] if state.levels else None
    dot = level.of(self) if isinstance(level, JvpLevel) else None
    if dot is None:
        return tensor_str(self, contents=tensor_contents)
    with level_below(level):
        if not level.functional:
            return tensor_str(self, contents=tensor_contents, tangent=dot)
        inside = "\n".join("    " + line for line in represented(self).split("\n"))
        return f"GradTrackingTensor(lvl={level.depth}, value=\n{inside}\n)"
