"""Structures of nested containers written as text and read, and the classes that are made containers by name."""

import dataclasses
import enum
import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Sequence
from typing import Any, NamedTuple

from torchlike._base.frames import warn
from torchlike._core.tensor.size import Size
from torchlike.utils._pytree_keys import GetAttrKey
from torchlike.utils._pytree_nodes import (
    _KINDS,
    _WRITTEN,
    LeafSpec,
    TreeSpec,
    _deregister_pytree_node,
    _lock,
    _SerializeNodeDef,
    register_pytree_node,
)

_PROTOCOL = 1
_NAMED: dict[Any, str] = {}  # named tuples that have a name in what is written


def _of_defaultdict(context: list) -> dict:
    factory, keys = context
    return {
        "default_factory_module": getattr(factory, "__module__", None),
        "default_factory_name": getattr(factory, "__qualname__", None),
        "dict_context": keys,
    }


def _to_defaultdict(found: dict) -> list:
    if found["default_factory_name"] is None:
        return [None, found["dict_context"]]
    module = importlib.import_module(found["default_factory_module"])
    return [getattr(module, found["default_factory_name"]), found["dict_context"]]


def _of_named(cls: type) -> str:
    if cls not in _NAMED:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {cls} because we didn't register a serializated_type_name. "
            "Please register using `_register_namedtuple`."
        )
    return _NAMED[cls]


def _to_named(name: str) -> Any:
    found = [cls for cls, known in _NAMED.items() if known == name]
    if not found:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {name}: register it with `_register_namedtuple`."
        )
    return found[0]


for _kind, _name, _dump, _load in (
    (tuple, "builtins.tuple", None, None),
    (list, "builtins.list", None, None),
    (dict, "builtins.dict", None, None),
    (OrderedDict, "collections.OrderedDict", None, None),
    (defaultdict, "collections.defaultdict", _of_defaultdict, _to_defaultdict),
    (deque, "collections.deque", None, None),
    (Size, "torch.Size", None, None),
    (namedtuple, "collections.namedtuple", _of_named, _to_named),
):
    _WRITTEN[_kind] = _SerializeNodeDef(_kind, _name, _dump, _load)


SUPPORTED_SERIALIZED_TYPES = _WRITTEN


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as text, in JSON.

    Raises:
        ValueError: another protocol than 1. TypeError: no structure, or a context that JSON cannot hold.
        NotImplementedError: a class that was registered without a name for this.

    >>> from torchlike.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> treespec_loads(treespec_dumps(tree_structure({"a": [1, 2]})))
    TreeSpec(dict, ['a'], [TreeSpec(list, None, [*,
        *])])
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of PyTreeSpec but got item of type {type(treespec)}.")
    protocol = _PROTOCOL if protocol is None else protocol
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[_PROTOCOL]}")
    return json.dumps((protocol, _written(treespec)))


def _written(spec: TreeSpec) -> dict:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    how = _WRITTEN.get(spec.type)
    if how is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your _register_pytree_node call "
            "with a `serialized_type_name` kwarg."
        )
    context = how.to_dumpable_context(spec.context) if how.to_dumpable_context is not None else _text_of(spec.context)
    return {
        "type": how.serialized_type_name,
        "context": context,
        "children_spec": [_written(c) for c in spec.children()],
    }


def _text_of(context: Any) -> str:
    try:
        return json.dumps(context, default=_of_enum)
    except TypeError as error:
        raise TypeError(
            "Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
            "using _register_pytree_node."
        ) from error


def _of_text(text: str) -> Any:
    return json.loads(text, object_hook=_to_enum)


def _of_enum(x: Any) -> Any:
    if not isinstance(x, enum.Enum):
        raise TypeError(f"{type(x).__name__} is nothing that JSON can hold")
    return {"__enum__": True, "fqn": f"{type(x).__module__}:{type(x).__qualname__}", "name": x.name}


