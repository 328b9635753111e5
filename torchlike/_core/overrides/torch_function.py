"""``__torch_function__``: which calls are handed to whom, and the doors of public functions through which they go.

Every public function and method is a door (``_overrides_doors``), which asks here who overrides the call once anything
in the process may. What the library calls itself it calls behind the doors, or with plain tensors.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._base import device as devices
from torchlike._base import dtypes
from torchlike._base.state import handler, state
from torchlike._core.overrides import conventions, doors, misfits
from torchlike._core.overrides.doors import Doors, holds_none
from torchlike._core.overrides.spellings import called
from torchlike._core.tensor.size import Size

if TYPE_CHECKING:
    from torchlike._core.typed import F

__all__ = [
    "DOORS", "ENTRIES", "PLAIN", "Overridable", "arm", "asked", "disabled", "dispatch", "hand_over", "of", "overloaded",
    "overrides", "publish", "publish_class", "publish_method", "stand_in", "subclassed", "unseen",
]  # fmt: skip


def disabled(
    func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """What a class sets as its ``__torch_function__`` in order to override nothing: it calls ``func``."""
    before = state.overrides_off
    state.overrides_off = max(before, 1)
    try:
        return func(*args, **(kwargs or {}))
    finally:
        state.overrides_off = before


# Types whose instances override nothing and hold nothing that could.
PLAIN = {
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), slice, Size, np.float64, dtypes.dtype,
    devices.device,
}  # fmt: skip


class _Entries(Mapping):
    """{public object: its entry}, each made when it is first asked for."""

    def __init__(self) -> None:
        self.doors: dict[Any, Any] = {}

    def __getitem__(self, public: Any) -> Overridable:
        return entry_of(self.doors[public])

    def __contains__(self, public: object) -> bool:
        return public in self.doors

    def __iter__(self) -> Iterator[Any]:
        return iter(self.doors)

    def __len__(self) -> int:
        return len(self.doors)


ENTRIES = _Entries()


def entry_of(door: Any) -> Any:
    """The entry of a door; None of one that has none, or of another function."""
    behind = door.__dict__.get("behind")
    return None if behind is None else behind.entry


class Overridable:
    """One public function, method, getter or setter that can be overridden.

    Attributes:
        public: what handlers are given. door: the function that asks who overrides; ``original`` is behind it.
        name, place: ``torch.Tensor`` and ``add``. python: whether PyTorch hands over arguments as its Python
            functions do. looks: whether arguments may override the call; otherwise only modes do.
        of_self: whether of the arguments only the first may. lone: whether it is a method without parameters; known
            once it was bound.
        quiet: whether a TypeError means that the operator is not implemented.
        answerer: ``answerer(name, args)``, a function to call in place of the method, or None; itself None but for
            what tensors say of their sizes.
    """

    __slots__ = (
        "_binder", "answerer", "door", "lone", "looks", "name", "of_self", "place", "public", "python", "quiet",
    )  # fmt: skip

    def __init__(self, behind: doors.Behind) -> None:
        self.public, self.door, place, name = behind.public, behind.door, behind.place, behind.name
        self._binder: Callable[..., Any] | None = None
        self.answerer: Callable[..., Any] | None = None
        self.place, self.name = place, name
        self.python = conventions.is_python(place, name)
        self.looks = not conventions.takes_data(place, name)
        self.lone, self.of_self = False, conventions.is_of_self(place, name) or name.endswith("__set__")
        self.quiet = conventions.is_operator(place, name)

    @property
    def full_name(self) -> str:
        """The name of what handlers are given."""
        return self.own_name if self.public is self.door else ENTRIES[self.public].own_name

    @property
    def original(self) -> Any:
        """The function behind the door."""
        return self.door.behind.built()

    @property
    def own_name(self) -> str:
        """The name under which users find the function."""
        return f"{self.place}.{self.name}"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments as they are handed over. TypeError where they do not fit the signature."""
        if self._binder is None:
            self._binder, self.lone = conventions.binder(self), conventions.is_lone(self)
        return self._binder(*args, **kwargs)


doors.Behind.describe = lambda behind: Overridable(behind)


# -- who overrides --------------------------------------------------------------------------------


def overrides(x: Any) -> bool:
    """Whether ``x``, an argument, overrides functions: its type (or itself, a type) has a ``__torch_function__``."""
    handler = getattr(x if isinstance(x, type) else type(x), "__torch_function__", disabled)
    return handler is not disabled and type(x) is not _tensor


_tensor: Any = None  # the class Tensor, which does not override by itself


def _candidates(args: Iterable[Any], kwargs: dict[str, Any] | None, plain: Collection[type] = PLAIN) -> Iterator[Any]:
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


def type_of(x: Any) -> type:
    return x if isinstance(x, type) else type(x)


