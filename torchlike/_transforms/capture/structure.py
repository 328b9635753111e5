"""Arguments and results as flat lists: jax's pytrees, with dicts in their own order and containers of other types.

jax sorts the keys of dicts, and takes dataclasses and classes made from dict, list or tuple for leaves. Here
those that hold tensors are nodes, which ``jax.tree.unflatten`` makes anew with their own types.
"""

import collections
import dataclasses
import functools
from typing import NamedTuple

import jax

from torchlike._core.tensor.tensor import Tensor

_VALUES = frozenset((Tensor, bool, int, float, complex, str, bytes))
_LEAVES = _VALUES | {type(None)}


class Items(NamedTuple):
    """A dict: its class, keys, factory of defaults, and the attributes beside: those that are items, and others."""

    cls: type
    keys: tuple
    factory: object = None
    linked: tuple = ()
    others: tuple = ()

    def make(self, parts):
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

    def make(self, parts):
        if issubclass(self.cls, tuple):
            return tuple.__new__(self.cls, parts)
        new = list.__new__(self.cls)
        list.extend(new, parts)
        return new


class Fields(NamedTuple):
    """A dataclass, made of its attributes without ``__init__``."""

    cls: type
    names: tuple

    def make(self, parts):
        new = object.__new__(self.cls)
        for name, part in zip(self.names, parts, strict=True):
            object.__setattr__(new, name, part)
        return new


class Node:
    """A container on its way into jax's flatten."""

    __slots__ = ("parts", "made")

    def __init__(self, parts, made):
        self.parts, self.made = parts, made


jax.tree_util.register_pytree_node(Node, lambda node: (node.parts, node.made), lambda made, parts: made.make(parts))


def flatten(x):
    """(leaves, structure) of ``x``; ``jax.tree.unflatten`` undoes it."""
    return jax.tree.flatten(packed(x))


def flatten_call(args, kwargs):
    """``flatten((args, kwargs))``."""
    if kwargs or not _VALUES.issuperset(map(type, args)):
        return flatten((args, kwargs))
    return list(args), _structure(len(args))


@functools.cache
def _structure(count):
    """That of a call with so many arguments, which are values."""
    return jax.tree.structure(((0,) * count, {}))


def packed(x):
    """``x`` with nodes for what jax would sort, or take for a leaf."""
    cls = type(x)
    if cls in _LEAVES:
        return x
    if cls is tuple or cls is list:
        new = [packed(v) for v in x]
        return x if all(map(_same, new, x)) else cls(new)
    if isinstance(x, dict):
        return _packed_dict(x, cls)
    if isinstance(x, tuple | list):
        parts = [packed(v) for v in x]
        if hasattr(x, "_fields"):
            return cls(*parts)
        return Node(parts, Sequence(cls)) if any(map(_holds, parts)) else x
    if dataclasses.is_dataclass(cls):
        names = tuple(vars(x)) if hasattr(x, "__dict__") else tuple(f.name for f in dataclasses.fields(x))
        parts = [packed(getattr(x, name, None)) for name in names]
        return Node(parts, Fields(cls, names)) if any(map(_holds, parts)) else x
    return x


def _packed_dict(x, cls):
    if cls is dict:
        if not _in_order(x):
            return Node([packed(v) for v in x.values()], Items(dict, tuple(x)))
        new = {k: packed(v) for k, v in x.items()}
        return x if all(map(_same, new.values(), x.values())) else new
    if cls is collections.OrderedDict:
        return cls((k, packed(v)) for k, v in x.items())
    parts = [packed(v) for v in dict.values(x)]
    attributes = getattr(x, "__dict__", {})
    linked = tuple(k for k, v in attributes.items() if dict.get(x, k) is v and v is not None)
    others = tuple(k for k in attributes if k not in linked)
    parts += [packed(attributes[k]) for k in others]
    if cls is not collections.defaultdict and not any(map(_holds, parts)):
        return x
    return Node(parts, Items(cls, tuple(dict.keys(x)), getattr(x, "default_factory", None), linked, others))


def _in_order(x):
    keys = list(x)
    try:
        return keys == sorted(keys)
    except TypeError:
        return False


def _same(a, b):
    return a is b


def _holds(x):
    if isinstance(x, dict):
        return any(map(_holds, x.values()))
    return any(map(_holds, x)) if isinstance(x, tuple | list) else isinstance(x, Tensor | Node)
