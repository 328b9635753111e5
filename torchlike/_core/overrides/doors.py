"""Doors: the functions that users call, which look for overrides before they do what they are for.

What a door finds in its way is one flag: until something in this process can override, a subclass or a mode, it calls
the function behind it at once. The library itself calls what is behind, or a door with plain arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from torchlike._base.state import state
from torchlike._core.overrides.misfits import demand_tensors
from torchlike._core.overrides.spellings import respelt

armed = False  # whether anything may override: from then on every door looks at its arguments
# What a stranger among the arguments makes of a function that does not know it, so that it is asked after all.
_REFUSALS = (TypeError, IndexError, AttributeError)
_WRONG = (TypeError, AttributeError)


def arm() -> None:
    """From now on every door looks. Once in a process."""
    global armed
    armed = True


class Behind:
    """What is behind a door, ``door.behind.built()``: made at the first need, where the door was there before it was.

    One object for a door, with all that is known of it: what an import makes, each collection of garbage walks
    through, the last ones of a process too, which take longer than the import.

    Attributes:
        build: ``build(ops, form)`` makes the function. make: makes another door of the kind.
        public, place, name: what handlers are given, and where users find it, once it is published.
    """

    __slots__ = ("door", "function", "build", "ops", "form", "make", "public", "place", "name", "_entry")
    describe: Callable[[Behind], Any]  # what is to be known of a published door: the module that publishes sets it

    def __init__(self, door: Any, function: Callable | None, build: Any = None, ops: Any = None, form: str = "",
                 make: Any = None) -> None:  # fmt: skip
        self.door, self.function, self.build, self.ops, self.form, self.make = door, function, build, ops, form, make
        self.public: Any = None
        self.place = self.name = ""
        self._entry: Any = None
        door.behind = self

    @property
    def entry(self) -> Any:
        """What is known of a published door, made when it is first asked for; None of another one."""
        if self._entry is None and self.place:
            self._entry = type(self).describe(self)
        return self._entry

    def built(self) -> Callable:
        """The function behind the door."""
        if self.function is None:
            built = self.function = self.door.__wrapped__ = self.build(self.ops, self.form)
            place = self.door.__code__.co_freevars.index("behind")
            self.door.__closure__[place].cell_contents = built
            return built
        return self.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the door calls until that is built."""
        return self.built()(*args, **kwargs)

    def again(self) -> Any:
        """Another door before the same front."""
        return self.make(self.build, self.ops, self.form)


class Doors:
    """Makes doors.

    Args:
        enter: ``enter(door, args, kwargs)``, a call with an argument that may override, or under a mode.
        overridden: whether one of some arguments does override.
        plain: the types that override nothing.

    ``foreign`` makes a tensor of a Python operator's other operand that is an array of jax, and returns
    NotImplemented for anything else. The module that converts arrays sets it.
    """

    foreign: Callable[[Any], Any]

    def __init__(self, enter: Callable, overridden: Callable, plain: set) -> None:
        self._refusing = _refusing(enter, overridden, plain)
        self._early, self._of_one, self._of_value = _early(enter, plain), _of_one(enter, plain), _of_value(enter, plain)
        self._of_two = _of_two(enter, overridden, plain, lambda x: self.foreign(x))
        self._again = self.lazily

    def before(self, function: Callable) -> Callable:
        """A door before a function that refuses what it does not know, with an error, before it has done anything."""
        return _opened(self._refusing(function), function)

    def lazily(self, build: Callable[[Any, str], Callable], ops: Any, form: str) -> Callable:
        """A door before a front of operators, which ``build(ops, form)`` compiles at the first call."""
        door = self._refusing(None)
        behind = Behind(door, None, build, ops, form, self._again)
        door.__closure__[door.__code__.co_freevars.index("behind")].cell_contents = behind
        return door

    def early(self, behind: Callable) -> Callable:
        """A door that looks at its arguments always: the function would compute with what a stranger has."""
        return _opened(self._early(behind), behind)

    def of_one(self, behind: Callable) -> Callable:
        """A door of a getter or a method without parameters."""
        return _opened(self._of_one(behind), behind)

    def of_value(self, behind: Callable) -> Callable:
        """A door of a setter."""
        return _opened(self._of_value(behind), behind)

    def of_two(self, behind: Callable) -> Callable:
        """A door of a Python operator, which answers NotImplemented to an operand that it does not know."""
        return _opened(self._of_two(behind), behind)


def _opened(door: Any, function: Callable) -> Callable:
    """The door before a function that is there already."""
    Behind(door, function)
    door.__wrapped__ = function
    return door


# Each makes doors of one kind, whose closures share all but the door and what is behind it.


