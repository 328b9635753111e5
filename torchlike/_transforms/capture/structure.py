"""Arguments and results as flat lists: jax's pytrees, with dicts in their own order and containers of other types.

jax sorts the keys of dicts, and takes dataclasses and classes made from dict, list or tuple for leaves. Here
those that hold tensors are nodes, which ``jax.tree.unflatten`` makes anew with their own types; so are wrapper
subclasses of Tensor that say what they wrap (``__tensor_flatten__``).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax

from torchlike._base.state import state
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.storage import Outer
from torchlike._core.tensor.tensor import Tensor, shape_of
from torchlike._decl.op import exact

WHOLE: set[type] = set()  # classes whose objects are passed as they are, though jax can take them apart
_VALUES = frozenset((Tensor, bool, int, float, complex, str, bytes))
_LEAVES = _VALUES | {type(None)}
_NAMES = frozenset((str,))
_NUMBERS = frozenset((bool, int, float, complex, tuple))


class Items(NamedTuple):
    """A dict: its class, keys, factory of defaults, and the attributes beside: those that are items, and others.

    ``exact`` tells its keys from those that equal them: 1, 1.0 and True.
    """

    cls: type
    keys: tuple
    factory: object = None
    linked: tuple = ()
    others: tuple = ()
    exact: tuple = ()

    def make(self, parts: Any) -> Any:
        n = len(self.keys)
        base = collections.OrderedDict if issubclass(self.cls, collections.OrderedDict) else dict
        new = base.__new__(self.cls)
        if self.factory is not None:
            new.default_factory = self.factory
        for key, part in zip(self.keys, parts[:n], strict=True):
            base.__setitem__(new, key, part)
        if self.linked or self.others:
            new.__dict__.update({key: base.__getitem__(new, key) for key in self.linked})
            new.__dict__.update(zip(self.others, parts[n:], strict=True))
        return new


class Sequence(NamedTuple):
    """A list or tuple of another class."""

    cls: type

    def make(self, parts: Any) -> Any:
        if issubclass(self.cls, tuple):
            named = self.cls.__module__ == "torch.return_types"  # made as by C: tuple's own __new__ refuses them
            return self.cls(parts) if named else tuple.__new__(self.cls, parts)
        new: Any = list.__new__(self.cls)
        list.extend(new, parts)
        return new


class Fields(NamedTuple):
    """A dataclass, made of its attributes without ``__init__``."""

    cls: type
    names: tuple

    def make(self, parts: Any) -> Any:
        new = object.__new__(self.cls)
        for name, part in zip(self.names, parts, strict=True):
            object.__setattr__(new, name, part)
        return new


class Attributes(NamedTuple):
    """An object that is its class and its attributes, made without ``__init__``."""

    cls: type
    names: tuple

    def make(self, parts: Any) -> Any:
        new = object.__new__(self.cls)
        object.__getattribute__(new, "__dict__").update(zip(self.names, parts, strict=True))
        return new


class Wrapped(NamedTuple):
    """A wrapper subclass: its class, the names of what it wraps, and what its class says beside."""

    cls: Any
    names: tuple
    context: Context
    size: tuple
    strides: tuple

    def make(self, parts: Any) -> Any:
        inner = dict(zip(self.names, parts, strict=True))
        return self.cls.__tensor_unflatten__(inner, self.context.value, Size(self.size), self.strides)


class Context:
    """What ``__tensor_flatten__`` says beside, which may have no hash."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Context) or type(self.value) is not type(other.value):
            return False
        try:
            return self.value is other.value or bool(self.value == other.value)
        except (RuntimeError, ValueError):  # of tensors and arrays
            return False

    def __hash__(self) -> int:
        return hash(type(self.value))


class Node:
    """A container on its way into jax's flatten."""

    __slots__ = ("parts", "made")

    def __init__(self, parts: list[Any], made: Any) -> None:
        self.parts, self.made = parts, made


jax.tree_util.register_pytree_node(Node, lambda node: (node.parts, node.made), lambda made, parts: made.make(parts))


class Passed:
    """Stands in a result for a container of the arguments, which is returned itself: its number among them."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class Outside:
    """Stands in a result for a container that was there before the call, which is returned itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def containers(x: Any) -> list[Any]:
    """The lists, dicts and dataclasses within ``x`` that are no leaves, each before what it holds."""
    found = parts(x)
    if found is None:
        return []
    return [*(() if isinstance(x, tuple) else (x,)), *[c for v in found for c in containers(v)]]


def parts(x: Any) -> Iterable[Any] | None:
    """What a container holds and its attributes; None for a leaf."""
    cls = type(x)
    if cls in _LEAVES:
        return None
    if cls is tuple or cls is list:
        return x
    if isinstance(x, Tensor):
        return _wrapped(x)[1] if is_wrapper(x) else None
    if cls is dict or cls is collections.OrderedDict:
        return x.values()
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return x
    if not (isinstance(x, tuple | list | dict) or dataclasses.is_dataclass(cls)) or type(packed(x)) is not Node:
        return None
    if isinstance(x, dict):
        return [*dict.values(x), *[v for k, v in getattr(x, "__dict__", {}).items() if not _is_item(x, k, v)]]
    return x if isinstance(x, tuple | list) else _fields(x)[1]