def unseen(function: F) -> F:
    """A function of the library none of whose own calls is overridden."""

    @functools.wraps(function)
    def alone(*args: Any, **kwargs: Any) -> Any:
        before = state.overrides_off
        state.overrides_off = 2
        try:
            return function(*args, **kwargs)
        finally:
            state.overrides_off = before

    return alone  # type: ignore[return-value]


# -- handing over ---------------------------------------------------------------------------------


def enter(door: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a public function: by whoever overrides it, else by the function behind its door."""
    entry = entry_of(door)
    modes = state.function_modes
    if entry is None or (not modes and holds_none(args, PLAIN) and (not kwargs or holds_none(kwargs.values(), PLAIN))):
        return called(door.behind.built(), door, args, kwargs)
    off = state.overrides_off
    found: Any = ()
    if not off and entry.looks:
        found = overloaded(_relevant(entry, args, kwargs))
        if found:
            arm()
    if not found and (not modes or off == 2):
        answer = None if entry.answerer is None else entry.answerer(entry.name, args)
        if entry.looks and any([x.__class__ is np.ndarray for x in args]):
            return _of_arrays(entry, answer or door.behind.built(), args, kwargs)
        return called(answer or door.behind.built(), door, args, kwargs)
    try:
        args, kwargs = entry.bind(args, kwargs)
        if found and entry.python:
            found = overloaded(_relevant(entry, args, kwargs, ()), True)
        return dispatch(entry.public, found, args, kwargs, entry, types_of(entry, found, args, kwargs))
    except TypeError:
        if entry.quiet:
            return NotImplemented
        raise


def _of_arrays(entry: Overridable, function: Callable, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with arrays of numpy, which are no tensors. TypeError where one is the input, or is taken for a tensor."""
    first = args[0].__class__ is np.ndarray and not entry.quiet
    if first and not entry.python and conventions.takes_input(entry):
        raise TypeError(_ARRAY.format(entry.name))
    out = called(function, entry.door, args, kwargs)
    if first and out is args[0]:
        raise TypeError(_ARRAY.format(entry.name))
    return out


_ARRAY = "{}(): argument 'input' (position 1) must be Tensor, not numpy.ndarray"


def _relevant(
    entry: Overridable, args: tuple[Any, ...], kwargs: dict[str, Any], plain: Collection[type] = PLAIN
) -> Iterator[Any]:
    """The arguments of a call that may override it."""
    return _candidates(args[:1], None, plain) if entry.of_self else _candidates(args, kwargs, plain)


def types_of(
    entry: Overridable, found: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> tuple[type, ...]:
    """The types that a handler is told of."""
    if entry.name.endswith("__") and "." in entry.name:  # a getter or setter
        return (type(args[0]),)
    if (entry.python or entry.lone) and not found and state.function_modes:
        given = _candidates(args, None if args else kwargs, ())
        return tuple({type(x): None for x in given if type(x) is _tensor})
    return tuple([type_of(x) for x in found])


class _Redispatched(threading.local):
    """Whether the function that runs has been handed over: the next question whether arguments override is its."""

    once = False


redispatched = _Redispatched()


def asked(values: Sequence[Any]) -> bool:
    """Whether a mode is active, or any of ``values`` overrides. Without values nothing does."""
    if redispatched.once:
        redispatched.once = False
        return False
    off = state.overrides_off
    if state.function_modes and off < 2:
        return bool(values)
    return not off and any([x.__class__ not in PLAIN and overrides(x) for x in values])


def hand_over(public: Any, values: Iterable[Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Any:
    """A call of a Python function ``public`` by the active mode, or by those of ``values`` that override."""
    found = [] if state.overrides_off else overloaded(values, with_tensors=True)
    types = None if found else tuple(dict.fromkeys(type(x) for x in values if type(x) is _tensor))
    return dispatch(public, found, args, kwargs, name, types)


def dispatch(
    func: Callable[..., Any],
    found: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    name: Any,
    types: tuple[type, ...] | None = None,
) -> Any:
    """Ask the innermost mode, then each of ``found``, until one does not answer NotImplemented.

    ``name``: what the function is called in an error, or its entry, which knows.
    """
    if types is None:
        types = tuple([type_of(x) for x in found])
    modes = state.function_modes if state.overrides_off < 2 else ()
    if modes:
        state.function_modes = modes[:-1]
        try:
            mine = handler(modes[-1], "__torch_function__")
            if getattr(mine, "__self__", None) is not modes[-1]:
                raise RuntimeError(
                    "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a "
                    f"plain method: {type(modes[-1]).__name__}.__torch_function__(self, func, types, args, kwargs)"
                )
            result = mine(func, types, args, kwargs)
        finally:
            state.function_modes = modes
        if result is not NotImplemented:
            return result
    for x in found:
        result = handler(x, "__torch_function__")(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(_refusal(name if isinstance(name, str) else name.full_name, found, modes))


def _refusal(name: str, found: Sequence[Any], modes: Sequence[Any]) -> str:
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


# -- doors ----------------------------------------------------------------------------------------


def _overridden(values: Iterable[Any]) -> bool:
    """Whether one of the arguments of a call overrides it."""
    return not state.overrides_off and bool(overloaded(_candidates(values, None)))


DOORS = Doors(enter, _overridden, PLAIN)


def publish(place: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Make the functions in ``names``, a dict of the public names of one namespace, overridable; returns those to use.

    What the library calls itself stays as it is. Fronts of operators are doors from the start, but another name of
    theirs has one of its own.
    """
    taken = {}
    for name, function in names.items():
        if not conventions.is_function(place, name, function):
            continue
        shared = _shared.get(name) if place == "torch" else None
        if shared is None:
            door = _own(function, name, place, not conventions.takes_data(place, name))
            _add(door, door, conventions.place(place, name), name)
            if conventions.is_shared(place, name):
                _shared[name] = door
        taken[name] = shared or door
    return taken


_shared: dict = {}  # name -> the function of torch.nn.functional that torch has, too


def _own(function: Any, name: str, place: str, early: bool) -> Any:
    """The door that one public name is to have."""
    known = ENTRIES.get(function)
    if doors.is_front(function):
        if known is None:
            return function
        return doors.named(function.behind.again(), function, name, place)
    function = function if known is None else known.original
    make = DOORS.early if early else DOORS.before
    if place == "torch.Tensor" and doors.takes_one(function):
        make = DOORS.of_one
    elif conventions.is_operator(place, name):
        make = DOORS.of_two
    return doors.named(make(function), function, name, place)


def _add(public: Any, door: Any, place: str, name: str) -> None:
    behind = door.behind
    behind.public, behind.place, behind.name = public, place, name
    ENTRIES.doors[public] = door


def publish_class(cls: Any) -> None:
    """Make the methods and properties of Tensor overridable."""
    global _tensor
    _tensor = misfits.tensor = cls
    PLAIN.add(cls)
    place = "torch.Tensor"
    for name, found in list(vars(cls).items()):
        if isinstance(found, property):
            _publish_property(cls, name, found, place)
        elif conventions.is_method(name, found):
            publish_method(cls, name, found)
    for name, target in conventions.operators(vars(cls)):
        vars(cls)[name].behind.public = vars(cls)[target]


def publish_method(cls: Any, name: str, found: Any) -> None:
    """Make a function an overridable method of Tensor."""
    door = _own(found, name, "torch.Tensor", conventions.looks_early(found, name))
    setattr(cls, name, door)
    _add(door, door, "torch.Tensor", name)


class _Field(property):
    """A property of Tensor; it has a name, as what PyTorch has there, which handlers find at ``func.__self__``."""

    __name__: str
    __qualname__: str


NAMED_PROPERTIES = sys.version_info < (3, 12)  # later ones read plain properties 30 ns faster than those of classes
PROPERTIES = (property, _Field)


def _publish_property(cls: Any, name: str, found: property, place: str) -> None:
    if not conventions.is_property(name):
        return
    get, put, delete = found.fget, found.fset, found.fdel
    parts = get and DOORS.of_one(get), put and DOORS.of_value(put), delete and DOORS.of_one(delete)
    parts = [door and doors.named(door, f, name, None) for door, f in zip(parts, (get, put, delete), strict=True)]
    new = (_Field if NAMED_PROPERTIES else property)(*parts, doc=found.__doc__)
    if isinstance(new, _Field):
        new.__name__, new.__qualname__ = name, f"TensorBase.{name}"
    setattr(cls, name, new)
    for door, slot in zip(parts, ("__get__", "__set__", "__delete__"), strict=True):
        if door is not None:
            _add(getattr(new, slot), door, place, f"{name}.{slot}")


arm = doors.arm


def subclassed(cls: Any) -> None:
    """A new subclass of Tensor: arm, if it overrides. One with ``__torch_dispatch__`` is seen below, and does not."""
    own = cls.__torch_function__
    if "__torch_dispatch__" in vars(cls) and getattr(own, "__func__", own) is _tensor.__torch_function__.__func__:
        cls.__torch_function__ = staticmethod(disabled)
    if cls.__torch_function__ is not disabled:
        arm()


def stand_in(entry: Overridable) -> Callable[..., Any]:
    """A function of the same signature that returns -1."""
    return conventions.stand_in(entry)


def of(public: object) -> Overridable | None:
    """The entry of a public object, or None."""
    try:
        return ENTRIES.get(public)
    except TypeError:  # it has no hash
        return None
