"""What a class is made of, and what counts as an instance of it: both may change after a capture."""

from __future__ import annotations

import abc
import types
from typing import Any

from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import own

_HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: others cannot change


def note_bases(i: Any, cls: type) -> None:
    """Note which classes a user's class is made of."""
    if cls.__flags__ & _HEAP and not own(cls.__module__) and not i.is_made(cls):
        i.reads.add("bases", cls, None, cls.__mro__, f"the bases of {cls.__qualname__}")


def note_subclasses(i: Any, cls: type) -> None:
    """Note which subclasses a class has; they stay alive with the program."""
    if not i.is_made(cls):
        i.reads.add("heirs", cls, tuple(cls.__subclasses__()), True, f"the subclasses of {cls.__qualname__}")


def note_instance(i: Any, f: Any, x: Any, kinds: Any) -> None:
    """Note what ``isinstance`` or ``issubclass`` says, where a class itself decides that (``abc``, protocols)."""
    cls = x if f is issubclass and isinstance(x, type) else type(x)
    note_bases(i, cls)
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if not _decides(kind) or (kind in cls.__mro__ and type(kind) is abc.ABCMeta):  # nobody unregisters
            continue
        holder = cls if cls is tuple or i.is_made(x) else x  # a tuple that was made is not noted as such
        ask, word = (issubclass, "subclass") if holder is cls else (isinstance, "instance")
        i.reads.add(word, holder, kind, ask(holder, kind), f"whether {i.reads.name(x)} is a {kind.__name__}")


def _decides(kind: Any) -> bool:
    plain = type(kind) in (type, types.UnionType) or not isinstance(kind, type)
    return not plain and not own(kind.__module__)


def replaced(i: Any, base: type, name: str) -> Any:
    """The function that a user has put in the place of a method of this library's; None if it is ours. Noted."""
    value = vars(base)[name]
    if not isinstance(value, types.FunctionType):
        return None
    i.reads.add("class", base, name, value, f"{base.__qualname__}.{name}")
    return None if own(value.__module__ or "") else value


def of_super(i: Any, x: super, name: str) -> Any:
    """``super().name``."""
    start, cls = x.__thisclass__, x.__self_class__
    mro = cls.__mro__
    for base in mro[mro.index(start) + 1 :]:
        value = i.member(base, name)
        if value is not MISSING:
            return i.bound(value, None if x.__self__ is cls else x.__self__, cls)
    return getattr(x, name)
