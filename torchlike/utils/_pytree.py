"""Nested containers taken apart into a list of leaves and a description of their structure, and put together again.

Dicts keep the order of their keys, and None is a leaf: two ways in which ``jax.tree`` differs.
"""

import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

__all__ = [
    "PyTree",
    "TreeSpec",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "key_get",
    "keystr",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_with_path",
    "tree_map_only",
    "tree_map_only_",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any


class _Kind(NamedTuple):
    """How the containers of one type come apart: ``flatten(x) -> (children, context)``, and back."""

    flatten_fn: Callable[[Any], tuple[list, Any]]
    unflatten_fn: Callable[[Iterable, Any], Any]


def _of_dict(make: Callable[[Any, list], Any]) -> _Kind:
    return _Kind(
        lambda d: (list(d.values()), list(d)),
        lambda values, keys: make(keys, list(zip(keys, values, strict=True))),
    )


_KINDS: dict[type, _Kind] = {
    tuple: _Kind(lambda x: (list(x), None), lambda children, _: tuple(children)),
    list: _Kind(lambda x: (list(x), None), lambda children, _: list(children)),
    dict: _of_dict(lambda keys, pairs: dict(pairs)),
    OrderedDict: _of_dict(lambda keys, pairs: OrderedDict(pairs)),
    defaultdict: _Kind(
        lambda d: (list(d.values()), [d.default_factory, list(d)]),
        lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    ),
    deque: _Kind(lambda x: (list(x), x.maxlen), lambda children, maxlen: deque(children, maxlen)),
}
SUPPORTED_NODES = _KINDS
"""The types that come apart; tuples with names do too."""
_dict_flatten, _dict_unflatten = _KINDS[dict]
_list_flatten, _list_unflatten = _KINDS[list]
_tuple_flatten, _tuple_unflatten = _KINDS[tuple]
_NAMED = _Kind(lambda x: (list(x), type(x)), lambda children, cls: cls(*children))
_RESULTS = _Kind(lambda x: (list(x), type(x)), lambda children, cls: cls(tuple(children)))


_WITH_KEYS: dict[type, Callable[[Any], tuple[list[tuple[Any, Any]], Any]]] = {}  # of classes that users register


def register_pytree_node(
    cls: type,
    flatten_fn: Callable,
    unflatten_fn: Callable,
    *,
    flatten_with_keys_fn: Callable | None = None,
    **more: Any,
) -> None:
    """Make the objects of a class containers.

    Args:
        flatten_fn: object -> (children, context). unflatten_fn: (children, context) -> object.
        flatten_with_keys_fn: object -> ([(key, child), ...], context), for functions that tell the paths of leaves.
        more: names for serialized structures, which are accepted and not used.

    Raises ValueError if the class is one already.
    """
    if cls in _KINDS:
        raise ValueError(f"{cls} is already registered as pytree node")
    _KINDS[cls] = _Kind(flatten_fn, unflatten_fn)
    if flatten_with_keys_fn is not None:
        _WITH_KEYS[cls] = flatten_with_keys_fn


_register_pytree_node = register_pytree_node  # its old name


def _get_node_type(tree: object) -> type:
    found = _kind_of(tree)
    return type(tree) if found is None else found[0]


def is_namedtuple_instance(obj: object) -> bool:
    """Whether ``obj`` is a named tuple."""
    return isinstance(obj, tuple) and type(obj) is not tuple and hasattr(obj, "_fields")


def is_namedtuple_class(cls: type) -> bool:
    """Whether ``cls`` is a class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and cls is not tuple and hasattr(cls, "_fields")


def is_namedtuple(obj: object) -> bool:
    """Whether ``obj`` is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def _kind_of(x: object) -> tuple[type, _Kind] | None:
    cls = type(x)
    found = _KINDS.get(cls)
    if found is not None:
        return cls, found
    if not issubclass(cls, tuple):
        return None
    if cls.__module__ == "torch.return_types":
        return cls, _RESULTS
    return (NamedTuple, _NAMED) if is_namedtuple_instance(x) else None  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The structure of a nested container; a leaf has the type None.

    Attributes:
        type: of the outermost container. context: what else it is made from (the keys of a dict).
        children: the structures within.
    """

    type: Any
    context: Any
    children: tuple["TreeSpec", ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "children", tuple(self.children))

    children_specs = property(lambda self: list(self.children))

    @functools.cached_property
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(c.num_leaves for c in self.children)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(c.num_nodes for c in self.children)

    @property
    def num_children(self) -> int:
        return len(self.children)

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
        kind = _NAMED if self.type is NamedTuple else _KINDS.get(self.type, _RESULTS)
        children = [next(leaves) if c.type is None else c._built(leaves) for c in self.children]
        return kind.unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list:
        """The parts of ``tree`` that stand where this structure has leaves; ValueError where it differs above them."""
        if self.is_leaf():
            return [tree]
        found = _kind_of(tree)
        if found is None or found[0] is not self.type:
            raise ValueError(f"Node type mismatch; expected {self.type}, but got {type(tree)}.")
        children, context = found[1].flatten_fn(tree)
        if isinstance(tree, dict):
            children, context = self._in_order(tree), self.context
        if len(children) != len(self.children):
            raise ValueError(f"Node arity mismatch; expected {len(self.children)}, but got {len(children)}.")
        if context != self.context:
            raise ValueError(f"Node context mismatch for {self.type}; expected {self.context}, but got {context}.")
        return [leaf for c, child in zip(self.children, children, strict=True) for leaf in c.flatten_up_to(child)]

    def _in_order(self, tree: dict) -> list:
        """The values of ``tree`` in the order of this structure's keys."""
        keys = self.context[1] if self.type is defaultdict else self.context
        if set(tree) != set(keys):
            raise ValueError(
                f"Node keys mismatch; missing key(s): {set(keys) - set(tree)}; extra key(s): {set(tree) - set(keys)}."
            )
        return [tree[key] for key in keys]

    def __hash__(self) -> int:
        return hash((self.type, self.children))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        inner = ",\n".join(repr(c) for c in self.children).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, ())