def _refusing(enter: Callable, overridden: Callable, plain: set) -> Callable[[Callable | None], Any]:
    def made(behind: Any) -> Any:
        def door(*args: Any, **kwargs: Any) -> Any:
            if armed:
                if state.function_modes:
                    return enter(door, args, kwargs)
                for x in args:
                    if x.__class__ not in plain:
                        return enter(door, args, kwargs)
                if kwargs:
                    for x in kwargs.values():
                        if x.__class__ not in plain:
                            return enter(door, args, kwargs)
                try:
                    return behind(*args, **kwargs)
                except _WRONG as error:
                    if found := respelt(error, behind, door, args, kwargs):
                        return found[0]
                    demand_tensors(error, door, args, kwargs)
                    raise
            try:
                return behind(*args, **kwargs)
            except _REFUSALS as error:
                if found := respelt(error, behind, door, args, kwargs):
                    return found[0]
                if armed or not overridden((*args, *kwargs.values())):
                    demand_tensors(error, door, args, kwargs)
                    raise
            return enter(door, args, kwargs)

        return door

    return made


def _early(enter: Callable, plain: set) -> Callable[[Callable], Any]:
    def made(behind: Callable) -> Any:
        def door(*args: Any, **kwargs: Any) -> Any:
            if armed and state.function_modes:
                return enter(door, args, kwargs)
            for x in args:
                if x.__class__ not in plain:
                    return enter(door, args, kwargs)
            if kwargs:
                for x in kwargs.values():
                    if x.__class__ not in plain:
                        return enter(door, args, kwargs)
            try:
                return behind(*args, **kwargs)
            except _WRONG as error:
                if kwargs and (found := respelt(error, behind, door, args, kwargs)):
                    return found[0]
                demand_tensors(error, door, args, kwargs)
                raise

        return door

    return made


def _of_one(enter: Callable, plain: set) -> Callable[[Callable], Any]:
    def made(behind: Callable) -> Any:
        def door(self: Any) -> Any:
            if armed and (self.__class__ not in plain or state.function_modes):
                return enter(door, (self,), {})
            return behind(self)

        return door

    return made


def _of_value(enter: Callable, plain: set) -> Callable[[Callable], Any]:
    def made(behind: Callable) -> Any:
        def door(self: Any, value: Any) -> Any:
            if armed and (self.__class__ not in plain or value.__class__ not in plain or state.function_modes):
                return enter(door, (self, value), {})
            return behind(self, value)

        return door

    return made


def _of_two(enter: Callable, overridden: Callable, plain: set, foreign: Callable) -> Callable[[Callable], Any]:
    def unknown(door: Callable, self: Any, other: Any) -> Any:
        """What the tensor's operator does not know: it overrides, is an array of jax, or has operators."""
        if not armed and overridden((self, other)):
            return enter(door, (self, other), {})
        tensor = foreign(other)
        return tensor if tensor is NotImplemented else door(self, tensor)

    def made(behind: Callable) -> Any:
        def door(self: Any, other: Any) -> Any:
            if armed and (self.__class__ not in plain or other.__class__ not in plain or state.function_modes):
                out = enter(door, (self, other), {})
            else:
                out = behind(self, other)
            return unknown(door, self, other) if out is NotImplemented else out

        return door

    return made


def holds_none(values: Any, plain: set) -> bool:
    """Whether the values are plain, or sequences of plain ones."""
    for x in values:
        if x.__class__ not in plain:
            if x.__class__ is not tuple and x.__class__ is not list:
                return False
            for y in x:
                if y.__class__ not in plain:
                    return False
    return True


def is_door(function: Any) -> bool:
    return "behind" in getattr(function, "__dict__", ())


def is_front(function: Any) -> bool:
    """Whether a function is a front of operators, and so leaves it to dispatch to look at the tensors it is given."""
    return ops_of(function) is not None


def ops_of(function: Any) -> Any:
    """The overloads that a front of operators chooses from; None of any other function."""
    behind = getattr(function, "behind", None)
    return behind.ops if behind.__class__ is Behind else None


def behind(function: Any) -> Any:
    """What is behind a door, compiled; the function itself if it is none."""
    return function.behind.built() if is_door(function) else function


def takes_one(function: FunctionType) -> bool:
    """Whether a function takes one argument and nothing else."""
    code = function.__code__
    others = code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    return code.co_argcount == 1 and not others and not function.__defaults__


def named(door: Any, function: Any, name: str, place: str | None) -> Any:
    """The door under a public name, with what readers see of the function; ``place``: its public namespace."""
    door.__doc__, door.__name__ = function.__doc__, name
    if place is None:
        door.__module__, door.__qualname__ = function.__module__, function.__qualname__
    elif place == "torch.Tensor":
        door.__module__, door.__qualname__ = function.__module__, f"Tensor.{name}"
    else:
        door.__module__, door.__qualname__ = _PACKAGE + place.removeprefix("torch"), name
    return door


_PACKAGE = __name__.partition(".")[0]
