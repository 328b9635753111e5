"""torch.fx.tensor_type: types of tensors by their shape, in which sizes may be unknown."""

from __future__ import annotations

from typing import Any

from torchlike.interop.alias import missing_names

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]

__getattr__ = missing_names(__name__)


class _DynType:
    """Anything."""

    def __init__(self) -> None:
        self.__name__ = "_DynType"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __str__(self) -> str:
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


class TensorType:
    """The type of tensors of a shape; ``Dyn`` stands for a size that is not known.

    >>> import torchlike as torch
    >>> from torchlike.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((1, Dyn)), TensorType((1, 2)))
    True
    """

    def __init__(self, dim: Any) -> None:
        self.__origin__, self.__args__ = TensorType, dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args: Any) -> TensorType:
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


def is_consistent(t1: Any, t2: Any) -> bool:
    """Whether two types may be of the same value: they are equal where both are known."""
    if t1 == t2 or Dyn in (t1, t2):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(map(is_consistent, t1.__args__, t2.__args__))
    return False


def is_more_precise(t1: Any, t2: Any) -> bool:
    """Whether the first type says all that the second says."""
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(map(is_more_precise, t1.__args__, t2.__args__))
    return False
