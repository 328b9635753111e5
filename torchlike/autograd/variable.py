"""Variable: the name that Tensor once had, and the engine behind it."""

import operator
import warnings
from collections.abc import Callable
from typing import Any

from torchlike._base.state import state
from torchlike._core.autograd import engine
from torchlike._core.autograd.backward import backward, grad
from torchlike._core.tensor.tensor import Tensor

__all__ = ["Variable"]


class _Engine:
    """The engine as far as users call it."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call ``callback()`` when the backward that is running has finished; RuntimeError where none is."""
        engine.queue_callback(callback)

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """Whether no backward with ``inputs`` is running, so that a reentrant checkpoint may run its own."""
        return state.task is None or engine.is_whole_backward()

    @staticmethod
    def run_backward(
        tensors: tuple, grad_tensors: tuple, keep_graph: bool, create_graph: bool, inputs: tuple = (),
        allow_unreachable: bool = False, accumulate_grad: bool = False,
    ) -> tuple | None:  # fmt: skip
        """A backward without defaults: every gradient is given, and ``accumulate_grad`` says where they go.

        With it ``.grad`` of the leaves (of ``inputs`` only, if any); else the gradients of ``inputs`` are
        returned, None for those that are unreachable (RuntimeError unless ``allow_unreachable``).
        """
        for i, gradient in enumerate(grad_tensors):
            if gradient is None:
                raise RuntimeError(
                    f"element {i} of gradients tuple is None, but the corresponding Tensor requires grad"
                )
        if accumulate_grad or not inputs:
            backward(tensors, grad_tensors, keep_graph, create_graph, inputs=inputs or None)
            return None
        return grad(tensors, inputs, grad_tensors, keep_graph, create_graph, allow_unused=allow_unreachable)


_is_checkpoint_valid = _Engine.is_checkpoint_valid


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
