"""All registered operators by name, and the names that a library may not take."""

import threading
from collections.abc import Callable
from typing import Any

from torchlike._aten import packets
from torchlike._aten.packets import OpOverload
from torchlike._aten.tags import Tag
from torchlike._decl.function_schema import parse_schema
from torchlike._decl.op import EXTENSIONS
from torchlike._library.operator import Operator, RegisteredOverload

OPERATORS: dict[str, Operator] = {}
PENDING: dict[str, dict[str, Callable]] = {}  # kernels registered before their operator is defined
_lock = threading.RLock()


def qualified(qualname: str) -> tuple[str, str]:
    """(namespace, name) of ``ns::name``; ValueError for anything else."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to the '
            "torch.library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


def tag_tuple(tags: Any) -> tuple[Tag, ...]:
    """One tag or several as a tuple; TypeError for what is none."""
    found = (tags,) if isinstance(tags, Tag) else tuple(tags or ())
    for t in found:
        if not isinstance(t, Tag):
            raise TypeError(f"tags: expected torch.Tag, or a sequence of them, but got {t!r}, a {type(t).__name__}")
    return found


def define(namespace: str, text: str, tags: tuple[Tag, ...], owner: Any = None) -> Operator:
    """Register the operator that the schema ``text`` (without namespace) states."""
    schema = parse_schema(text)
    given, _, rest = schema.name.rpartition("::")
    if given and given != namespace:
        raise RuntimeError(
            f"Explicitly provided namespace ({given}) in schema string does not match namespace of the enclosing "
            "library "
            f"({namespace}): {text}. Define it with a Library of that namespace, or delete the namespace from the "
            "schema."
        )
    schema.name = f"{namespace}::{rest}"
    operator = Operator(schema, owner)
    with _lock:
        if operator.qualname in OPERATORS or operator.qualname in EXTENSIONS:
            raise RuntimeError(
                f"Tried to register an operator ({schema}) with the same name and overload name multiple times. Each "
                f"overload's schema should only be registered with a single call to define(). Registered before: "
                f"{(OPERATORS.get(operator.qualname) or EXTENSIONS[operator.qualname]).schema}"
            )
        OPERATORS[operator.qualname] = operator
        operator.kernels.update(PENDING.pop(operator.qualname, {}))
        packet = packets.packet(namespace, rest)
        overload = RegisteredOverload(packet, operator, tags)
        packets.register(namespace, rest, schema.overload_name, overload)
    return operator


def forget(qualname: str) -> None:
    """Undo :func:`define`."""
    with _lock:
        operator = OPERATORS.pop(qualname, None)
        if operator is not None:
            namespace, name = qualified(operator.schema.name)
            packets.forget(namespace, name, operator.schema.overload_name)


def find(op: Any) -> Operator | None:
    """The registered operator of a name, an overload or a custom operator, if there is one."""
    if isinstance(op, RegisteredOverload):
        return op._operator
    if isinstance(op, str):
        return OPERATORS.get(op.removesuffix(".default"))
    return getattr(op, "_operator", None)


def demand_op(function: str, op: Any) -> str:
    """The qualified name of ``op``; ValueError if it is neither a name, an overload nor a custom operator."""
    if isinstance(op, str):
        qualified(op)
        return op.removesuffix(".default")
    if isinstance(op, OpOverload):
        return op.name()
    name = getattr(op, "_qualname", None)
    if name is None:
        raise ValueError(f"{function}({op}): got unexpected type for op: {type(op)}")
    return name


def demand(name: str) -> Operator:
    """The operator of that name; AttributeError if there is none."""
    found = OPERATORS.get(name)
    if found is None:
        namespace, rest = qualified(name)
        raise AttributeError(
            f"'_OpNamespace' '{namespace}' object has no attribute '{rest}': no operator {name} is registered"
        )
    return found


def kernels_of(name: str) -> dict[str, Callable]:
    """The kernels of an operator, which may be defined later."""
    found = OPERATORS.get(name)
    return PENDING.setdefault(name, {}) if found is None else found.kernels


__all__ = ["OPERATORS", "define", "demand", "demand_op", "find", "forget", "kernels_of", "qualified", "tag_tuple"]
