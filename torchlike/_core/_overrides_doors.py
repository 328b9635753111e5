"""Doors: the code that stands before a public function and looks for overrides.

A function keeps its identity when its code is exchanged, so what users imported earlier is armed as well. The code of
a door takes any arguments; all it needs it finds in one constant: the function behind it, how to enter it, and which
types are plain.
"""

import functools
import inspect
import threading
from types import FunctionType

from torchlike._base.state import state

_EARLY = """
    for x in args:
        if x.__class__ not in plain:
            return enter(args, kwargs)
    if kwargs:
        for x in kwargs.values():
            if x.__class__ not in plain:
                return enter(args, kwargs)
        return original(*args, **kwargs)
    return original(*args)
"""
_ARMED = """
    if state.function_modes:
        return enter(args, kwargs)
"""
_MARK = "what the door needs"


@functools.cache
def _template(cells, armed):
    """The code of a door for a function with so many free variables."""
    names = [f"cell{i}" for i in range(cells)]
    source = f"def door(*args, **kwargs):\n    state, original, enter, plain = {_MARK!r}\n"
    source += (_ARMED if armed else "") + _EARLY
    source += "".join(f"    {name}\n" for name in names)  # never reached; it makes them free variables
    if names:
        source = f"def outer({', '.join(names)}):\n" + "".join("    " + line + "\n" for line in source.splitlines())
        source += "    return door\n"
    env: dict = {}
    exec(compile(source, "<torchlike door>", "exec"), env)
    return (env["outer"](*names) if names else env["door"]).__code__


def put(function, original, entry, enter, plain, armed):
    """Exchange the code of ``function`` for that of a door before ``original``."""
    code = _template(len(function.__code__.co_freevars), armed)
    needed = state, original, _Enter(entry, enter, original, plain), plain
    function.__wrapped__ = original
    function.__code__ = code.replace(
        co_consts=tuple([needed if c == _MARK else c for c in code.co_consts]),
        co_name=function.__name__,
        co_qualname=function.__qualname__,
    )


class _Enter:
    """``enter`` for one entry; a bound call that is cheap and has a hash."""

    __slots__ = ("enter", "entry", "original", "plain")

    def __init__(self, entry, enter, original, plain):
        self.entry, self.enter, self.original, self.plain = entry, enter, original, plain

    def __call__(self, args, kwargs):
        if not state.function_modes and self.holds_none(args) and (not kwargs or self.holds_none(kwargs.values())):
            return self.original(*args, **kwargs)
        return self.enter(self.entry, args, kwargs)

    def holds_none(self, values):
        """Whether the values are plain, or sequences of plain ones."""
        plain = self.plain
        for x in values:
            if x.__class__ not in plain:
                if x.__class__ is not tuple and x.__class__ is not list:
                    return False
                for y in x:
                    if y.__class__ not in plain:
                        return False
        return True


# -- fronts of operators, which compile themselves on their first call -----------------------------

BUILDING = threading.RLock()  # held while a front gets its code, and while that code moves behind a door


def is_front(function):
    """Whether a function is a front of operators, and so leaves it to dispatch to look at the tensors it is given."""
    return "FRONT" in function.__globals__ or "ops" in function.__dict__


def behind(function):
    """What ``function`` does now, as a function of its own; a front goes on compiling itself there."""
    with BUILDING:
        moved = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        moved.__kwdefaults__, moved.__doc__ = function.__kwdefaults__, function.__doc__
        moved.__dict__.update(function.__dict__)
        moved.__module__, moved.__qualname__ = function.__module__, function.__qualname__
        if "FRONT" in function.__globals__:
            function.__globals__["FRONT"] = moved
    return moved


def built(function):
    """The function, compiled now if it is a front that is not yet."""
    if function.__code__.co_name == "_stub":
        function.__globals__["BUILD"]()
    return function


# -- copies, and calls under way ------------------------------------------------------------------


def another(function, name, place):
    """A copy of a function, under another name where one is given."""
    again = function.__globals__.get("AGAIN")
    if again is not None:
        copy = again()
    else:
        copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
    copy.__doc__, copy.__name__ = function.__doc__, name
    if place is None:
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    elif place == "torch.Tensor":
        copy.__module__, copy.__qualname__ = function.__module__, f"Tensor.{name}"
    else:
        copy.__module__, copy.__qualname__ = _PACKAGE + place.removeprefix("torch"), name
    return copy


_PACKAGE = __name__.partition(".")[0]


def runs(frame, function):
    """Whether ``frame`` runs a function, one of those that share its code."""
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    return all([frame.f_locals.get(n) is cell.cell_contents for n, cell in zip(names, cells, strict=True)])


def arguments(frame, original):
    """(args, kwargs) of the call that ``frame`` runs, as far as its variables tell how they were given."""
    values, positional, gathered = frame.f_locals, True, False
    args: list = []
    kwargs: dict = {}
    for p in inspect.signature(original).parameters.values():
        value = values[p.name]
        if p.kind is p.VAR_POSITIONAL:
            args.extend(value)
            gathered = bool(value) and p.name == "_args"
        elif gathered:  # the front has put the separate ints into this one
            gathered = False
        elif p.kind is p.VAR_KEYWORD:
            kwargs.update(value)
        elif value is p.default:
            positional = False
        elif positional and p.kind is not p.KEYWORD_ONLY:
            args.append(value)
        else:
            kwargs[p.name] = value
    return tuple(args), kwargs
