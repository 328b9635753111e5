"""Which objects are nested containers, how they come apart, and the description of what was taken apart.

Note [Two registries]
~~~~~~~~~~~~~~~~~~~~~
A class that is registered here is a node of jax's trees too, and one that is registered with jax is a container here,
so that users say it once. Containers of Python themselves are taken apart by functions of this file, not by jax, which
sorts the keys of dicts, has no leaves for None, takes deques for leaves and tells no context of a structure.
"""

import dataclasses
import functools
import threading
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax

from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor
from torchlike._transforms.capture.structure import WHOLE
from torchlike.utils._pytree_keys import GetAttrKey, MappingKey, SequenceKey

PyTree = Any


class NodeDef(NamedTuple):
    """How the containers of one type come apart: ``flatten(x) -> (children, context)``, and back."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[Iterable, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


def _kept(cls: Any, flatten: Callable, unflatten: Callable, keys: Callable[[Any, list], Iterable]) -> NodeDef:
    """A kind of container whose children stand at ``keys(x, children)``."""

    def with_keys(d: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(d)
        return list(zip(keys(d, children), children, strict=True)), context

    return NodeDef(cls, flatten, unflatten, with_keys)


def _sequence(cls: Any, make: Callable, context: Callable[[Any], Any] = lambda d: None) -> NodeDef:
    return _kept(
        cls,
        lambda d: (list(d), context(d)),
        lambda values, context: make(values, context),
        lambda d, children: map(SequenceKey, range(len(children))),
    )


def _mapping(cls: Any, make: Callable, context: Callable[[Any], Any] = list) -> NodeDef:
    return _kept(
        cls, lambda d: (list(d.values()), context(d)), lambda values, context: make(values, context),
        lambda d, children: map(MappingKey, d),
    )  # fmt: skip


def _pairs(values: Iterable, keys: list) -> Iterator:
    return zip(keys, values, strict=True)


_KINDS: dict[Any, NodeDef] = {
    tuple: _sequence(tuple, lambda values, _: tuple(values)),
    list: _sequence(list, lambda values, _: list(values)),
    dict: _mapping(dict, lambda values, keys: dict(_pairs(values, keys))),
    namedtuple: _kept(
        namedtuple,
        lambda d: (list(d), type(d)),
        lambda values, context: context(*values),
        lambda d, _: map(GetAttrKey, d._fields),
    ),
    OrderedDict: _mapping(OrderedDict, lambda values, keys: OrderedDict(_pairs(values, keys))),
    defaultdict: _mapping(
        defaultdict,
        lambda values, context: defaultdict(context[0], _pairs(values, context[1])),
        lambda d: [d.default_factory, list(d)],
    ),
    deque: _sequence(deque, deque, lambda d: d.maxlen),
    Size: _sequence(Size, lambda values, _: tuple(values)),
}
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
BUILTIN_TYPES = frozenset((tuple, list, namedtuple, deque)) | STANDARD_DICT_TYPES
SUPPORTED_NODES = _KINDS
"""The types that come apart; ``namedtuple`` stands for every tuple with names."""


class _SerializeNodeDef(NamedTuple):
    """How a kind of container is written: its name, and its context as what JSON can hold, and back."""

    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


_WRITTEN: dict[Any, _SerializeNodeDef] = {}
_lock = threading.RLock()


def register_pytree_node(
    cls: type,
    flatten_fn: Callable,
    unflatten_fn: Callable,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable | None = None,
    from_dumpable_context: Callable | None = None,
    flatten_with_keys_fn: Callable | None = None,
) -> None:
    """Make the objects of a class containers.

    Args:
        flatten_fn: object -> (children, context). unflatten_fn: (children, context) -> object.
        serialized_type_name: the name of the class in what :func:`treespec_dumps` writes.
        to_dumpable_context, from_dumpable_context: context -> what JSON can hold, and back; both or none.
        flatten_with_keys_fn: object -> ([(key, child), ...], context), for functions that tell the paths of leaves.

    Raises ValueError if the class is one already, or for one of the two functions of the context without the other.
    """
    with _lock:
        if cls in _KINDS:
            raise ValueError(f"{cls} is already registered as pytree node.")
        if (to_dumpable_context is None) is not (from_dumpable_context is None):
            raise ValueError(
                f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered."
            )
        _KINDS[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        if serialized_type_name is not None:
            _WRITTEN[cls] = _SerializeNodeDef(cls, serialized_type_name, to_dumpable_context, from_dumpable_context)
        _share(cls)


class _Context:
    """What a container keeps beside its children, as jax's trees can: comparable, and with a hash."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return type(other) is _Context and bool(self.value == other.value)

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return hash(type(self.value))

    def __repr__(self) -> str:
        return repr(self.value)


_SHARED: dict[type, NodeDef] = {}  # classes that jax has from here, as they were registered last


def _share(cls: type) -> None:
    """Let the objects of a class be nodes of jax's trees, unless jax knows them already."""
    if cls not in _SHARED:

        def flatten(x: Any) -> tuple[list, _Context]:
            children, context = _SHARED[cls].flatten_fn(x)
            return list(children), _Context(context)

        def unflatten(context: _Context, children: Iterable) -> Any:
            return _SHARED[cls].unflatten_fn(list(children), context.value)

        try:
            jax.tree_util.register_pytree_node(cls, flatten, unflatten)
        except ValueError:
            return
        WHOLE.add(cls)
    _SHARED[cls] = _KINDS[cls]


