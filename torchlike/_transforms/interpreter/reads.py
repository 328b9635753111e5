"""What a captured function read of the objects that were there before, in order."""

from __future__ import annotations

import array
import collections
import weakref
from typing import Any, NamedTuple

import numpy as np

from torchlike._core.autograd.node import is_leaf
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.kinds import up_to_date
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.trust import PLAIN

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<nothing>"})()
WEAK = frozenset(("type", "dict", "slot", "attr"))  # the parts of an object that are read through a weak reference
_CONTAINERS = (dict, list, set, collections.deque, bytearray, array.array)


class Read(NamedTuple):
    """A part of ``holder`` that was ``value``.

    Attributes:
        kind: which part; see ``guards``. key: where in it. name: for people.
    """

    kind: str
    holder: Any
    key: Any
    value: Any
    name: str


class Reads:
    """All reads, each once.

    Attributes:
        found: {what was read: Read}. names: {id of an object: how the user's code reaches it}.
        optimizers: those that took a step.
        weak: {id of an object that only weak references lead to: one of these}: no program may keep it alive.
    """

    def __init__(self) -> None:
        self.weak: dict[int, Any] = {}
        self.found: dict[tuple, Read] = {}
        self.names: dict[int, str] = {}
        self.optimizers: list = []
        self._kept: list = []

    def name(self, x: Any, fallback: str | None = None) -> str:
        """How the user's code reaches ``x``."""
        return self.names.get(id(x)) or fallback or type(x).__name__

    def key(self, kind: str, holder: Any, key: Any) -> tuple[Any, ...]:
        """What tells a read from others."""
        return kind, id(holder), key if type(key) in PLAIN else id(key), type(key)

    def add(self, kind: str, holder: Any, key: Any, value: Any, name: str) -> Any:
        """Note that a part of ``holder`` was ``value``, and what its value is called; returns it."""
        if self.weak and id(holder) in self.weak:
            kind, holder = self._weakly(kind, name), self.weak[id(holder)]
        known = self.key(kind, holder, key)
        if known not in self.found:
            self.found[known] = Read(kind, holder, key, value, name)
            self._kept.append(key)
            if type(value) not in PLAIN and value is not MISSING:
                self.names.setdefault(id(value), name)
                if isinstance(value, Tensor):
                    self.tensor(value, name)
        return value

    def _weakly(self, kind: str, name: str) -> str:
        """The kind of a read through a weak reference."""
        if kind not in WEAK:
            raise Unsupported(f"reads {name} through a weak reference, which a program would keep alive")
        return f"weak {kind}"

    def referent(self, reference: Any) -> Any:
        """What a weak reference from outside refers to: that it is alive is noted, and it is not kept so."""
        value = reference()
        if value is None or id(value) in self.weak:
            return value
        if isinstance(reference, weakref.WeakMethod):  # gives another object each time, for the one that may die
            self.add("alive", reference, None, True, "the life of what a weak reference refers to")
            self.referent(weakref.ref(value.__self__))
            return value
        if not any([read.holder is value or read.value is value for read in self.found.values()]):
            self.add("alive", reference, None, True, "the life of what a weak reference refers to")
            self.weak[id(value)] = reference
        return value

    def tensor(self, t: Tensor, name: str) -> None:
        """A tensor from outside: what autograd and its storage say of it, and its hooks."""
        self.add("tensor", t, None, None, name)
        if t._ex is not None:
            self._hooks(t._ex, f"the hooks of {name}")
        if t._diff is not None:
            up_to_date(t)
            self.tensor(t._diff.base, _base_of(name))
            if t._diff.base._rg and (is_leaf(t) or t._diff.creation is not None):  # a change in place would tell
                self.add("version", t, None, t._vc.version, f"the version of {name}")

    def drop(self, t: Tensor, name: str) -> None:
        """Forget what was noted of a tensor that was not read before under another name."""
        known = self.key("tensor", t, None)
        noted = self.found.get(known)
        if noted is not None and noted.name == name:
            del self.found[known]
            self.found.pop(self.key("version", t, None), None)
            if t._diff is not None:
                self.drop(t._diff.base, _base_of(name))

    def tensors(self) -> list[Tensor]:
        """The tensors from outside that were read."""
        return [read.holder for read in self.found.values() if read.kind == "tensor"]

    def _hooks(self, d: dict[Any, Any], name: str) -> None:
        self.whole(d, name)
        for value in d.values():
            if isinstance(value, dict):
                self._hooks(value, name)

    # -- containers --------------------------------------------------------------------------------
    def entry(self, d: dict[Any, Any], key: Any, name: str | None = None) -> Any:
        """``d[key]`` of a dict, or MISSING."""
        return self.add("entry", d, key, dict.get(d, key, MISSING), name or entry_name(self.name(d), key))

    def whole(self, x: Any, name: str | None = None) -> None:
        """All that a container holds."""
        name = name or self.name(x)
        if isinstance(x, np.ndarray):
            self.add("array", x, None, None, name)
            if x.dtype == object:
                for value in x.flat:
                    self.names.setdefault(id(value), name)
            return
        self.add("whole", x, None, None, name)
        if isinstance(x, dict):
            for key, value in dict.items(x):
                self._element(value, entry_name(name, key))
        elif not isinstance(x, bytearray | array.array):
            for i, value in enumerate(x):
                self._element(value, f"{name}[{i}]")

    def _element(self, value: Any, name: str) -> None:
        if type(value) not in PLAIN:
            self.names.setdefault(id(value), name)
            if isinstance(value, Tensor):
                self.tensor(value, name)

    def length(self, x: Any) -> int:
        """How many elements a container has."""
        return self.add("len", x, None, len(x), f"the length of {self.name(x)}")


def _base_of(name: str) -> str:
    return f"{name}._base"


def entry_name(name: str, key: Any) -> str:
    """How ``key`` of what is called ``name`` is called."""
    if isinstance(key, str) and key.isidentifier():
        return f"{name}.{key}"
    return f"{name}[{key!r}]" if type(key) in PLAIN else f"{name}[a {type(key).__name__}]"


def is_container(x: Any) -> bool:
    """Whether ``x`` is a built-in container that can change, or of a class made of one."""
    return isinstance(x, _CONTAINERS) or isinstance(x, np.ndarray)
