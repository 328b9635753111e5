"""What is replaced while a program is traced: functions in dicts of names, methods of classes.

Note [Patches]: a replacement does nothing but for a thread that traces, so others may call it meanwhile. Several
threads may trace at once: a name is replaced by the first and put back by the last.
"""

import builtins
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

_lock = threading.Lock()
_missing = object()


class _Patched:
    """One replaced name."""

    def __init__(self, before: Any) -> None:
        self.before, self.count = before, 0


_patched: dict[tuple[int, str], _Patched] = {}


class Patcher:
    """Replaces names until :meth:`undo`."""

    def __init__(self) -> None:
        self._mine: dict[tuple[int, str], tuple[Any, str, bool]] = {}
        self.visited: set[int] = set()

    def item(self, names: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
        """Replace ``names[name]``, or the builtin of that name, by ``make`` of it."""
        self._replace(names, name, make, True)

    def attribute(self, owner: type, name: str, make: Callable[[Any], Any]) -> None:
        """Replace an attribute of a class by ``make`` of it."""
        self._replace(owner, name, make, False)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any], is_dict: bool) -> None:
        key = (id(owner), name)
        if key in self._mine:
            return
        names = owner if is_dict else vars(owner)
        with _lock:
            known = _patched.get(key)
            if known is None:
                known = _patched[key] = _Patched(names.get(name, _missing))
                original = getattr(builtins, name) if is_dict and known.before is _missing else (
                    known.before if is_dict else getattr(owner, name))  # fmt: skip
                _set(owner, name, make(original), is_dict)
            known.count += 1
            self._mine[key] = (owner, name, is_dict)

    def undo(self) -> None:
        """Put everything back that no other thread needs."""
        with _lock:
            for key, (owner, name, is_dict) in reversed(self._mine.items()):
                known = _patched[key]
                known.count -= 1
                if not known.count:
                    del _patched[key]
                    _set(owner, name, known.before, is_dict)
            self._mine.clear()


def _set(owner: Any, name: str, value: Any, is_dict: bool) -> None:
    if is_dict:
        if value is _missing:
            del owner[name]
        else:
            owner[name] = value
    elif value is _missing:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


class Replacements:
    """What programs with a ``trace`` of their own use in place of :class:`Patcher`: replacements last for a block.

    They hold in all threads, as PyTorch's do.
    """

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any, bool]] = []
        self.visited: set[int] = set()

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True) -> bool:
        """Replace a name of a dict, or the builtin of that name; False if that is done, and once is enough."""
        return self._replace(frame_dict, name, frame_dict.get(name, _missing), new_fn, True, deduplicate)

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> bool:
        """Replace an attribute of a class; False if that is done, and once is enough."""
        return self._replace(cls, name, vars(cls).get(name, _missing), new_fn, False, deduplicate)

    def _replace(self, owner: Any, name: str, before: Any, new: Any, is_dict: bool, once: bool) -> bool:
        if once and any(o is owner and n == name for o, n, _, _ in self._before):
            return False
        self._before.append((owner, name, before, is_dict))
        _set(owner, name, new, is_dict)
        return True

    def visit_once(self, thing: Any) -> bool:
        """Whether this is the first time that the object comes."""
        first = id(thing) not in self.visited
        self.visited.add(id(thing))
        return first

    def __enter__(self) -> "Replacements":
        return self

    def __exit__(self, *exception: object) -> None:
        while self._before:
            _set(*self._before.pop())
        self.visited.clear()


@contextlib.contextmanager
def patching() -> Iterator[Patcher]:
    """A context with a :class:`Patcher` that is undone at its end."""
    patcher = Patcher()
    try:
        yield patcher
    finally:
        patcher.undo()
