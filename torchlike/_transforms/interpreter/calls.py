"""Calls: of functions that are interpreted, of classes, of C functions whose effects are known, and of all others."""

from __future__ import annotations

import builtins
import collections
import contextvars
import functools
import inspect
import math
import operator
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from torchlike._base.state import CAPTURE, state
from torchlike._core.autograd.node import Node, next_sequence
from torchlike._core.overrides.doors import is_door
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.references import VARIABLE
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.interpreter import trust
from torchlike._transforms.interpreter.ancestry import note_instance
from torchlike._transforms.interpreter.arrays import Arrays
from torchlike._transforms.interpreter.classes import MAKERS
from torchlike._transforms.interpreter.effects import MUTATORS, base_of
from torchlike._transforms.interpreter.loop import coroutine_of
from torchlike._transforms.interpreter.native import Net, open_net
from torchlike._transforms.interpreter.operators import IN_PLACE, OPERATORS, UNARY, as_given, subscript
from torchlike._transforms.interpreter.reads import MISSING, is_container
from torchlike._transforms.interpreter.trust import PLAIN, own, trusted, trusted_class
from torchlike._transforms.interpreter.weak_references import demand_no_callback, referent

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.run import Interpreter

_NONE: dict = {}
_NO_RESULT = object()
_CACHED = type(functools.lru_cache(lambda: None))
_told: weakref.WeakSet = weakref.WeakSet()  # cached functions of which a warning has told
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_CALM = PLAIN | {Tensor, slice}
_OF_GRADIENTS = frozenset(("_step_unless", "_unscale", "_nonfinite"))  # by a GradScaler
_OF_OPTIMIZERS = _OF_GRADIENTS | {"step", "zero_grad"}
_CALLS_BACK = frozenset(("backward", "grad", "apply", "register_hook", "__call__", "step"))
_CONVERSIONS = {int: "__int__", float: "__float__", str: "__str__", complex: "__complex__", bytes: "__bytes__"}
_FUNCTIONS = {abs: "__abs__", repr: "__repr__", hash: "__hash__", round: "__round__", format: "__format__",
              operator.index: "__index__"}  # fmt: skip
_OPERATORS = frozenset([f for f, *_ in (*OPERATORS.values(), *UNARY.values())] + [subscript, getattr, bool, len, iter])
_ITERATE = frozenset((all, any, sum, min, max, sorted, functools.reduce, math.fsum, math.prod))
_COLLECT = frozenset((list, tuple, set, frozenset, enumerate, zip, map, filter, collections.deque))
_ARITHMETIC = frozenset((abs, min, max, pow, round))
_VIEWS = frozenset(("keys", "values", "items", "__iter__", "__reversed__"))
_KEYED = frozenset((map, filter, sorted, max, min, functools.reduce, list.sort))
# What asks a class of itself, or makes an alias of it: `Generic` is written in C from Python 3.12 on.
_OF_CLASSES = frozenset(("__subclasscheck__", "mro", "__class_getitem__", "__init_subclass__"))