_LEAF = LeafSpec()


def tree_flatten(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> tuple[list, TreeSpec]:
    """The leaves of a nested container, and its structure. ``is_leaf`` may end the descent early.

    >>> from torchlike.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, None], "b": 2})
    >>> leaves
    [1, None, 2]
    >>> tree_unflatten([5, 6, 7], spec)
    {'a': [5, 6], 'b': 7}
    """
    leaves: list = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: PyTree, leaves: list, is_leaf: Callable[[PyTree], bool] | None) -> TreeSpec:
    found = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if found is None:
        leaves.append(tree)
        return _LEAF
    cls, kind = found
    children, context = kind.flatten_fn(tree)
    before = len(leaves)
    specs = tuple([_flatten(c, leaves, is_leaf) for c in children])
    spec = object.__new__(TreeSpec)
    spec.__dict__.update(type=cls, context=context, children=specs, num_leaves=len(leaves) - before)
    return spec


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The container of a structure that holds ``leaves``; ValueError if their number does not fit."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected `treespec` to be a TreeSpec, got {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> Iterator:
    """The leaves, one after another."""
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list:
    """The leaves of a nested container."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> TreeSpec:
    """The structure of a nested container."""
    return tree_flatten(tree, is_leaf)[1]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step of a path: into a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """What stands at the key."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step of a path: into a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """What stands at the index."""
        return sequence[self.idx]


def _dict_flatten_with_keys(d: dict) -> tuple[list[tuple[MappingKey, Any]], list]:
    values, keys = _dict_flatten(d)
    return [(MappingKey(k), v) for k, v in zip(keys, values, strict=True)], keys


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step of a path: to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute."""
        return getattr(obj, self.name)


def _keys(tree: PyTree, cls: type, context: Any, count: int) -> list:
    """The steps from a container to its children."""
    if cls in _WITH_KEYS:
        return [key for key, _ in _WITH_KEYS[cls](tree)[0]]
    if cls is NamedTuple:
        return [GetAttrKey(name) for name in tree._fields]
    if cls in (dict, OrderedDict, defaultdict):
        return [MappingKey(key) for key in tree]
    if cls in (list, tuple, deque) or cls.__module__ == "torch.return_types":
        return [SequenceKey(i) for i in range(count)]
    raise ValueError(
        f"Did not find a flatten_with_keys_fn for type: {cls}. Please pass a flatten_with_keys_fn argument to "
        "register_pytree_node."
    )


def _paths(tree: PyTree, path: tuple, is_leaf: Callable[[PyTree], bool] | None) -> Iterator[tuple[tuple, Any]]:
    found = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if found is None:
        yield path, tree
        return
    children, context = found[1].flatten_fn(tree)
    for key, child in zip(_keys(tree, found[0], context, len(children)), children, strict=True):
        yield from _paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> tuple[list[tuple[tuple, Any]], TreeSpec]:
    """The leaves of a nested container, each with the keys that lead to it, and the structure.

    ValueError for a class that was registered without ``flatten_with_keys_fn``.

    >>> from torchlike.utils._pytree import keystr, tree_flatten_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> list[tuple[tuple, Any]]:
    """The leaves of a nested container, each with the keys that lead to it."""
    return list(_paths(tree, (), is_leaf))


def tree_map_with_path(
    func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> PyTree:
    """As :func:`tree_map`, of a function that is also given the keys that lead to a leaf, first.

    >>> from torchlike.utils._pytree import keystr, tree_map_with_path
    >>> tree_map_with_path(lambda path, leaf: keystr(path) + str(leaf), [1, (2,)])
    ['[0]1', ('[1][0]2',)]
    """
    found, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in found], [leaf for _, leaf in found], *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten(func(*parts) for parts in zip(*columns, strict=True))


def keystr(kp: tuple) -> str:
    """A path as the Python code that follows it."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple) -> Any:
    """What stands at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether ``tree`` is no container, or one that ``is_leaf`` takes whole."""
    return (is_leaf is not None and is_leaf(tree)) or _kind_of(tree) is None


_is_leaf = tree_is_leaf
Context = Any  # what a kind of container keeps beside its children


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    """A container of the same structure with ``func`` of every leaf (and of the parts of ``rests`` at its place).

    >>> from torchlike.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}])
    [11, {'x': 22}]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(r) for r in rests)]
    return spec.unflatten(func(*row) for row in zip(*columns, strict=True))


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> PyTree:
    """Call ``func`` on every leaf, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(type_or_types: Any, func: Callable) -> Callable:
    """``func`` for leaves of these types (or for which this predicate holds); the others stay as they are."""
    by_type = isinstance(type_or_types, type | tuple) or not callable(type_or_types)
    return lambda x: func(x) if (isinstance(x, type_or_types) if by_type else type_or_types(x)) else x


def tree_map_only(
    type_or_types: Any, func: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> PyTree:
    """As :func:`tree_map`, for the leaves of some types; the first argument may also be a predicate."""
    return tree_map(_only(type_or_types, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types: Any, func: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> PyTree:
    """As :func:`tree_map_`, for the leaves of some types."""
    return tree_map_(_only(type_or_types, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether ``pred`` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether ``pred`` holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any, pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether ``pred`` holds for some leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))
