"""Nested containers taken apart into a list of leaves and a description of their structure, and put together again.

Dicts keep the order of their keys, and None is a leaf: two ways in which ``jax.tree`` differs. Classes are shared with
it: what :func:`register_pytree_node` registers is a node of ``jax.tree`` too, and what is registered with jax is one
here.
"""

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any

import jax

from torchlike._base.frames import warn
from torchlike.interop.alias import missing_names
from torchlike.utils._pytree_keys import GetAttrKey as GetAttrKey
from torchlike.utils._pytree_keys import KeyEntry as KeyEntry
from torchlike.utils._pytree_keys import MappingKey as MappingKey
from torchlike.utils._pytree_keys import SequenceKey as SequenceKey
from torchlike.utils._pytree_nodes import _KINDS, _LEAVES, LeafSpec, PyTree, TreeSpec, _kind_of
from torchlike.utils._pytree_nodes import BUILTIN_TYPES as BUILTIN_TYPES
from torchlike.utils._pytree_nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from torchlike.utils._pytree_nodes import SUPPORTED_NODES as SUPPORTED_NODES
from torchlike.utils._pytree_nodes import NodeDef as NodeDef
from torchlike.utils._pytree_nodes import _deregister_pytree_node as _deregister_pytree_node
from torchlike.utils._pytree_nodes import _get_node_type as _get_node_type
from torchlike.utils._pytree_nodes import is_namedtuple as is_namedtuple
from torchlike.utils._pytree_nodes import is_namedtuple_class as is_namedtuple_class
from torchlike.utils._pytree_nodes import is_namedtuple_instance as is_namedtuple_instance
from torchlike.utils._pytree_nodes import is_structseq as is_structseq
from torchlike.utils._pytree_nodes import is_structseq_class as is_structseq_class
from torchlike.utils._pytree_nodes import is_structseq_instance as is_structseq_instance
from torchlike.utils._pytree_nodes import register_pytree_node as register_pytree_node
from torchlike.utils._pytree_text import SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES
from torchlike.utils._pytree_text import ConstantNode as ConstantNode
from torchlike.utils._pytree_text import _register_namedtuple as _register_namedtuple
from torchlike.utils._pytree_text import is_constant_class as is_constant_class
from torchlike.utils._pytree_text import register_constant as register_constant
from torchlike.utils._pytree_text import register_dataclass as register_dataclass
from torchlike.utils._pytree_text import treespec_dumps as treespec_dumps
from torchlike.utils._pytree_text import treespec_loads as treespec_loads
from torchlike.utils._pytree_text import treespec_pprint as treespec_pprint

__getattr__ = missing_names(__name__)

__all__ = [
    "Context",
    "DumpableContext",
    "FlattenFn",
    "FromDumpableContextFn",
    "LeafSpec",
    "PyTree",
    "PyTreeSpec",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
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
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

_LEAF = LeafSpec()
PyTreeSpec = TreeSpec
Context = Any  # what a kind of container keeps beside its children
DumpableContext = Any
FlattenFn = Callable[[PyTree], tuple[list, Context]]
UnflattenFn = Callable[[Iterable, Context], PyTree]
ToDumpableContextFn = Callable[[Context], DumpableContext]
FromDumpableContextFn = Callable[[DumpableContext], Context]

_tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys = _KINDS[tuple][1:]
_list_flatten, _list_unflatten, _list_flatten_with_keys = _KINDS[list][1:]
_dict_flatten, _dict_unflatten, _dict_flatten_with_keys = _KINDS[dict][1:]
_namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys = _KINDS[namedtuple][1:]
_ordereddict_flatten, _ordereddict_unflatten, _ordereddict_flatten_with_keys = _KINDS[OrderedDict][1:]
_odict_flatten, _odict_unflatten = _ordereddict_flatten, _ordereddict_unflatten
_defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys = _KINDS[defaultdict][1:]
_deque_flatten, _deque_unflatten, _deque_flatten_with_keys = _KINDS[deque][1:]
_is_namedtuple_instance = is_namedtuple_instance


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
    if is_leaf is None:
        kind = _KINDS.get(type(tree))
        found = _kind_of(tree) if kind is None else (type(tree), kind)
    else:
        found = None if is_leaf(tree) else _kind_of(tree)
    if found is None:
        leaves.append(tree)
        return _LEAF
    cls, kind = found
    children, context = kind.flatten_fn(tree)
    before = len(leaves)
    specs: list[TreeSpec] = []
    for c in children:
        if is_leaf is None and type(c) in _LEAVES and type(c) not in _KINDS:  # the usual leaves, without a call
            leaves.append(c)
            specs.append(_LEAF)
        else:
            specs.append(_flatten(c, leaves, is_leaf))
    spec = object.__new__(TreeSpec)
    spec.__dict__.update(type=cls, context=context, _children=tuple(specs), num_leaves=len(leaves) - before)
    return spec


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The container of a structure that holds ``leaves``; ValueError if their number does not fit."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
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


def _paths(tree: PyTree, path: tuple, is_leaf: Callable[[PyTree], bool] | None) -> Iterator[tuple[tuple, Any]]:
    found = None if is_leaf is not None and is_leaf(tree) else _kind_of(tree)
    if found is None:
        yield path, tree
        return
    if found[1].flatten_with_keys_fn is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {found[0]}. Please pass a flatten_with_keys_fn argument to "
            "register_pytree_node."
        )
    for key, child in found[1].flatten_with_keys_fn(tree)[0]:
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
        obj = key.get(obj) if hasattr(key, "get") else _child_at(obj, key)
    return obj


