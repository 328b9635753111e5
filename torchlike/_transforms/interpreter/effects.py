"""What a captured function changes of Python objects from outside: an overlay, and a list for later calls.

Note [Effects]
~~~~~~~~~~~~~~
Nothing outside changes before the program has run: the capture may yet come to nothing, and other threads see the
objects. So a change is noted here, and the function reads the new value from here:

* an entry of a dict (those of ``__dict__`` are the attributes of an object), an element of a list, a variable of a
  closure, a slot, a member of a class: an operation with one value, which a later one replaces;
* what puts something into a container without looking (``append``, ``add``, ``update``): operations, in their order;
* anything else, also a read by code that is not interpreted, needs the whole container: all of it is guarded and
  copied, the operations are done on the copy, and from then on the copy is what the function sees (``contents``).
  In the end its difference from what it was becomes operations again.

Operations name their values as the capture knows them; :mod:`replay` says how each call of the program makes these.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN

ABSENT: Any = object()  # no change is known
OPEN = (types.ModuleType, types.SimpleNamespace, types.FunctionType)  # whose attributes are those of __dict__
_BASES = (collections.OrderedDict, collections.defaultdict, dict, list, set, collections.deque)
MUTATORS = frozenset((
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard", "update", "setdefault",
    "popitem", "move_to_end", "appendleft", "extendleft", "popleft", "rotate", "difference_update", "fill", "put",
    "intersection_update", "symmetric_difference_update", "resize", "partition", "setfield", "setflags", "itemset",
    "byteswap", "__setitem__", "__delitem__", "__iadd__", "__imul__", "__ior__", "__iand__", "__isub__", "__ixor__",
    "__init__", "__setstate__",
))  # fmt: skip
# The methods that neither read the container nor call code of its elements.
BLIND = {
    list: ("append", "extend", "insert", "__iadd__"),
    set: ("add", "update", "discard", "__ior__"),
    collections.deque: ("append", "appendleft", "extend", "extendleft", "__iadd__"),
}


class Op:
    """``function(target, *args)``, at its place in the order of all."""

    __slots__ = ("function", "target", "args", "order")

    def __init__(self, function: Callable[..., Any], target: Any, args: tuple[Any, ...], order: int) -> None:
        self.function, self.target, self.args, self.order = function, target, args, order


class Changed:
    """A container from outside that the function changes, or that it reads as a whole.

    Attributes:
        base: the class, written in C, that it is made of. entries: {key: the operation that sets or deletes it}.
        ops: all operations. contents: the copy that the function sees, or None. before: what that was at first,
            None if it does not matter. order: of the first operation.
    """

    __slots__ = ("x", "base", "entries", "ops", "contents", "before", "order")

    def __init__(self, x: Any, order: int) -> None:
        self.x, self.base, self.order = x, base_of(x), order
        self.entries, self.ops, self.contents, self.before = {}, [], None, None

    def dirty(self) -> bool:
        """Whether the function has changed it."""
        if self.contents is None:
            return bool(self.ops)
        if self.before is None or len(self.before) != len(self.contents):
            return True
        if issubclass(self.base, dict):
            pairs = zip(self.before.items(), self.contents.items(), strict=True)
            return any([k is not n or v is not m for (k, v), (n, m) in pairs])
        if self.base is set:
            return self.before != self.contents
        return any([a is not b for a, b in zip(self.before, self.contents, strict=True)])

    def growth(self) -> int | None:
        """By how many elements a list grows, None if that is not known without looking into it."""
        if self.contents is not None or self.base is not list:
            return None
        grown = [op for op in self.ops if op.function is not list.__setitem__]
        return sum([len(op.args[0]) if op.function in (list.extend, list.__iadd__) else 1 for op in grown])

    def length(self) -> int | None:
        """How many elements it has in the end, if that is known."""
        if self.contents is not None:
            return len(self.contents)
        growth = self.growth()
        return None if growth is None else len(self.x) + growth

    def entry(self, key: Any) -> Any:
        """What the function has set for ``key``: a value, MISSING if it deleted it, ABSENT if it did neither."""
        op = self.entries.get(key)
        if op is None:
            return ABSENT
        return op.args[1] if len(op.args) == 2 else MISSING

    def put(self, key: Any, value: Any, order: int) -> None:
        """Note that an entry is set; ``MISSING`` deletes it."""
        known = self.entries.get(key)
        if known is not None and len(known.args) == 2 and value is not MISSING:
            known.args = known.args[0], value
            return
        op = Op(self.base.__setitem__, self.x, (key, value), order)
        if value is MISSING:
            op.function, op.args = self.base.__delitem__, (key,)
        self.entries[key] = op
        self.ops.append(op)

    def copy(self) -> None:
        """See it as a whole from now on."""
        self.before, self.contents = copied(self.x, self.base), copied(self.x, self.base)
        for op in self.ops:
            op.function(self.contents, *op.args)
        self.ops, self.entries = [], {}

    def empty(self) -> None:
        """It is cleared: what it was does not matter."""
        self.contents, self.before, self.ops, self.entries = fresh(self.x, self.base), None, [], {}

    def operations(self) -> list[Op]:
        """The operations that make it what the function sees, of those of ``ops`` or of the difference."""
        if self.contents is None:
            return self.ops
        return [Op(f, self.x, args, self.order) for f, args in self._difference()] if self.dirty() else []

    def _difference(self) -> list[tuple[Any, tuple[Any, ...]]]:
        base: Any = self.base
        new: Any = self.contents
        if issubclass(base, dict):
            return self._entries_changed(new)
        if self.before is None or base is collections.deque:
            return [(base.clear, ()), (base.update if base is set else base.extend, (list(new),))]
        if base is set:
            return [(set.difference_update, (list(self.before - new),)), (set.update, (list(new - self.before),))]
        return [(list.__setitem__, (slice(None), list(new)))]

    def _entries_changed(self, new: Any) -> list[tuple[Any, tuple[Any, ...]]]:
        base, before = self.base, self.before
        kept = None if before is None else [k for k in before if k in new]
        if kept is None or list(new)[: len(kept)] != kept:
            return [(base.clear, ()), *[(base.__setitem__, pair) for pair in new.items()]]
        deleted = [(base.__delitem__, (k,)) for k in before if k not in new]
        return deleted + [(base.__setitem__, (k, v)) for k, v in new.items() if before.get(k, ABSENT) is not v]


def base_of(x: Any) -> Any:
    """The class in C that a container is made of; None for others."""
    return next((base for base in _BASES if isinstance(x, base)), None)


def fresh(x: Any, base: Any) -> Any:
    """An empty container like ``x``."""
    if base is collections.defaultdict:
        return base(x.default_factory)
    return base([], x.maxlen) if base is collections.deque else base()


def copied(x: Any, base: Any) -> Any:
    """A container of class ``base`` that holds what ``x`` holds."""
    new = fresh(x, base)
    if issubclass(base, dict):
        new.update(base.items(x))
    elif base is set:
        set.update(new, x)
    else:
        new.extend(base.__iter__(x))
    return new


def is_key(x: Any) -> bool:
    """Whether hashing and comparing ``x`` runs no code of the user's."""
    if isinstance(x, tuple):
        return all(map(is_key, x))
    return type(x) in PLAIN or type(x).__hash__ is object.__hash__ or isinstance(x, type)  # type: ignore[comparison-overlap]


def set_cell(cell: Any, value: Any) -> None:
    """Let a variable of a closure be ``value``."""
    cell.cell_contents = value


def delete_cell(cell: Any) -> None:
    """Let a variable of a closure have no value."""
    del cell.cell_contents