def _deregister_pytree_node(cls: type) -> None:
    """Let the objects of a class be leaves again (in jax's trees they stay nodes); KeyError if they are."""
    with _lock:
        if cls not in _KINDS:
            raise KeyError(cls)
        for registry in (_KINDS, _WRITTEN):
            registry.pop(cls, None)  # type: ignore[attr-defined]


def _get_node_type(tree: object) -> type:
    found = _kind_of(tree)
    return type(tree) if found is None else found[0]


def is_namedtuple_instance(obj: object) -> bool:
    """Whether ``obj`` is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and cls is not tuple and hasattr(cls, "_fields")


def is_namedtuple(obj: object) -> bool:
    """Whether ``obj`` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: object) -> bool:
    """Whether ``cls`` is a class of structure sequences, as the results of ``torch.max`` and ``time.localtime()`` are.

    >>> import torchlike as torch
    >>> from torchlike.utils._pytree import is_structseq_class
    >>> is_structseq_class(torch.return_types.max), is_structseq_class(tuple)
    (True, False)
    """
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(isinstance(getattr(cls, f"n_{what}", None), int) for what in ("fields", "sequence_fields"))
    )


def is_structseq_instance(obj: object) -> bool:
    """Whether ``obj`` is a structure sequence."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object) -> bool:
    """Whether ``obj`` is a structure sequence or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _kind_of(x: object) -> tuple[Any, NodeDef] | None:
    cls = type(x)
    found = _KINDS.get(cls)
    if found is not None:
        return cls, found
    if cls in _LEAVES:
        return None
    if not issubclass(cls, tuple):
        theirs = _is_node(cls) and cls not in _SHARED and not issubclass(cls, Tensor)
        return (cls, _OF_JAX) if theirs else None
    if cls.__module__ == "torch.return_types":
        return cls, _result(cls)
    return (namedtuple, _KINDS[namedtuple]) if is_namedtuple_instance(x) else None


_LEAVES = frozenset((Tensor, int, float, bool, complex, str, bytes, type(None)))
_is_node = jax.tree_util.default_registry.is_node


def _one_level(x: Any) -> tuple[list, Any]:
    return jax.tree_util.tree_flatten(x, is_leaf=lambda y: y is not x)


def _one_level_with_keys(x: Any) -> tuple[list, Any]:
    found, structure = jax.tree_util.tree_flatten_with_path(x, is_leaf=lambda y: y is not x)
    return [(path[0], child) for path, child in found], structure


_OF_JAX = NodeDef(
    None,
    _one_level,
    lambda children, structure: jax.tree_util.tree_unflatten(structure, children),
    _one_level_with_keys,
)


def kind_of_type(cls: Any) -> NodeDef:
    """How the containers of a structure's type come apart."""
    found = _KINDS.get(cls)
    if found is not None:
        return found
    return _result(cls) if issubclass(cls, tuple) else _OF_JAX


@functools.cache
def _result(cls: Any) -> NodeDef:
    return _sequence(cls, lambda values, _: cls(tuple(values)))


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The structure of a nested container; a leaf has the type None.

    Attributes:
        type: of the outermost container. context: what else it is made from (the keys of a dict).
        children_specs: the structures within.
    """

    type: Any
    context: Any
    _children: tuple["TreeSpec", ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_children", tuple(self._children))

    children_specs = property(lambda self: list(self._children))

    def children(self) -> list["TreeSpec"]:
        """The structures within."""
        return list(self._children)

    def child(self, index: int) -> "TreeSpec":
        """One of the structures within."""
        return self.children()[index]

    @functools.cached_property
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(c.num_leaves for c in self._children)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(c.num_nodes for c in self._children)

    @property
    def num_children(self) -> int:
        return len(self._children)

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable) -> PyTree:
        """The container of this structure that holds ``leaves``."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._built(iter(given))

    def _built(self, leaves: Iterator) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        kind = kind_of_type(self.type)
        children = [next(leaves) if c.type is None else c._built(leaves) for c in self._children]
        return kind.unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list:
        """The parts of ``tree`` that stand where this structure has leaves; ValueError where it differs above them.

        Dicts of all kinds fit each other, in whatever order their keys are, and deques of any ``maxlen``.
        """
        if self.is_leaf():
            return [tree]
        children = self._parts(tree)
        return [leaf for c, child in zip(self._children, children, strict=True) for leaf in c.flatten_up_to(child)]

    def _parts(self, tree: PyTree) -> list:
        """The children of a container that fits this structure."""
        found = _kind_of(tree)
        kind = type(tree) if found is None else found[0]
        dicts = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if found is None or not (dicts or kind is self.type):
            what = "Node type" if self.type in BUILTIN_TYPES else "Type"
            raise ValueError(f"{what} mismatch; expected {self.type}, but got {kind}.")
        children, context = found[1].flatten_fn(tree)
        if len(children) != len(self._children):
            raise ValueError(f"Node arity mismatch; expected {len(self._children)}, but got {len(children)}.")
        if dicts:
            return self._in_order(tree)
        if kind is not deque and context != self.context:
            raise ValueError(
                f"Node context mismatch for node type {self.type}; expected {self.context}, but got {context}."
            )
        return children

    def _in_order(self, tree: dict) -> list:
        """The values of ``tree`` in the order of this structure's keys."""
        keys = self.context[1] if self.type is defaultdict else self.context
        if set(tree) != set(keys):
            raise ValueError(
                f"Node keys mismatch; missing key(s): {set(keys) - set(tree)}; extra key(s): {set(tree) - set(keys)}."
            )
        return [tree[key] for key in keys]

    def __hash__(self) -> int:
        return hash((self.type, self._children))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        inner = ",\n".join(repr(c) for c in self._children).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, ())
