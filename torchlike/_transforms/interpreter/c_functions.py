"""Calls of functions and methods that C defines, and the functions of the language that ask objects."""

from __future__ import annotations

import bisect
import builtins
import collections
import contextvars
import functools
import heapq
import math
import operator
import os
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from torchlike._base.home import OURS, home
from torchlike._core.autograd.node import next_sequence
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.interpreter import trust
from torchlike._transforms.interpreter.ancestry import note_instance, note_subclasses
from torchlike._transforms.interpreter.arrays import Arrays
from torchlike._transforms.interpreter.effects import MUTATORS, base_of
from torchlike._transforms.interpreter.operators import IN_PLACE, OPERATORS
from torchlike._transforms.interpreter.reads import MISSING, is_container
from torchlike._transforms.interpreter.trust import PLAIN, own

_NO_RESULT = object()
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_FUNCTIONS = {abs: "__abs__", repr: "__repr__", hash: "__hash__", round: "__round__", format: "__format__",
              operator.index: "__index__", os.fspath: "__fspath__"}  # fmt: skip
_ITERATE = frozenset((all, any, sum, min, max, sorted, functools.reduce, math.fsum, math.prod))
_CHANGE_FIRST = frozenset((
    *[f for m in (bisect, heapq) for f in vars(m).values() if type(f) is types.BuiltinFunctionType],
    collections._count_elements,  # type: ignore[attr-defined]
))  # fmt: skip
_ARITHMETIC = frozenset((abs, min, max, pow, round))
_VIEWS = frozenset(("keys", "values", "items", "__iter__", "__reversed__"))
_KEYED = frozenset((map, filter, sorted, max, min, functools.reduce, list.sort))
# What asks a class of itself, or makes an alias of it: `Generic` is written in C from Python 3.12 on.
_OF_CLASSES = frozenset(("__subclasscheck__", "mro", "__class_getitem__", "__init_subclass__"))


def caller_handles() -> bool:
    """Whether an exception is being handled."""
    return sys.exc_info()[1] is not None


