"""Variable: the name that Tensor once had, and the engine behind it."""

import operator
import warnings
from collections.abc import Callable
from typing import Any

from torchlike._core import engine
from torchlike._core.tensor import Tensor

__all__ = ["Variable"]


class _Engine:
    """The engine as far as users call it."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call ``callback()`` when the backward that is running has finished; RuntimeError where none is."""
        engine.queue_callback(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Every tensor is one; ``Variable(tensor)`` gives a tensor over the same storage."""

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.", stacklevel=2
            )
        data = Tensor() if data is None else data
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(bool(operator.index(requires_grad)))