class Calls(Arrays):
    """The part of the interpreter that calls."""

    # -- entry -------------------------------------------------------------------------------------
    def call(self, f: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NONE) -> Any:
        """``f(*args, **kwargs)``."""
        kind = type(f)
        if kind is types.FunctionType:
            return self._function(f, args, kwargs)
        if kind is types.MethodType:
            return self.call(f.__func__, (f.__self__, *args), kwargs)
        if kind in _C_KINDS:
            return self._written_in_c(f, args, kwargs)
        if isinstance(f, type):
            return self._construct(f, args, kwargs)
        return self._object(f, kind, args, kwargs)

    def _object(self, f: Any, kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if kind is Interpreted:
            return self.call(f.__wrapped__, args, kwargs)
        if kind is functools.partial:
            if not self.is_made(f):
                self.reads.whole(f.keywords)
            return self.call(f.func, (*f.args, *args), {**f.keywords, **kwargs})
        if "cython_function" in kind.__name__:
            self._refuse_random(getattr(f, "__module__", None) or type(f.__self__).__module__)
        if kind is _CACHED:
            if own(f.__module__):  # this library keeps only what follows from the arguments
                return self.leaf(f, args, kwargs)
            return self._ignoring_cache(f, args, kwargs)
        if kind in _GETTERS:
            return self._getter(f, args[0])
        if isinstance(f, weakref.ref):
            return referent(self, f)
        inner = getattr(kind, "_interpreted", None)
        if inner is not None:
            return self.call(getattr(f, inner), args, kwargs)
        if trusted_class(kind):
            return self.leaf(f, args, kwargs)
        found = self.in_class(kind, "__call__")
        if found is MISSING:
            raise TypeError(f"{kind.__name__!r} object is not callable")
        return self.call(self.bound(found, f, kind), args, kwargs)

    def _ignoring_cache(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call of a user's cached function, as PyTorch's compiler makes it: of the function itself."""
        if f not in _told:
            _told.add(f)
            text = (
                f"torch.compile ignores the functools.lru_cache of {f.__qualname__} and calls the function itself: "
                "what it does, or gives otherwise in later calls, happens in the compiled function too"
            )
            self.native(warnings.warn, (text,), {})
        return self.call(f.__wrapped__, args, kwargs)

    def _getter(self, f: Any, x: Any) -> Any:
        kind, given = f.__reduce__()[:2]
        if kind is operator.itemgetter:
            found = [self.item(x, key) for key in given]
        elif kind is operator.attrgetter:
            found = [functools.reduce(self.attribute, name.split("."), x) for name in given]
        else:
            keywords = kind.keywords if isinstance(kind, functools.partial) else {}
            return self.call(self.attribute(x, given[0]), tuple(given[1:]), {**keywords})
        return found[0] if len(found) == 1 else tuple(found)

    # -- functions in Python -------------------------------------------------------------------------
    def _function(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if trusted(f) and not any(map(self._users, f.__closure__ or ())):
            return self.leaf(f, args, kwargs)
        if f.__name__ in _OF_OPTIMIZERS and own(f.__globals__["__name__"]) and not getattr(f, "hooked", False):
            known = args and hasattr(type(args[0]), "_unguarded")
            if known and (f.__name__ in _OF_GRADIENTS or self._steps_itself(type(args[0]))):
                return self._optimizer(f, args, kwargs)
        return self.class_of(f, args, kwargs) if f in MAKERS else self.interpret(f, args, kwargs)

    def _users(self, cell: Any) -> bool:
        """Whether a closure's cell holds functions or objects whose code is interpreted."""
        try:
            value = cell.cell_contents
        except ValueError:
            return False
        values = value if isinstance(value, list | tuple) else (value,)
        return any([not trusted(v) if isinstance(v, types.FunctionType) else self.is_watched(v, True) for v in values])

    def is_watched(self, x: Any, objects: bool = False) -> bool:
        """Whether a function, method or partial (also an object that is called) has code that is interpreted."""
        if isinstance(x, functools.partial):
            return self.is_watched(x.func, True)
        if isinstance(x, types.MethodType):
            return self.is_watched(x.__func__)
        if isinstance(x, types.FunctionType):
            return not trusted(x) or any(map(self._users, x.__closure__ or ()))
        return objects and callable(x) and not isinstance(x, type) and not trusted_class(type(x))

    def _steps_itself(self, cls: type) -> bool:
        """Whether the step of a class of optimizers is this library's."""
        return own(next((base.__module__ for base in cls.__mro__ if "step" in vars(base)), ""))

    def _optimizer(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A step of this library's: its numbers are inputs, its parameters and state are guarded as a whole."""
        if not any(x is args[0] for x in self.reads.optimizers):
            self.reads.optimizers.append(args[0])
        self.untouched(args[0])
        return self.native(f, *self.wrapped(args, kwargs), calm=True)

    def interpret(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a Python function instruction by instruction."""
        if not self.is_made(f):
            self.reads.add("code", f, None, None, f.__qualname__)
        flags = f.__code__.co_flags
        if flags & inspect.CO_ASYNC_GENERATOR:
            self.refuse(f"calls the asynchronous generator {f.__qualname__}")
        frame = self.frame_of(f, self._bound(f, args, kwargs))
        if flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            made = self.generators[id(frame)] = self.generator(frame)
            if not flags & inspect.CO_COROUTINE:
                return self.new(made)
            coroutine = coroutine_of(made)
            coroutine.__name__, coroutine.__qualname__ = f.__name__, f.__qualname__
            return self.new(coroutine)
        door = self.door()
        return self.run(frame) if door is None else door(self.run, (frame,), _NONE)

    def _bound(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        code, made = f.__code__, self.is_made(f)
        n, k = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames
        local, rest = dict(zip(names[:n], args, strict=False)), {}
        for key, value in kwargs.items():
            if key in names[code.co_posonlyargcount : n + k]:
                if key in local:
                    raise TypeError(f"{f.__qualname__}() got multiple values for argument {key!r}")
                local[key] = value
            elif code.co_flags & inspect.CO_VARKEYWORDS:
                rest[key] = value
            else:
                raise TypeError(f"{f.__qualname__}() got an unexpected keyword argument {key!r}")
        if len(args) > n and not code.co_flags & inspect.CO_VARARGS:
            raise TypeError(f"{f.__qualname__}() takes {n} positional arguments but {len(args)} were given")
        defaults = f.__defaults__ or ()
        for name, value in zip(names[n - len(defaults) : n], defaults, strict=True):
            if name not in local:
                local[name] = value
                if not made:
                    self.reads.names.setdefault(id(value), name)
        for name in names[n : n + k]:
            if name not in local and f.__kwdefaults__ is not None:
                given = f.__kwdefaults__.get(name, MISSING) if made else self.held(f.__kwdefaults__, name, name)
                if given is not MISSING:
                    local[name] = given
        missing = [name for name in names[: n + k] if name not in local]
        if missing:
            raise TypeError(f"{f.__qualname__}() missing required arguments: {', '.join(map(repr, missing))}")
        if code.co_flags & inspect.CO_VARARGS:
            local[names[n + k]] = tuple(args[n:])
        if code.co_flags & inspect.CO_VARKEYWORDS:
            local[names[n + k + bool(code.co_flags & inspect.CO_VARARGS)]] = self.new(rest)
        return local

    # -- what runs as it is --------------------------------------------------------------------------
    def leaf(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function whose effects are this library's to know."""
        self.writes_arrays(f, args, kwargs)
        if trust.changing(f) and (self.frame is None or self.frame.watched):
            self.refuse(f"calls {getattr(f, '__name__', f)}, which gives other values in every call")
        args = self.presented(args)
        self.seen(*args, *kwargs.values())
        calls = trust.calls_objects(getattr(f, "__module__", None) or "")
        args, kwargs = self.wrapped(args, kwargs, calls)
        ours = getattr(f, "__name__", "") not in _CALLS_BACK and own(getattr(f, "__module__", None) or "")
        calm = ours and self.is_calm((*args, *kwargs.values()))
        return self.native(f, args, kwargs, calm)

    def is_calm(self, values: Iterable[Any]) -> bool:
        """Whether an operator on these values calls no code of the user's."""
        if state.active & ~CAPTURE or state.pack is not None:
            return False
        return all([_is_calm(v, 4) for v in values])

    def wrapped(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], objects: bool = False
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments with functions that are interpreted when something else calls them."""
        if not any(map(callable, args)) and not any(map(callable, kwargs.values())):
            return args, kwargs
        return tuple([self.wrap(a, objects) for a in args]), {k: self.wrap(v, objects) for k, v in kwargs.items()}

    def wrap(self, f: Any, objects: bool = False) -> Any:
        """A function (or object) that is interpreted when something else calls it."""
        if is_door(f) or not self.is_watched(f, objects):
            return f
        found = self.wrappers.get(id(f))
        if found is None:
            found = self.wrappers[id(f)] = Interpreted(f, self)  # type: ignore[arg-type]
        return found

    def native(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], calm: bool = False) -> Any:
        """``f(*args, **kwargs)`` as it is, from the user's line; what nothing else holds then is new."""
        if self.lives:
            if (made := self.filled(f, args, kwargs)) is not None:
                return made
            args, kwargs = self.numbers_of(f, args, kwargs)
        listener = self.listener
        if listener is not None:
            listener.before(f, args, kwargs)
        door = self.door()
        if calm or PLAIN.issuperset(map(type, args)) or (f in _OPERATORS and self.is_calm(args)):
            result = f(*args, **kwargs) if door is None else door(f, args, kwargs)
        else:
            net = Net()
            result = net.call(f, args, kwargs) if door is None else net.call(door, (f, args, kwargs), _NONE)
        if listener is not None:
            result = listener.after(f, args, kwargs, result)
        if getrefcount(result) == VARIABLE and type(result) not in PLAIN and not self.shows_outside(result):
            self.made[id(result)] = result
        return result

    def handed(self, f: Callable[..., Any], *args: Any) -> Any:
        """``f(*args)`` from the user's line, where ``f`` only hands on what a container holds, live numbers too."""
        door = self.door()
        return f(*args) if door is None else door(f, args, {})

    # -- classes -------------------------------------------------------------------------------------
    def _construct(self, cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        meta = type(cls)
        demand_no_callback(self, cls, args)
        if meta is not type and not trusted_class(meta):
            made_by = self.in_class(meta, "__call__")
            if isinstance(made_by, types.FunctionType):
                return self.call(made_by, (cls, *args), kwargs)
        if cls in trust.PURE_TYPES or trusted_class(cls):
            return self._builtin_class(cls, args, kwargs)
        new = self.in_class(cls, "__new__")
        new = new.__func__ if isinstance(new, staticmethod) else new
        if isinstance(new, types.FunctionType):
            x = self.call(new, (cls, *args), kwargs)
        elif new is object.__new__:
            x = self.new(object.__new__(cls))
        else:
            self._demand_settled(getattr(new, "__self__", None))
            self.seen(*args)
            x = self.native(new, (cls, *args), kwargs)
        if not isinstance(x, cls):
            return x
        if isinstance(self.in_class(type(x), "__del__"), types.FunctionType):
            self.refuse(f"makes a {cls.__qualname__}, whose __del__ would not run again")
        start = self.in_class(type(x), "__init__")
        if isinstance(start, types.FunctionType):
            self.call(start, (x, *args), kwargs)
        elif start is not object.__init__:
            self._demand_settled(getattr(start, "__objclass__", None))
            self.native(start, (x, *args), kwargs)
        elif (args or kwargs) and new is object.__new__:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return x

    def _demand_settled(self, cls: Any) -> None:
        """Refuse to make an instance of a class written in C that may read what is not its arguments'."""
        if isinstance(cls, type) and not trust.settled_class(cls):
            self.refuse(f"makes a {cls.__module__}.{cls.__qualname__}, which cannot be looked into")

    def _builtin_class(self, cls: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if cls is super:
            return super(*(args or self.frame.of_super()))
        if self.lives:
            if cls is type and len(args) == 1 and type(args[0]) is Number:
                return type(args[0].value)  # which is guarded
            args = tuple(args) if cls in (float, int) else tuple([self.constants(a) for a in args])
        if cls is type and len(args) == 1:
            if not self.is_made(args[0]) and not trusted_class(type(args[0])):
                self.reads.add("type", args[0], None, type(args[0]), "a class")
            return type(args[0])
        if cls is type:
            return self.made_class(type, *args, kwargs)
        if cls is bool and args:
            return self.truth(args[0])
        if cls in (float, int) and len(args) == 1 and type(args[0]) is Number:
            return self.combined(cls, args[0])
        if args and cls in _CONVERSIONS:
            method = self.method(args[0], _CONVERSIONS[cls])
            if method is not None:
                found = self.call(method, ())
                right = type(found) is cls or type(found) is Number and type(found.value) is cls
                return (
                    found if right and len(args) == 1 else cls(as_given(args[0], _CONVERSIONS[cls], found), *args[1:])
                )
        if own(cls.__module__) or trust.trusted_name(cls.__module__):
            return self.leaf(cls, args, kwargs)
        self._demand_settled(cls)
        self.shows_arrays(cls, args)
        if cls in _COLLECT or cls.__module__ == "itertools":
            args = self._drained(self.presented(args))
        if cls in (map, filter):
            args, kwargs = self.wrapped(args, kwargs)
        if cls not in (types.CellType, functools.partial, staticmethod, classmethod, property, types.MethodType):
            self.seen(*args, *kwargs.values())
        return self.native(cls, args, kwargs)

    def _drained(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with what is iterated in Python as generators of the interpreter."""
        return tuple([self.drain(a) if self.method(a, "__iter__") is not None else a for a in args])

    def drain(self, x: Any) -> Any:
        """The values of an iterable as a generator."""
        return self.new(self._drain(self.iterate(x)))

    def _drain(self, iterator: Any) -> Iterator[Any]:
        while True:
            try:
                value = self.following(iterator)
            except StopIteration:
                return
            yield value

    # -- functions in C --------------------------------------------------------------------------------
    def _written_in_c(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        special = _SPECIAL.get(f) if type(f) is types.BuiltinFunctionType else None
        if special is not None:
            return special(self, *args, **kwargs)
        if f is next_sequence:  # this library's own count
            return f()
        owner, name = getattr(f, "__self__", None), f.__name__
        if type(f) in _DESCRIPTORS:
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
        if module in ("_bisect", "_heapq") and args and type(args[0]) is list:
            if not self.is_made(args[0]):
                return self.change_first(f, args, kwargs)
            self.change(args[0], f"changes a list ({f.__name__})")
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
            self.seen(*args, *kwargs.values())
        return self.native(f, args, kwargs)

    def _sum(self, values: Any, start: Any = 0) -> Any:
        """``sum``, one addition after the other, each of which a listener hears of."""
        for value in self._drain(self.iterate(values)):
            start = self.binary("+", start, value)
        return start

    def _all_numbers(self, values: Iterable[Any]) -> bool:
        return any([type(v) is Number for v in values]) and all([type(v) in (Number, float, int) for v in values])

    def _of_c_class(self, f: Any, owner: type, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if name == "__new__" and args and isinstance(args[0], type):
            if args[0] is not type and not issubclass(args[0], type):
                self._demand_settled(owner)
                self.seen(*args[1:])
                return self.native(f, args, kwargs)
        if f in trust.ALTERNATE or trust.trusted_name(owner.__module__) or name in _OF_CLASSES:
            self.seen(*args, *kwargs.values())
            return self.native(f, args, kwargs)
        if name == "__instancecheck__" or (name == "fromkeys" and issubclass(owner, dict)):
            return self.native(f, args, kwargs)
        return self.refuse(f"calls {owner.__name__}.{name}, which cannot be part of a program")

    def _method_of_c(self, f: Any, x: Any, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A method that C defines, of ``x``."""
        self.writes_arrays(f, args, kwargs, x)
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
            self.seen(x)
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
            self.seen(*args, *kwargs.values())
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
            self.seen(*args)
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


def _is_calm(x: Any, depth: int) -> bool:
    kind = type(x)
    if kind in _CALM:
        return True
    if kind in (list, tuple):
        return depth > 0 and all([_is_calm(v, depth - 1) for v in x])
    if kind is dict:
        return depth > 0 and all([_is_calm(v, depth - 1) for v in (*x, *x.values())])
    return own(kind.__module__)


class Interpreted:
    """A function that is interpreted while its capture lasts, whoever calls it."""

    def __init__(self, function: Callable[..., Any], interpreter: Interpreter) -> None:
        functools.update_wrapper(self, function, updated=())
        self._interpreter = interpreter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._interpreter.active:
            return self.__wrapped__(*args, **kwargs)
        for x in (*args, *kwargs.values()):
            if isinstance(x, Node):  # what a custom function keeps things on
                self._interpreter.new(x)
        with open_net():
            return self._interpreter.call(self.__wrapped__, args, kwargs)


_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)
_C_KINDS = frozenset((types.BuiltinFunctionType, types.MethodWrapperType, *_DESCRIPTORS))
_SPECIAL: dict[Any, Any] = {
    getattr: Calls.get, hasattr: Calls.has, setattr: lambda i, *a: i.set_attribute(*a), len: lambda i, x: i.length(x),
    delattr: lambda i, *a: i.delete_attribute(*a), iter: Calls.iterate_from, next: Calls.next_or, vars: Calls.variables,
    builtins.__build_class__: lambda i, *a, **k: i.build_class(*a, **k),
    operator.getitem: lambda i, *a: i.item(*a), operator.setitem: lambda i, *a: i.set_item(*a),
    operator.contains: lambda i, *a: i.contains(*a), operator.truth: lambda i, x: i.truth(x),
}  # fmt: skip
_SPECIAL |= {
    f: lambda i, x, y, symbol=symbol: i.binary(symbol, x, y) for symbol, (f, *_) in OPERATORS.items() if f in IN_PLACE
} | {operator.iconcat: lambda i, x, y: i.binary("+=", x, y), operator.delitem: lambda i, *a: i.delete_item(*a)}
_OBJECT = {"__getattribute__": "generic", "__setattr__": "set_generic", "__delattr__": "delete_generic"}
