"""Calls: of functions that are interpreted, of classes, of C functions whose effects are known, and of all others."""

from __future__ import annotations

import collections
import functools
import inspect
import operator
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from torchlike._base.state import CAPTURE, state
from torchlike._core.autograd.node import Node
from torchlike._core.overrides.doors import is_door
from torchlike._core.tensor.tensor import Tensor
from torchlike._executor.references import VARIABLE
from torchlike._transforms.capture.numbers import Number
from torchlike._transforms.interpreter import trust
from torchlike._transforms.interpreter.c_functions import DESCRIPTORS, CFunctions
from torchlike._transforms.interpreter.classes import MAKERS
from torchlike._transforms.interpreter.loop import coroutine_of
from torchlike._transforms.interpreter.native import Net, open_net
from torchlike._transforms.interpreter.operators import OPERATORS, UNARY, as_given, subscript
from torchlike._transforms.interpreter.reads import MISSING
from torchlike._transforms.interpreter.trust import PLAIN, own, trusted, trusted_class
from torchlike._transforms.interpreter.weak_references import demand_no_callback, referent

if TYPE_CHECKING:
    from torchlike._transforms.interpreter.run import Interpreter

_NONE: dict = {}
_CACHED = type(functools.lru_cache(lambda: None))
_told: weakref.WeakSet = weakref.WeakSet()  # cached functions of which a warning has told
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_CALM = PLAIN | {Tensor, slice}
_OF_GRADIENTS = frozenset(("_step_unless", "_unscale", "_nonfinite"))  # by a GradScaler
_OF_OPTIMIZERS = _OF_GRADIENTS | {"step", "zero_grad"}
_CALLS_BACK = frozenset(("backward", "grad", "apply", "register_hook", "__call__", "step"))
_C_KINDS = frozenset((types.BuiltinFunctionType, types.MethodWrapperType, *DESCRIPTORS))
_CONVERSIONS = {int: "__int__", float: "__float__", str: "__str__", complex: "__complex__", bytes: "__bytes__"}
_OPERATORS = frozenset([f for f, *_ in (*OPERATORS.values(), *UNARY.values())] + [subscript, getattr, bool, len, iter])
_FORMATS = frozenset((operator.mod, operator.imod))
_COLLECT = frozenset((list, tuple, set, frozenset, enumerate, zip, map, filter, collections.deque))


class Calls(CFunctions):
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
                for name in ("func", "args", "keywords"):
                    self.reads.add("attr", f, name, getattr(f, name), f"{self.reads.name(f)}.{name}")
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
        if trusted_class(kind) or kind.__module__ == "nanobind" and trust.trusted_name(f.__module__):
            self.expose(f)
            return self.leaf(f, args, kwargs)
        found = self.in_class(kind, "__call__")
        if found is MISSING:
            raise TypeError(f"{kind.__name__!r} object is not callable")
        return self.call(self.bound(found, f, kind), args, kwargs)

    def _ignoring_cache(self, f: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call of a user's cached function, as PyTorch's compiler makes it: of the function itself."""
        if f not in _told and not self.is_made(f):
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
        if trust.changing(f, args) and (self.frame is None or self.frame.watched):
            self.refuse(f"calls {getattr(f, '__name__', f)}, which gives other values in every call")
        args = self.presented(args)
        self.expose(*args, *kwargs.values())
        calls = trust.calls_objects(getattr(f, "__module__", None) or "")
        args, kwargs = self.wrapped(args, kwargs, calls)
        ours = getattr(f, "__name__", "") not in _CALLS_BACK and own(getattr(f, "__module__", None) or "")
        calm = ours and self.is_calm((*args, *kwargs.values()))
        return self.native(f, args, kwargs, calm)

    def is_calm(self, values: Iterable[Any]) -> bool:
        """Whether an operator on these values calls no code of the user's."""
        if state.active & ~CAPTURE or state.pack is not state.pack_outside or state.function_modes:
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

    def handler(self, x: Any, name: str) -> Any:
        """The method ``name`` of ``x``, which this library is going to call."""
        with open_net():
            return self.wrap(self.attribute(x, name))

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
        calm = calm or (f in _OPERATORS and self.is_calm(args) and not (f in _FORMATS and type(args[0]) is str))
        if calm or _is_plain(f, args):
            result = f(*args, **kwargs) if door is None else door(f, args, kwargs)
        else:
            net = Net()
            self.under_settings(f, args, False)
            result = net.call(f, args, kwargs) if door is None else net.call(door, (f, args, kwargs), _NONE)
            if type(result) is str or not args:
                self.under_settings(f, args, True)
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
            self.expose(*args)
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
            self.expose(*args, *kwargs.values())
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


def _is_plain(f: Any, args: tuple[Any, ...]) -> bool:
    """Whether a call is given plain values alone, and is no method that C has for every object."""
    if type(f) is types.MethodWrapperType or getattr(f, "__name__", "") == "__format__":
        return False
    return PLAIN.issuperset(map(type, args)) and not trust.of_numpy(f)


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

    @property
    def __self__(self) -> Any:
        return getattr(self.__wrapped__, "__self__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._interpreter.active:
            return self.__wrapped__(*args, **kwargs)
        for x in (*args, *kwargs.values()):
            if isinstance(x, Node):  # what a custom function keeps things on
                self._interpreter.new(x)
        with open_net():
            return self._interpreter.call(self.__wrapped__, args, kwargs)
