"""Variable: the name that Tensor once had, and the engine behind it."""

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

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool | None = None) -> Tensor:
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.data.requires_grad_(requires_grad)