def _to_enum(found: dict) -> Any:
    if "__enum__" not in found:
        return found
    module, _, path = found["fqn"].partition(":")
    cls: Any = importlib.import_module(module)
    for part in path.split("."):
        cls = getattr(cls, part)
    return cls[found["name"]]


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that :func:`treespec_dumps` has written.

    Raises ValueError for another protocol, NotImplementedError for a name that no class was registered with.
    """
    protocol, found = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: {[_PROTOCOL]}")
    return _read(found)


def _read(found: dict) -> TreeSpec:
    name = found["type"]
    if name is None and found["context"] is None and not found["children_spec"]:
        return LeafSpec()
    kinds = [kind for kind, how in _WRITTEN.items() if how.serialized_type_name == name]
    if not kinds:
        raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")
    how = _WRITTEN[kinds[0]]
    given = found["context"]
    context = (
        how.from_dumpable_context(given)
        if how.from_dumpable_context is not None
        else json.loads(given, object_hook=_to_enum)
    )
    return TreeSpec(kinds[0], context, tuple(_read(c) for c in found["children_spec"]))


class _Asterisk(str):
    """A leaf of a printed structure."""

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as its container prints, with a star for each leaf.

    >>> from torchlike.utils._pytree import tree_structure, treespec_pprint
    >>> treespec_pprint(tree_structure({"a": [1, 2]}))
    "{'a': [*, *]}"
    """
    return repr(treespec.unflatten([_Asterisk("*")] * treespec.num_leaves))


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a class of named tuples, which are containers in any case, a name in what is written."""
    with _lock:
        _NAMED[cls] = serialized_type_name


def register_dataclass(
    cls: type,
    *,
    field_names: Sequence[str] | None = None,
    drop_field_names: Sequence[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make the objects of a dataclass containers of their fields; a field that is None is no child.

    Args:
        field_names: the fields, where the class is no dataclass. drop_field_names: fields that
            ``field_names`` leaves out, which then need defaults.
        serialized_type_name: as for :func:`register_pytree_node`.

    Raises ValueError for names that are not those of the fields that the class is made from.
    Warns where it replaces a registration.

    >>> import dataclasses
    >>> from torchlike.utils._pytree import register_dataclass, tree_map
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int
    >>> register_dataclass(Point)
    >>> tree_map(lambda v: v + 1, Point(1, 2))
    Point(x=2, y=3)
    """
    names = _fields(cls, field_names, set(drop_field_names or ()))
    if cls in _KINDS:
        warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.")
        _deregister_pytree_node(cls)

    def flatten(x: Any) -> tuple[list, Any]:
        given = [(n, getattr(x, n)) for n in names]
        return [v for _, v in given if v is not None], [[n for n, v in given if v is not None], _absent(given)]

    def unflatten(children: Any, context: Any) -> Any:
        return cls(**dict(zip(context[0], children, strict=True)), **dict.fromkeys(context[1]))

    def with_keys(x: Any) -> tuple[list, Any]:
        children, context = flatten(x)
        return [(GetAttrKey(n), v) for n, v in zip(context[0], children, strict=True)], context

    register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=serialized_type_name, flatten_with_keys_fn=with_keys
    )


def _absent(given: list) -> list[str]:
    return [n for n, v in given if v is None]


def _fields(cls: type, names: Sequence[str] | None, dropped: set[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if names is None:
            raise ValueError(
                "field_names must be specified with a list of all fields used to initialize "
                f"{cls}, as it is not a dataclass."
            )
        return list(names)
    own = [f.name for f in dataclasses.fields(cls) if f.init]
    names = own if names is None else names
    if missing := set(own) - set(names) - dropped:
        raise ValueError(
            f"field_names does not include all dataclass fields. Missing fields in `field_names`: {missing}. Add them "
            "there, or to `drop_field_names` if they are no parts of the container."
        )
    if unknown := set(names) - set(own):
        raise ValueError(
            f"field_names does not include all dataclass fields. Unexpected fields in `field_names`: {unknown}"
        )
    return list(names)


class ConstantNode(NamedTuple):
    """The context of an object that has no children."""

    value: Any


_CONSTANTS: set[type] = set()


def register_constant(cls: Any) -> None:
    """Make the objects of a class containers without children: part of the structure, compared by ``==``.

    TypeError for a class without an ``__eq__`` or a ``__hash__`` of its own.
    """
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    register_pytree_node(
        cls, lambda x: ([], ConstantNode(x)), lambda _, context: context.value, flatten_with_keys_fn=_no_children
    )
    _CONSTANTS.add(cls)


def _no_children(x: Any) -> tuple[list, ConstantNode]:
    return [], ConstantNode(x)


def is_constant_class(cls: type) -> bool:
    """Whether :func:`register_constant` has been called with the class."""
    return cls in _CONSTANTS and cls in _KINDS
