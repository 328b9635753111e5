"""``__torch_function__``: which calls are handed to whom, and the doors of public functions through which they go.

A public function is armed by giving it the code of a door (``_overrides_doors``), which asks here who overrides the
call; the object that users hold stays the same. Functions that check their arguments late anyway, the fronts of
operators and the methods of Tensor, get their door when the first overriding class or mode appears. Others carry one
from the start, as they would otherwise compute with a stranger's attributes.
"""

import functools
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from torchlike._base import device as devices
from torchlike._base import dtypes
from torchlike._base.state import state
from torchlike._core import _overrides_conventions as conventions
from torchlike._core import _overrides_doors as doors
from torchlike._core.size import Size

__all__ = [
    "ENTRIES", "PLAIN", "Entry", "arm", "asked", "behind", "disabled", "dispatch", "hand_over", "late", "of",
    "overloaded", "overrides", "publish", "publish_class", "refused", "stand_in", "stranger", "subclassed",
]  # fmt: skip


def disabled(func, types, args=(), kwargs=None):
    """What a class sets as its ``__torch_function__`` in order to override nothing: it calls ``func``."""
    before = state.overrides_off
    state.overrides_off = max(before, 1)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        state.overrides_off = before


class _Types(set):
    """A set of types that may stand among the constants of code, which must have a hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


# Types whose instances override nothing and hold nothing that could.
PLAIN = _Types((
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, Size, np.ndarray, np.float64,
    dtypes.dtype, devices.device,
))  # fmt: skip

ENTRIES: dict[Any, "Entry"] = {}  # public object -> its entry
_CODES: dict[int, list["Entry"]] = {}  # id of the code of originals -> their entries; filled when armed
_pending: list = []  # entries that get their door when armed
_lock = threading.RLock()
armed = False


class Entry:
    """One public function, method, getter or setter that can be overridden.

    Attributes:
        public: what handlers are given. function: the Python function that carries the door.
        original: the function behind the door, None before there is one.
        name, place: ``torch.Tensor`` and ``add``. python: whether PyTorch hands over arguments as its Python
            functions do. looks: whether arguments may override the call; otherwise only modes do.
        of_self: whether of the arguments only the first may. lone: whether it is a method without parameters; known
            once it was bound.
        quiet: whether a TypeError means that the operator is not implemented.
    """

    __slots__ = (
        "_binder", "function", "lone", "looks", "name", "of_self", "original", "place", "public", "python", "quiet",
    )  # fmt: skip

    def __init__(self, public, function, place, name):
        self.public, self.function, self.original = public, function, None
        self.place, self.name, self._binder = place, name, None
        self.python = conventions.is_python(place, name)
        self.looks = not conventions.takes_data(place, name)
        self.lone, self.of_self = False, conventions.is_of_self(place, name)
        self.quiet = conventions.is_operator(place, name)

    @property
    def full_name(self):
        """The name of what handlers are given."""
        return self.own_name if self.public is self.function else ENTRIES[self.public].own_name

    @property
    def own_name(self):
        """The name under which users find the function."""
        return f"{self.place}.{self.name}"

    def bind(self, args, kwargs):
        """Arguments as they are handed over. TypeError where they do not fit the signature."""
        if self._binder is None:
            self._binder, self.lone = conventions.binder(self), conventions.is_lone(self)
        return self._binder(*args, **kwargs)


# -- who overrides --------------------------------------------------------------------------------


def overrides(x):
    """Whether ``x``, an argument, overrides functions: its type (or itself, a type) has a ``__torch_function__``."""
    handler = getattr(x if isinstance(x, type) else type(x), "__torch_function__", disabled)
    return handler is not disabled and type(x) is not _tensor


_tensor: Any = None  # the class Tensor, which does not override by itself


def _candidates(args, kwargs, plain=PLAIN):
    for x in args:
        if x.__class__ in plain:
            continue
        if isinstance(x, tuple | list):
            for y in x:
                if y.__class__ not in plain:
                    yield y
        else:
            yield x
    if kwargs:
        yield from _candidates(kwargs.values(), None, plain)


def overloaded(values: Iterable, with_tensors: bool = False) -> list:
    """Those of ``values`` that override, one of a type, in the order in which they are asked.

    ``with_tensors``: plain tensors stand among them if any other does.
    """
    found: list = []
    any_overrides = False
    for x in values:
        mine = overrides(x)
        if not mine and not (with_tensors and type(x) is _tensor):
            continue
        any_overrides |= mine
        kind = type_of(x)
        if any(type_of(y) is kind for y in found):
            continue
        at = next((i for i, y in enumerate(found) if issubclass(kind, type_of(y))), len(found))
        found.insert(at, x)
    return found if any_overrides else []


def type_of(x):
    return x if isinstance(x, type) else type(x)


# -- handing over ---------------------------------------------------------------------------------


def enter(entry, args, kwargs, caller=None):
    """A call of a public function: by whoever overrides it, else by the original."""
    off = state.overrides_off
    modes = state.function_modes if off < 2 else ()
    found: Any = ()
    if not off and entry.looks:
        found = overloaded(_relevant(entry, args, kwargs))
        if found and not armed:
            arm()
    if (not modes and not found) or _ours(caller or sys._getframe(3)):
        return (entry.original or entry.function)(*args, **kwargs)
    try:
        args, kwargs = entry.bind(args, kwargs)
        if found and entry.python:
            found = overloaded(_relevant(entry, args, kwargs, ()), True)
        return dispatch(entry.public, found, args, kwargs, entry, types_of(entry, found, args, kwargs))
    except TypeError:
        if entry.quiet:
            return NotImplemented
        raise


def _relevant(entry, args, kwargs, plain=PLAIN):
    """The arguments of a call that may override it."""
    return _candidates(args[:1], None, plain) if entry.of_self else _candidates(args, kwargs, plain)


def types_of(entry, found, args, kwargs):
    """The types that a handler is told of."""
    if entry.name.endswith("__") and "." in entry.name:  # a getter or setter
        return (type(args[0]),)
    if (entry.python or entry.lone) and not found and state.function_modes:
        given = _candidates(args, None if args else kwargs, ())
        return tuple({type(x): None for x in given if type(x) is _tensor})
    return tuple([type_of(x) for x in found])


def asked(values):
    """Whether a mode is active, or any of ``values`` overrides. Without values nothing does."""
    off = state.overrides_off
    if state.function_modes and off < 2:
        return bool(values)
    return not off and any([x.__class__ not in PLAIN and overrides(x) for x in values])


def hand_over(public, values, args, kwargs, name):
    """A call of a Python function ``public`` by the active mode, or by those of ``values`` that override."""
    found = [] if state.overrides_off else overloaded(values, with_tensors=True)
    types = None if found else tuple(dict.fromkeys(type(x) for x in values if type(x) is _tensor))
    return dispatch(public, found, args, kwargs, name, types)


def dispatch(func, found, args, kwargs, name, types=None):
    """Ask the innermost mode, then each of ``found``, until one does not answer NotImplemented.

    ``name``: what the function is called in an error, or its entry, which knows.
    """
    if types is None:
        types = tuple([type_of(x) for x in found])
    modes = state.function_modes if state.overrides_off < 2 else ()
    if modes:
        state.function_modes = modes[:-1]
        try:
            handler = modes[-1].__torch_function__
            if getattr(handler, "__self__", None) is not modes[-1]:
                raise RuntimeError(
                    "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a "
                    f"plain method: {type(modes[-1]).__name__}.__torch_function__(self, func, types, args, kwargs)"
                )
            result = handler(func, types, args, kwargs)
        finally:
            state.function_modes = modes
        if result is not NotImplemented:
            return result
    for x in found:
        result = x.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_refusal(name if isinstance(name, str) else name.full_name, found, modes))


def _refusal(name, found, modes):
    asked = [f"mode object {modes[-1]!r}"] if modes else []
    asked += [f"tensor subclass {type_of(x)!r}" for x in found]
    kinds = ", ".join([repr(type_of(x)) for x in found])
    return (
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n\n"
        + "".join(f"  - {one}\n" for one in asked)
        + f"\nno implementation found for '{name}' on types that implement __torch_function__: [{kinds}]"
        + (f" nor in mode {modes[-1]!r}" if modes else "")
        + "; a handler has to return a result, for instance func(*args, **kwargs) on plain tensors"
    )


def _ours(frame):
    """Whether the code that runs in ``frame`` is a part of this library that PyTorch has in C++."""
    if frame.f_code.co_name in conventions.THROUGH:
        return False
    name = frame.f_globals.get("__name__") or ""
    return name.startswith(_PACKAGE) and not name.startswith(conventions.PUBLIC_CALLERS)


_PACKAGE = __name__.partition(".")[0] + "."


# -- doors ----------------------------------------------------------------------------------------


def publish(place, names):
    """Make the functions in ``names``, a dict of the public names of one namespace, overridable; returns those to use.

    Composite functions are copied, so that the library's own calls of them stay as they are, and look at their
    arguments from now on. Fronts of operators stay the same, but for a copy where another name has it already.
    """
    taken = {}
    for name, function in names.items():
        if not conventions.is_function(place, name, function):
            continue
        shared = _shared.get((name, function)) if place == "torch" else None
        if shared is None:
            own, late = _own(function, name, place)
            entry = Entry(own, own, conventions.place(place, name), name)
            _add(entry, entry.looks and not late)
            if conventions.is_shared(place, name):
                _shared[name, function] = own
        taken[name] = shared or own
    return taken


_shared: dict = {}  # (name, function as declared) -> the published one, where torch has the same object


def _own(function, name, place):
    """The function that one public name is to have, and whether it is a front."""
    known = ENTRIES.get(function)
    if known is not None and known.original is not None:
        function = known.original
    late = doors.is_front(function)
    return (function if late and known is None else doors.another(function, name, place)), late


def _add(entry, now):
    ENTRIES[entry.public] = entry
    if now:
        _open(entry)
    _pending.append(entry)
    if armed:
        _open(entry)


def publish_class(cls):
    """Make the methods and properties of Tensor overridable."""
    global _tensor
    _tensor = cls
    PLAIN.add(cls)
    place = "torch.Tensor"
    for name, found in list(vars(cls).items()):
        if isinstance(found, property):
            _publish_property(cls, name, found, place)
        elif conventions.is_method(name, found):
            function, _ = _own(found, name, place)
            setattr(cls, name, function)
            _add(Entry(function, function, place, name), conventions.looks_early(function, name))
    for name, target in conventions.operators(vars(cls)):
        ENTRIES[vars(cls)[name]].public = vars(cls)[target]


def _publish_property(cls, name, found, place):
    if not conventions.is_property(name):
        return
    parts = [f and doors.another(f, f.__name__, None) for f in (found.fget, found.fset, found.fdel)]
    new = property(*parts, doc=found.__doc__)
    setattr(cls, name, new)
    for function, slot in zip(parts, ("__get__", "__set__", "__delete__"), strict=True):
        if function is not None:
            _add(Entry(getattr(new, slot), function, place, f"{name}.{slot}"), False)


def _open(entry):
    """Put the door before the function of an entry."""
    with _lock:
        if entry.original is None:
            entry.original = doors.behind(entry.function)
        doors.put(entry.function, entry.original, entry, enter, PLAIN, armed)


def arm():
    """From now on every public function looks for overrides. Once in a process."""
    global armed
    with _lock:
        if armed:
            return
        for entry in _pending:
            _CODES.setdefault(id((entry.original or entry.function).__code__), []).append(entry)
        armed = True
        for entry in _pending:
            _open(entry)
        _pending.clear()


def subclassed(cls):
    """A new subclass of Tensor: arm, if it overrides. One with ``__torch_dispatch__`` is seen below, and does not."""
    own = cls.__torch_function__
    if "__torch_dispatch__" in vars(cls) and getattr(own, "__func__", own) is _tensor.__torch_function__.__func__:
        cls.__torch_function__ = staticmethod(disabled)
    if not armed and cls.__torch_function__ is not disabled:
        arm()


def behind(entry):
    """The function itself, without a door, and compiled."""
    return doors.built(entry.original or entry.function)


def stand_in(entry):
    """A function of the same signature that returns -1."""
    return conventions.stand_in(entry)


def of(public) -> Entry | None:
    """The entry of a public object, or None."""
    try:
        return ENTRIES.get(public)
    except TypeError:  # it has no hash
        return None


# -- a first stranger, seen late ------------------------------------------------------------------


def late(inputs, depth=2) -> Callable | None:
    """Who answers a call that came into dispatch with a stranger among its inputs, before anything was armed.

    Returns a function without arguments, or None: nothing overrides, or there is no public call to hand over.
    """
    if armed or state.overrides_off or not overloaded(_candidates(inputs, None)):
        return None
    arm()
    frame = sys._getframe(depth)
    for _ in range(5):
        entry = next((e for e in _CODES.get(id(frame.f_code), ()) if doors.runs(frame, e.original)), None)
        if entry is not None:
            args, kwargs = doors.arguments(frame, entry.original)
            return functools.partial(enter, entry, args, kwargs, frame.f_back)
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def refused(error):
    """Answer a call whose arguments a front of an operator did not take: by a stranger among them, or the error."""
    frame = sys._getframe(1)
    answer = late(list(frame.f_locals.values()))
    if answer is None:
        raise error
    return answer()


def stranger(self, other):
    """What a method that is a Python operator answers to an operand that it does not know."""
    answer = late((self, other))
    return NotImplemented if answer is None else answer()
