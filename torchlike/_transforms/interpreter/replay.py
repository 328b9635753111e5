"""What calls of a program do to Python objects: the operations that a capture noted, with the values of each call.

A value is one of five things: the same object in every call (``const``), a number that is computed anew (``number``),
a tensor that the program makes or is given (``tensor``), a container or object that is made anew (``build``),
or a container of the arguments (``given``).
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import enum
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.capture.structure import Attributes
from torchlike._transforms.interpreter.trust import PLAIN

if TYPE_CHECKING:
    from torchlike._transforms.capture.calling import Writer
    from torchlike._transforms.interpreter.run import Interpreter

_FIXED = PLAIN | {
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType, dtype, device, np.dtype,
}  # fmt: skip
_SEQUENCES = (list, tuple, set, collections.deque)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


class Replay:
    """The operations at the end of each call.

    Attributes:
        tensors: those that they store, each once. numbers: what gives each number that is computed anew.
        builds: (how, parts) of each container or object, after those it holds. ops: (function, target, values).
        passes: whether any of this is a container of the arguments.
    """

    def __init__(self, interpreter: Interpreter, ops: Sequence[Any], out: Any, given: Mapping[int, int]) -> None:
        self.tensors, self.numbers, self.builds, self.ops = [], [], [], []
        self._interpreter, self._known, self._places, self._given = interpreter, {}, {}, given
        for op in ops:
            target = ("given", given[id(op.target)]) if id(op.target) in given else ("const", op.target)
            self.ops.append((op.function, target, [self._value(v) for v in op.args]))
        values = [
            *[v for _, target, args in self.ops for v in (target, *args)],
            *[v for _, parts in self.builds for v in parts],
        ]
        self.passes = any([how == "given" for how, _ in values])
        returned = self._returned(out)
        if any([key in returned for key in self._known]):
            interpreter.refuse_change("returns a container that it also stores elsewhere")
        del self._interpreter, self._known, self._places, self._given

    def _returned(self, x: Any) -> set[int]:
        """The ids of the containers and objects in a result."""
        found, stack = set(), [x]
        while stack:
            x = stack.pop()
            if type(x) in PLAIN or isinstance(x, Tensor) or id(x) in found or id(x) in self._given:
                continue
            found.add(id(x))
            if isinstance(x, dict):
                stack += dict.values(x)
            elif isinstance(x, tuple | list | set | frozenset | collections.deque):
                stack += x
            else:
                simple = dataclasses.is_dataclass(x) or is_simple(x) and self._interpreter.is_made(x)
                stack += vars(x).values() if simple and hasattr(x, "__dict__") else ()
        return found

    # -- values --------------------------------------------------------------------------------------
    def _value(self, x: Any) -> tuple[str, Any]:
        """How ``x`` is made in every call."""
        kind = type(x)
        if kind is Number:
            return self._place("number", x.get, self.numbers)
        if isinstance(x, Tensor):
            self._demand_simple(x)
            return self._place("tensor", x, self.tensors)
        if kind in PLAIN:
            return "const", x
        if id(x) in self._given:
            return "given", self._given[id(x)]
        if id(x) in self._known:
            return self._built(x)
        if kind is slice or kind is frozenset or (kind is tuple and not self._interpreter.is_made(x)):
            parts = [self._value(v) for v in ((x.start, x.stop, x.step) if kind is slice else x)]
            if all([how == "const" for how, _ in parts]):
                return "const", x
        if kind is tuple or self._interpreter.is_made(x):
            return self._made(x, kind)
        if self._outside(x, kind):
            return "const", x
        return self._refuse(x)

    def _refuse(self, x: Any) -> NoReturn:
        return self._interpreter.refuse_change(f"stores a {type(x).__name__}, which a program does not make anew")

    def _outside(self, x: Any, kind: Any) -> bool:
        if kind in _FIXED or isinstance(x, type | enum.Enum | np.generic):
            return True
        return id(x) in self._interpreter.reads.names

    def _demand_simple(self, t: Tensor) -> None:
        """Refuse tensors that are made inside and are more than a value with its history."""
        i = self._interpreter
        if not i.owns(t):
            return
        if i.mapped:
            i.refuse_change("stores a tensor, and changes objects in a function that is transformed")
        leaf = t._rg and (t._edge is None or t._edge[0] is None)
        if type(t) is not Tensor or leaf or t._grad is not None or getattr(t, "__dict__", None) or t._ex:
            self._refuse(t)

    def _place(self, kind: str, x: Any, found: Any) -> tuple[str, int]:
        known = self._places.get((kind, id(x)))
        if known is None:
            known = self._places[kind, id(x)] = len(found)
            found.append(x)
        return kind, known

    def _built(self, x: Any) -> tuple[str, int]:
        place = self._known[id(x)]
        return self._refuse(x) if place is None else ("build", place)

    def _made(self, x: Any, kind: Any) -> tuple[str, int]:
        """A container or object of the capture."""
        self._known[id(x)] = None  # until its parts are known: it cannot hold itself
        if id(x) in self._interpreter.given:
            self._interpreter.refuse_change("stores the attributes of an argument")
        if kind in _SEQUENCES:
            how, parts = _sequence(kind, x), list(x)
        elif kind in _DICTS:
            how, parts = _dict(kind, x), [*x.keys(), *x.values()]
            if kind is collections.defaultdict and self._value(x.default_factory)[0] != "const":
                self._refuse(x)
        elif is_simple(x) and not self._interpreter.is_made(kind):
            how, parts = Attributes(kind, tuple(vars(x))).make, list(vars(x).values())
        else:
            return self._refuse(x)
        self.builds.append((how, [self._value(v) for v in parts]))
        self._known[id(x)] = len(self.builds) - 1
        return "build", self._known[id(x)]

    def take(self) -> list[Any]:
        """The tensors, which nobody keeps any more."""
        taken, self.tensors = self.tensors, []
        return taken

    # -- code ------------------------------------------------------------------------------------------
    def begin(self, w: Writer) -> None:
        """Write what is read before anything changes."""
        w.add(*[f"n{k} = {w.keep(get)}()" for k, get in enumerate(self.numbers)])

    def write(self, w: Writer, tensors: Any, leaves: int) -> None:
        """Write the operations; ``tensors``: expressions for those of ``tensors``; ``leaves``: how many arguments."""
        names = {
            "number": lambda k: f"n{k}", "tensor": lambda k: tensors[k], "build": lambda k: f"v{k}",
            "given": lambda k: f"leaves[{leaves + k}]",
        }  # fmt: skip

        def source(value: tuple[str, Any]) -> str:
            how, x = value
            return w.keep(x) if how == "const" else names[how](x)

        for k, (how, parts) in enumerate(self.builds):
            w.add(f"v{k} = {w.keep(how)}([{', '.join(map(source, parts))}])")
        for function, target, values in self.ops:
            w.add(f"{w.keep(function)}({', '.join([source(target), *map(source, values)])})")


def is_simple(x: Any) -> bool:
    """Whether an object is its class and its attributes."""
    kind: Any = type(x)
    if not kind.__flags__ & 1 << 9 or kind.__new__ is not object.__new__ or not kind.__dictoffset__:
        return False
    slots = [v for base in kind.__mro__ for v in vars(base).values() if type(v) is types.MemberDescriptorType]
    finalized = hasattr(kind, "__del__") or issubclass(kind, BaseException)
    return type(kind) in (type, abc.ABCMeta) and not slots and not finalized


def _sequence(kind: Any, x: Any) -> Callable[..., Any]:
    if kind is collections.deque:
        n = x.maxlen
        return lambda parts: kind(parts, n)
    return kind


def _dict(kind: Any, x: Any) -> Callable[..., Any]:
    n, factory = len(x), getattr(x, "default_factory", None)

    def make(parts: Any) -> Any:
        pairs = zip(parts[:n], parts[n:], strict=True)
        return kind(pairs) if kind is not collections.defaultdict else kind(factory, pairs)

    return make
