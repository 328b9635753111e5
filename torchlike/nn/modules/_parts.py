"""Classes written in several files that are one class, as in PyTorch."""

import inspect
import types
from collections.abc import Callable
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


class _Empty:
    """What it has, every class has in this version of Python."""

    annotated: int


_OWN = frozenset(vars(_Empty)) | {"__annotations__", "__qualname__"}


def made_of(*parts: type) -> Callable[[_Class], _Class]:
    """A decorator that gives a class the members of ``parts``, which are none of its bases.

    What looks up an attribute, or guards that a class has none of a name, has fewer classes to ask.
    """

    def add(cls: _Class) -> _Class:
        for part in parts:
            for name, member in vars(part).items():
                if name in _OWN:
                    continue
                if name in vars(cls):
                    raise TypeError(f"{name} is defined in {part.__name__} and in {cls.__name__}")
                if isinstance(member, types.FunctionType):
                    member.__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, member)
            cls.__annotations__.update(inspect.get_annotations(part))
        return cls

    return add
