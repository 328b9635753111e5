"""Objects that guards name and do not keep alive: a program goes when one of them does.

Whatever of the user's a function read may be dropped later, and dies then as it would without the program. Guards hold
it weakly, and its attributes through it; its death tells the compiled function to forget the program.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from torchlike._core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.reads import Read

_HEAP = 1 << 9  # the flag of classes that Python code makes
_LASTING = (type, Tensor, dict, list, tuple, set, frozenset, functools.partial, types.ModuleType, weakref.ref)


class Weak(weakref.ref):
    """Stands for an object in a guard."""

    __slots__ = ()


class Members:
    """Stands for ``__dict__`` of an object: its ``number`` is its id."""

    __slots__ = ("owner", "number")

    def __init__(self, owner: Weak, members: Any) -> None:
        self.owner, self.number = owner, id(members)

    def __call__(self) -> Any:
        """It, while the object has it; None once it has another one."""
        owner = self.owner()
        found = None if owner is None else object.__getattribute__(owner, "__dict__")
        return found if id(found) == self.number else None


def solid(x: Any) -> Any:
    """What ``x`` stands for."""
    return x() if type(x) is Weak or type(x) is Members else x


def is_mortal(x: Any) -> bool:
    """Whether guards are not to keep ``x`` alive."""
    kind = type(x)
    return bool(kind.__flags__ & _HEAP and kind.__weakrefoffset__) and not isinstance(x, _LASTING)


class Mortals:
    """What stands for the mortal objects of one program's guards.

    ``died`` is told when one of them has died. ``passed``: arguments, of which functions are mortal too. ``kept``:
    objects that the program needs.
    """

    def __init__(self, died: Callable[..., None], passed: Collection[Any], kept: Collection[Any]) -> None:
        self._died, self.members = died, {}
        self._known: dict[int, Any] = {id(x): x for x in kept}
        self.passed = [self._stand_in(x) if type(x) is types.FunctionType else self.weak(x) for x in passed]

    def weak(self, x: Any) -> Any:
        """What stands for ``x``: itself if it is not mortal."""
        known = self._known.get(id(x))
        if known is None:
            return self._stand_in(x) if is_mortal(x) else x
        return known

    def _stand_in(self, x: Any) -> Any:
        known = self._known.get(id(x))
        if known is None:
            known = self._known[id(x)] = Weak(x, self._died)
        return known

    def read(self, read: Read) -> Read:
        """A read of what stands for its objects."""
        holder, value = self.weak(read.holder), self.weak(read.value)
        if read.kind == "dict" and type(holder) is Weak and type(value) is dict:
            number, value = id(value), Members(holder, value)
            self.members[number] = value
        elif type(holder) is dict and holder:
            holder = self.members.get(id(holder), holder)
        return read._replace(holder=holder, value=value)

    def stood_for(self, weak: Any) -> bool:
        """Whether ``weak`` is one of these."""
        return any([known is weak for known in self._known.values()])
