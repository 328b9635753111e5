"""Classes written in several files that are one class, as in PyTorch."""

import types
from collections.abc import Callable
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)
_OWN = ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__")


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
            cls.__annotations__.update(part.__dict__.get("__annotations__", {}))
        return cls

    return add