def flatten(x: Any, passed: dict[int, Any] | None = None) -> tuple[list[Any], Any]:
    """(leaves, structure) of ``x``; ``jax.tree.unflatten`` undoes it.

    ``passed``: {id: the leaf that stands for it}, or the ``Attributes`` of an object that is a node.
    """
    return jax.tree.flatten(packed(x, passed), is_leaf=_is_leaf)


def mapped(function: Callable[[Any], Any], x: Any) -> Any:
    """``x`` with ``function(leaf)`` for each leaf; dicts keep their order, and containers their types."""
    leaves, tree = flatten(x)
    return jax.tree.unflatten(tree, [function(leaf) for leaf in leaves])


def _is_leaf(x: Any) -> bool:
    # jax warns of generators that nobody calls leaves
    return isinstance(x, Tensor | types.GeneratorType) or type(x) in WHOLE


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """``flatten((args, kwargs))``."""
    if kwargs or not _VALUES.issuperset(map(type, args)):
        return flatten((args, kwargs))
    return list(args), _structure(len(args))


@functools.cache
def _structure(count: int) -> Any:
    """That of a call with so many arguments, which are values."""
    return jax.tree.structure(((0,) * count, {}))


def packed(x: Any, passed: dict[int, Any] | None = None) -> Any:
    """``x`` with nodes for what jax would sort, or take for a leaf."""
    cls = type(x)
    if cls in _LEAVES:
        return x
    if passed and id(x) in passed:
        found = passed[id(x)]
        return Node([packed(v, passed) for v in vars(x).values()], found) if type(found) is Attributes else found
    if cls is tuple or cls is list:
        new = [packed(v, passed) for v in x]
        return x if all(map(_same, new, x)) else cls(new)
    if isinstance(x, Tensor):
        if not is_wrapper(x) or state.capture is not None and not state.capture.owns(x):
            return x
        made, parts = _wrapped(x)
        return Node([packed(v, passed) for v in parts], made)
    if isinstance(x, dict):
        return _packed_dict(x, cls, passed)
    if isinstance(x, tuple | list):
        parts = [packed(v, passed) for v in x]
        if hasattr(x, "_fields"):
            return cls(*parts)
        return Node(parts, Sequence(cls)) if any(map(_holds, parts)) else x
    if dataclasses.is_dataclass(cls):
        names, values = _fields(x)
        parts = [packed(v, passed) for v in values]
        return Node(parts, Fields(cls, names)) if any(map(_holds, parts)) else x
    return x


def is_wrapper(x: Tensor) -> bool:
    """Whether a tensor is a wrapper subclass, without a history, that says what it wraps."""
    wraps = x._storage.form.__class__ is Outer and hasattr(type(x), "__tensor_flatten__")
    return wraps and not x._rg and x._edge is None


def _wrapped(x: Any) -> tuple[Wrapped, list[Any]]:
    names, context = x.__tensor_flatten__()
    made = Wrapped(type(x), tuple(names), Context(context), tuple(shape_of(x)), tuple(x._layout.strides))
    return made, [getattr(x, name) for name in names]


def _fields(x: Any) -> tuple[tuple[str, ...], list[Any]]:
    """(names, values) of a dataclass's attributes."""
    names = tuple(vars(x)) if hasattr(x, "__dict__") else tuple(f.name for f in dataclasses.fields(x))
    return names, [getattr(x, name, None) for name in names]


def _packed_dict(x: dict[Any, Any], cls: type, passed: dict[int, Any] | None) -> Any:
    if cls is dict:
        if not _in_order(x) or not _NAMES.issuperset(map(type, x)):
            return Node([packed(v, passed) for v in x.values()], Items(dict, tuple(x), exact=exactly(x)))
        new = {k: packed(v, passed) for k, v in x.items()}
        return x if all(map(_same, new.values(), x.values())) else new
    if cls is collections.OrderedDict:
        if not _NAMES.issuperset(map(type, x)):
            return Node([packed(v, passed) for v in x.values()], Items(cls, tuple(x), exact=exactly(x)))
        return cls((k, packed(v, passed)) for k, v in x.items())
    parts = [packed(v, passed) for v in dict.values(x)]
    attributes = getattr(x, "__dict__", {})
    linked = tuple(k for k, v in attributes.items() if _is_item(x, k, v))
    others = tuple(k for k in attributes if k not in linked)
    parts += [packed(attributes[k], passed) for k in others]
    if cls is not collections.defaultdict and not any(map(_holds, parts)):
        return x
    keys = tuple(dict.keys(x))
    return Node(parts, Items(cls, keys, getattr(x, "default_factory", None), linked, others, exactly(keys)))


def _is_item(x: dict[Any, Any], name: str, value: Any) -> bool:
    """Whether an attribute of a dict is its item of that name, too."""
    return dict.get(x, name) is value and value is not None


def exactly(keys: Iterable[Any]) -> tuple[Any, ...]:
    """What tells keys that are numbers from those that equal them."""
    return tuple([exact(k) if type(k) in _NUMBERS else type(k) for k in keys])


def _in_order(x: Iterable[Any]) -> bool:
    keys = list(x)
    try:
        return keys == sorted(keys)
    except TypeError:
        return False


def _same(a: Any, b: Any) -> bool:
    return a is b


def _holds(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_holds, x.values()))
    return any(map(_holds, x)) if isinstance(x, tuple | list) else isinstance(x, Tensor | Node | Passed)
