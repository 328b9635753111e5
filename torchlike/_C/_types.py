"""The types of TorchScript that programs name: ``IntType.get()``, ``ListType(element)`` and so on."""

from collections.abc import Callable
from typing import Any

from torchlike._decl.schema_types import SchemaType

# How each type without parts is spelt, and the name that schemas have for it.
_PLAIN = {
    "AnyType": "Any", "BoolType": "bool", "ComplexType": "complex", "DeviceObjType": "Device", "FloatType": "float",
    "IntType": "int", "NoneType": "NoneType", "NumberType": "number", "PyObjectType": "PyObject",
    "StreamObjType": "Stream", "StringType": "str", "TensorType": "Tensor",
}  # fmt: skip
# Those of one part, those of two, and what is of any number.
_OF_ONE = {
    "AwaitType": "Await", "FutureType": "Future", "ListType": "List", "OptionalType": "Optional", "RRefType": "RRef",
}  # fmt: skip
__all__ = [*_PLAIN, *_OF_ONE, "DictType", "TupleType"]


class _OfKind(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, SchemaType) and x.kind() == cls.__name__


def _checked(name: str, parts: Any) -> tuple[SchemaType, ...]:
    if not all(isinstance(p, SchemaType) for p in parts):
        raise TypeError(f"torch._C.{name}: its parts are types, like torch.IntType.get(), but got {parts!r}")
    return tuple(parts)


def _class(name: str, doc: str, new: Callable[..., SchemaType], **others: Any) -> type:
    new.__name__, new.__qualname__ = "__new__", f"{name}.__new__"
    body = {"__doc__": doc, "__module__": "torchlike", "__new__": new}
    return _OfKind(name, (), body | {key: staticmethod(value) for key, value in others.items()})


def _plain(name: str, spelt: str) -> type:
    def new(cls: type) -> SchemaType:
        raise TypeError(f"torch._C.{name}: No constructor defined! use {name}.get()")

    return _class(name, f"The type ``{spelt}``: ``get()`` gives it. TypeError when called.", new, get=_giving(spelt))


def _of_one(name: str, spelt: str, **others: Any) -> type:
    def new(cls: type, a: SchemaType, /) -> SchemaType:
        return SchemaType(spelt, *_checked(name, (a,)))

    doc = f"``{name}(part)`` is the type ``{spelt}[part]``. TypeError for what is no type."
    return _class(name, doc, new, **others)


def _giving(spelt: str, *inner: str) -> Callable[[], SchemaType]:
    def get() -> SchemaType:
        return SchemaType(spelt, *map(SchemaType, inner))

    return get


def _dict(cls: type, key: SchemaType, value: SchemaType, /) -> SchemaType:
    return SchemaType("Dict", *_checked("DictType", (key, value)))


def _tuple(cls: type, elements: list[SchemaType], /) -> SchemaType:
    return SchemaType("Tuple", *_checked("TupleType", elements))


_ELEMENTS = {
    "ofBools": "bool", "ofComplexDoubles": "complex", "ofFloats": "float", "ofInts": "int", "ofStrings": "str",
    "ofTensors": "Tensor",
}  # fmt: skip
_GIVEN = {
    "ListType": {name: _giving("List", spelt) for name, spelt in _ELEMENTS.items()},
    "OptionalType": {"ofTensor": _giving("Optional", "Tensor")},
}
globals().update({name: _plain(name, spelt) for name, spelt in _PLAIN.items()})
globals().update({name: _of_one(name, spelt, **_GIVEN.get(name, {})) for name, spelt in _OF_ONE.items()})
DictType = _class("DictType", "``DictType(key, value)`` is the type ``Dict[key, value]``.", _dict)
TupleType = _class("TupleType", "``TupleType([a, b])`` is the type ``Tuple[a, b]``.", _tuple)