class CFunctions(Arrays):
    """The part of the interpreter that calls what is written in C."""

    # -- functions in C --------------------------------------------------------------------------------
    def _written_in_c(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        special = _SPECIAL.get(f) if type(f) is types.BuiltinFunctionType else None
        if special is not None:
            return special(self, *args, **kwargs)
        if f is next_sequence:  # this library's own count
            return f()
        owner, name = getattr(f, "__self__", None), f.__name__
        if type(f) in DESCRIPTORS:
            return self._method_of_c(f, args[0], name, args[1:], kwargs) if args else f()
        if owner is None or isinstance(owner, types.ModuleType):
            return self._of_c_module(f, owner, name, args, kwargs)
        if isinstance(owner, type):
            return self._of_c_class(f, owner, name, args, kwargs)
        return self._method_of_c(f, owner, name, args, kwargs)

    def _of_c_module(
        self, f: Any, owner: types.ModuleType | None, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        module = f.__module__ or getattr(owner, "__name__", "")
        if f in _FUNCTIONS and args:
            method = self.method(args[0], _FUNCTIONS[f])
            if method is not None:
                return self.call(method, args[1:], kwargs)
        if f is sum and self.listener is not None:
            return self._sum(*args, **kwargs)
        self.shows_arrays(f, args)
        pure = f in trust.PURE or module in trust.PURE_MODULES
        if f is sys._getframe:  # by what makes a class, for the name of its module; by us, for the line of a warning
            asks = self.frame.globals.get("__name__", "")
            pure = asks in ("collections", "enum", "typing") or home(asks).partition(".")[0] == OURS
        if f is callable and not isinstance(args[0], type | Tensor) and not trust.trusted_class(type(args[0])):
            return self.in_class(type(args[0]), "__call__") is not MISSING
        if f in _CHANGE_FIRST and args and base_of(args[0]) is not None:
            if not self.is_made(args[0]):
                return self.change_first(f, args, kwargs)
            self.change(args[0], f"changes a {type(args[0]).__name__} ({f.__name__})")
            pure = True
        if self.lives and not kwargs and (module == "math" or f in _ARITHMETIC) and self._all_numbers(args):
            return self.combined(f, *args)
        if self.lives and f is isinstance and type(args[0]) is Number:
            args = (args[0].value, *args[1:])  # whose type is guarded
        if not pure and not (trust.trusted_name(module) and not trust.changing(f)):
            if module == "_warnings" and own(self.frame.globals.get("__name__", "")):
                return self.native(f, args, kwargs)
            self._refuse_random(module)
            self.refuse(f"calls {module}.{name}, which cannot be part of a program")
        args = self._drained(self.presented(args)) if f in _ITERATE else self.presented(args)
        if f in _KEYED or trust.trusted_name(module):
            args, kwargs = self.wrapped(args, kwargs)
        if f in (isinstance, issubclass) and len(args) == 2:
            note_instance(self, f, *args)
        elif f not in (callable, id, hash):
            self.expose(*args, *kwargs.values())
        return self.native(f, args, kwargs)

    def _sum(self, values: Any, start: Any = 0) -> Any:
        """``sum``, one addition after the other, each of which a listener hears of."""
        for value in self._drain(self.iterate(values)):
            start = self.binary("+", start, value)
        return start

    def _handled_error(self) -> tuple[Any, Any, Any]:
        """``sys.exc_info``."""
        frame = self.frame
        while frame is not None and frame.handled is None:
            frame = frame.back
        if frame is None:
            if self._setting(caller_handles):
                self.refuse("asks for the exception that its caller handles")
            return None, None, None
        return type(frame.handled), frame.handled, self.new(frame.handled.__traceback__)

    def _setting(self, f: Any) -> Any:
        """What a function without arguments says that changes only where it is set."""
        return self.reads.add("setting", f, None, f(), f.__name__)

    def _all_numbers(self, values: Iterable[Any]) -> bool:
        return any([type(v) is Number for v in values]) and all([type(v) in (Number, float, int) for v in values])

    def _of_c_class(self, f: Any, owner: type, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if name == "__new__" and args and isinstance(args[0], type):
            if args[0] is not type and not issubclass(args[0], type):
                self._demand_settled(owner)
                self.expose(*args[1:])
                return self.native(f, args, kwargs)
        if f in trust.ALTERNATE or trust.trusted_name(owner.__module__) or name in _OF_CLASSES:
            self.expose(*args, *kwargs.values())
            return self.native(f, args, kwargs)
        if name == "__subclasses__" and isinstance(getattr(f, "__self__", None), type) and not args:
            note_subclasses(self, owner)
            return self.native(f, args, kwargs)
        if name == "__instancecheck__" or (name == "fromkeys" and issubclass(owner, dict)):
            return self.native(f, args, kwargs)
        return self.refuse(f"calls {owner.__name__}.{name}, which cannot be part of a program")

    def _method_of_c(self, f: Any, x: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A method that C defines, of ``x``."""
        self.writes_arrays(f, args, kwargs, x)
        if name in trust.ARRAYS_TO_FILES and isinstance(x, np.ndarray):
            self.refuse(f"calls ndarray.{name}, which writes a file")
        simple = _OBJECT.get(name)
        if simple is not None and not isinstance(x, type | Tensor):
            return getattr(self, simple)(x, *args)
        if isinstance(x, Tensor):
            return self.leaf(f, args if hasattr(f, "__self__") else (x, *args), kwargs)
        if is_container(x):
            result = self._of_container(f, x, name, args, kwargs)
            if result is not _NO_RESULT:
                return result
        elif isinstance(x, contextvars.ContextVar):
            return self._variable(f, x, name, args)
        elif isinstance(x, types.MappingProxyType):
            self.expose(x)
        elif name == "__next__":
            return self.following(x)
        elif not self._harmless(x, name):
            self._refuse_random(type(x).__module__)
            self.refuse(f"calls {type(x).__name__}.{name}, which cannot be part of a program")
        if name in ("extend", "update", "join", "union", "extendleft", "intersection", "difference", "__init__"):
            args = self._drained(self.presented(args))
        if name == "sort":
            args, kwargs = self.wrapped(args, kwargs)
        if name not in ("append", "add", "__setitem__", "insert"):
            self.expose(*args, *kwargs.values())
        return self.native(f, args if hasattr(f, "__self__") else (x, *args), kwargs)

    def _refuse_random(self, module: str) -> None:
        if module.split(".")[0] in ("_random", "random") or module.startswith("numpy.random"):
            self.refuse("draws from random or numpy.random, which a program would not do again; use torch.rand")

    def _harmless(self, x: Any, name: str) -> bool:
        """Whether a C method of ``x`` changes nothing that was there before, and depends on nothing else."""
        if type(x) in PLAIN or self.is_made(x) or isinstance(x, tuple | frozenset | slice | str | int | float):
            return True
        module = type(x).__module__
        if name in ("__eq__", "__ne__", "__hash__", "__repr__", "__str__", "__format__", "__reduce_ex__", "__get__"):
            return True
        if isinstance(x, type):
            return name in ("__instancecheck__", "__subclasscheck__", "mro", "__subclasses__", "__or__", "__call__")
        return trust.trusted_name(module) and not module.startswith("numpy.random") or module in ("datetime", "re")

    def _of_container(self, f: Any, x: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self.is_made(x):
            if name in MUTATORS:
                self.change(x, f"changes a container ({name})")
            return _NO_RESULT
        if name in MUTATORS:
            return self.change_by(f, x, name, args, kwargs)
        if isinstance(x, dict) and args and name in ("get", "__getitem__", "__contains__"):
            if name == "__getitem__":
                return self._entry(x, args[0])
            if name == "__contains__":
                return self.has_key(x, args[0])
            value = self.held(x, args[0])
            return (args[1] if len(args) > 1 else None) if value is MISSING else value
        if name == "__len__":
            return self.length(x)
        base = base_of(x)
        if base is not None and (name in _VIEWS or self.touched(x)):
            self.expose(*args)
            return self.native(getattr(base, name), (self.contents(x), *args), kwargs)
        self.reads.whole(x)
        return _NO_RESULT

    def _variable(self, f: Any, x: Any, name: str, args: tuple[Any, ...]) -> Any:
        if name != "get":
            self.refuse(f"sets the context variable {x.name}")
        return self.reads.add("variable", x, args, x.get(*args), x.name)

    # -- functions of the language -----------------------------------------------------------------------
    def get(self, x: Any, name: str, *default: Any) -> Any:
        """``getattr``."""
        try:
            return self.attribute(x, name)
        except AttributeError:
            if not default:
                raise
            return default[0]

    def has(self, x: Any, name: str) -> bool:
        """``hasattr``."""
        try:
            self.attribute(x, name)
        except AttributeError:
            return False
        return True

    def next_or(self, x: Any, *default: Any) -> Any:
        """``next``."""
        try:
            return self.following(x)
        except StopIteration:
            if not default:
                raise
            return default[0]

    def iterate_from(self, x: Any, *sentinel: Any) -> Any:
        """``iter``."""
        return self.native(iter, (self.wrap(x), *sentinel), {}) if sentinel else self.iterate(x)

    def variables(self, *x: Any) -> Any:
        """``vars``."""
        return self.attribute(x[0], "__dict__") if x else self.refuse("calls vars() of its own variables")


_SPECIAL: dict[Any, Any] = {
    getattr: CFunctions.get, hasattr: CFunctions.has, setattr: lambda i, *a: i.set_attribute(*a),
    delattr: lambda i, *a: i.delete_attribute(*a), iter: CFunctions.iterate_from, next: CFunctions.next_or,
    len: lambda i, x: i.length(x), vars: CFunctions.variables,
    builtins.__build_class__: lambda i, *a, **k: i.build_class(*a, **k),
    operator.getitem: lambda i, *a: i.item(*a), operator.setitem: lambda i, *a: i.set_item(*a),
    sys.exc_info: CFunctions._handled_error, sys.getrecursionlimit: lambda i: i._setting(sys.getrecursionlimit),
    operator.contains: lambda i, *a: i.contains(*a), operator.truth: lambda i, x: i.truth(x),
}  # fmt: skip
_SPECIAL |= {
    f: lambda i, x, y, symbol=symbol: i.binary(symbol, x, y) for symbol, (f, *_) in OPERATORS.items() if f in IN_PLACE
} | {operator.iconcat: lambda i, x, y: i.binary("+=", x, y), operator.delitem: lambda i, *a: i.delete_item(*a)}
_OBJECT = {"__getattribute__": "generic", "__setattr__": "set_generic", "__delattr__": "delete_generic"}
