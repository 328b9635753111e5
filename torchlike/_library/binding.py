"""Arguments of a call against the schema of its operator."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from torchlike._base.device import device
from torchlike._base.dtypes import dtype
from torchlike._core.tensor.tensor import MemoryFormat, MemoryLayout, Tensor
from torchlike._decl.function_schema import Argument, FunctionSchema, SchemaType
from torchlike._functions.generator import Generator

_REFUSED = object()


def _tensor(value: Any) -> Any:
    return value if value is None or isinstance(value, Tensor) else _REFUSED


def _real(make: type) -> Callable[[Any], Any]:
    """A number, also one inside of a tensor or of numpy, as ``make``; a float is no int."""

    def convert(value: Any) -> Any:
        if isinstance(value, Tensor):
            return make(value.item()) if value.numel() == 1 and not value.is_complex() else _REFUSED
        if isinstance(value, bool | int | np.generic) and not isinstance(value, np.complexfloating):
            return make(value)
        return float(value) if isinstance(value, float) and make is float else _REFUSED

    return convert


def _complex(value: Any) -> Any:
    return complex(value) if isinstance(value, int | float | complex) else _REFUSED


def _device(value: Any) -> Any:
    return device(value) if isinstance(value, str) else value if isinstance(value, device) else _REFUSED


def _is(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else _REFUSED


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "Tensor": _tensor, "int": _real(int), "float": _real(float), "bool": _real(bool), "str": _is(str),
    "number": _is(int, float, complex),
    "complex": _complex, "Device": _device, "ScalarType": _is(dtype, int), "Layout": _is(MemoryLayout, int),
    "MemoryFormat": _is(MemoryFormat, int), "Generator": _is(Generator), "Any": lambda value: value,
    "NoneType": _is(type(None)),
}  # fmt: skip


def _listed(element: Callable[[Any], Any], size: int | None) -> Callable[[Any], Any]:
    """The converter of a list; one value stands for all of a list of fixed length."""

    def convert(value: Any) -> Any:
        if size is not None and isinstance(value, int | float):
            value = [value] * size
        if not isinstance(value, list | tuple):
            return _REFUSED
        found = [element(v) for v in value]
        return _REFUSED if any(v is _REFUSED for v in found) else found

    return convert


def _optional(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else inner(value)


def converter(kind: SchemaType, size: int | None = None) -> Callable[[Any], Any]:
    """What checks a value of this type and gives it as kernels get it."""
    if kind.kind() == "ListType":
        return _listed(_strict(converter(kind.getElementType())), size)
    if kind.kind() == "OptionalType":
        return _optional(converter(kind.getElementType(), size))
    found = _CONVERTERS.get(str(kind))
    if found is None:
        raise NotImplementedError(
            f"arguments of the type {kind} are not supported; use Tensor, int, float, bool, str, Scalar, ScalarType, "
            "Device, Layout, MemoryFormat, Generator, and lists and optionals of them"
        )
    return found


def _strict(element: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """In a list only an optional tensor may be None."""
    if element is not _tensor:
        return element
    return lambda value: _REFUSED if value is None else _tensor(value)


class Binder:
    """Checks and converts the arguments of calls.

    Attributes:
        positional, named: the arguments by kind. holders: (index or name) of those that hold tensors.
    """

    def __init__(self, schema: FunctionSchema) -> None:
        self.schema = schema
        self.positional = [a for a in schema.arguments if not a.kwarg_only]
        self.named = [a for a in schema.arguments if a.kwarg_only]
        self._converters = {a.name: converter(a.real_type, a.N) for a in schema.arguments}
        self._positions = {a.name: i for i, a in enumerate(schema.arguments)}
        self._known = frozenset(self._positions)

    def __call__(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """(args, kwargs) as kernels get them: positional unless keyword-only, defaults at the end left out."""
        positional = self.positional
        if len(args) > len(positional):
            raise RuntimeError(
                f"{self.schema.name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {self.schema}"
            )
        left = dict(kwargs)
        values: list[Any] = []
        for i, a in enumerate(positional):
            if i < len(args):
                if a.name in left:
                    raise RuntimeError(
                        f"Argument '{a.name}' specified both as positional and keyword argument. Schema: {self.schema}"
                    )
                values.append(self._converted(a, args[i]))
            elif a.name in left:
                values.append(self._converted(a, left.pop(a.name)))
            elif a.has_default_value():
                values.append(a.default_value)
            else:
                self._missing(a)
        while values and _is_default(positional[len(values) - 1], values[-1]):
            values.pop()
        return tuple(values), self._keywords(left)

    def _keywords(self, left: dict) -> dict:
        found = {}
        for a in self.named:
            if a.name in left:
                value = self._converted(a, left.pop(a.name))
                if not _is_default(a, value):
                    found[a.name] = value
            elif not a.has_default_value():
                self._missing(a)
        if left:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(left))}' for operator '{self.schema.name}'. Schema: "
                f"{self.schema}"
            )
        return found

    def _missing(self, a: Argument) -> NoReturn:
        raise RuntimeError(f"{self.schema.name}() is missing value for argument '{a.name}'. Declaration: {self.schema}")

    def _converted(self, a: Argument, value: Any) -> Any:
        found = self._converters[a.name](value)
        if found is _REFUSED:
            raise RuntimeError(
                f"{self.schema.name}() Expected a value of type '{a.type}' for argument '{a.name}' but instead found "
                f"type '{type(value).__name__}'.\nPosition: {self._positions[a.name]}\nValue: {value!r}\n"
                f"Declaration: {self.schema}"
            )
        return found

    def filled(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """(args, kwargs) with every default."""
        rest = tuple([a.default_value for a in self.positional[len(args) :]])
        return (*args, *rest), {a.name: kwargs.get(a.name, a.default_value) for a in self.named}

    def written(self, args: tuple, kwargs: dict) -> list[Tensor]:
        """The tensors that the schema declares to be changed."""
        given = zip(self.positional, args, strict=False)
        chosen = [v for a, v in given if a.is_write]
        chosen += [kwargs[a.name] for a in self.named if a.is_write and a.name in kwargs]
        return list(tensors(chosen))


def _is_default(a: Argument, value: Any) -> bool:
    if not a.has_default_value():
        return False
    default = a.default_value
    if isinstance(value, dtype | Tensor):
        return False
    return type(value) is type(default) and bool(value == default)


def tensors(values: Any) -> Any:
    """The tensors among arguments, those in lists included."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors(value)