def _child_at(obj: Any, key: Any) -> Any:
    """What stands at a key that jax tells: of an attribute, an item, or a child by its number."""
    if isinstance(key, jax.tree_util.GetAttrKey):
        return getattr(obj, key.name)
    if isinstance(key, jax.tree_util.FlattenedIndexKey):
        return tree_leaves(obj, lambda x: x is not obj)[key.key]
    return obj[key.key if isinstance(key, jax.tree_util.DictKey) else key.idx]


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None) -> bool:
    """Whether ``tree`` is no container, or one that ``is_leaf`` takes whole."""
    return (is_leaf is not None and is_leaf(tree)) or _kind_of(tree) is None


_is_leaf = tree_is_leaf


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
    by_type = isinstance(type_or_types, type | tuple | UnionType)
    return lambda x: func(x) if (isinstance(x, type_or_types) if by_type else type_or_types(x)) else x


def tree_map_only(
    type_or_types: Any, /, func: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> PyTree:
    """As :func:`tree_map`, for the leaves of some types; the first argument may also be a predicate."""
    return tree_map(_only(type_or_types, func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types: Any, /, func: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
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
    type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether ``pred`` holds for all leaves of some types."""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(
    type_or_types: Any, /, pred: Callable, tree: PyTree, is_leaf: Callable[[PyTree], bool] | None = None
) -> bool:
    """Whether ``pred`` holds for some leaf of some types."""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def map_only(type_or_types: Any, /) -> Callable[[Callable], Callable]:
    """A decorator: the function for leaves of these types (or for which this predicate holds), others left alone."""
    if not (isinstance(type_or_types, type | tuple | UnionType) or callable(type_or_types)):
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")
    return lambda func: _only(type_or_types, func)


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list:
    """The leaves of the arguments of a call.

    >>> from torchlike.utils._pytree import arg_tree_leaves
    >>> arg_tree_leaves(1, [2], k=(3,))
    [1, 2, 3]
    """
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def treespec_leaf() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple with these structures within."""
    given = list(iterable)
    if not all(isinstance(spec, TreeSpec) for spec in given):
        raise ValueError(f"Expected a tuple of TreeSpec values, got: {given!r}.")
    return TreeSpec(tuple, None, tuple(given))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dict with these structures within."""
    given = dict(mapping, **kwargs)
    if not all(isinstance(spec, TreeSpec) for spec in given.values()):
        raise ValueError(f"Expected a dictionary of TreeSpec values, got: {given!r}.")
    return TreeSpec(dict, list(given), tuple(given.values()))


def _private_register_pytree_node(cls: type, flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **kwargs: Any) -> None:
    """As :func:`register_pytree_node`, but in the place of an earlier registration, of which it warns."""
    if cls in _KINDS:
        warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.")
        _deregister_pytree_node(cls)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _register_pytree_node(
    cls: type,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    to_str_fn: Callable | None = None,
    maybe_from_str_fn: Callable | None = None,
    **kwargs: Any,
) -> None:
    """The old :func:`register_pytree_node`, which warns."""
    where = "torch.utils._pytree"
    warn(f"`{where}._register_pytree_node` is deprecated. Please use `{where}.register_pytree_node` instead.",
         FutureWarning)  # fmt: skip
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warn("`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
             "`from_dumpable_context` instead.", FutureWarning)  # fmt: skip
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: Callable[[PyTree], bool] | None = None
) -> list | None:
    """A leaf for each of ``treespec``, from a tree that may stop where it goes on; None where they do not fit.

    >>> from torchlike.utils._pytree import _broadcast_to_and_flatten, tree_structure
    >>> _broadcast_to_and_flatten([0, None], tree_structure([1, (2, 3)]))
    [0, None, None]
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf():
        return None
    try:
        children = treespec._parts(tree)
    except ValueError:
        return None
    found: list = []
    for child, spec in zip(children, treespec.children(), strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found
