"""What a schema says, as objects: arguments and results with their types, printed and compared as PyTorch does."""

import re
from typing import Any, NoReturn


class SchemaType:
    """The type of an argument or result: ``kind()`` names it, ``str()`` spells it out."""

    __slots__ = ("_name", "_inner")

    def __init__(self, name: str, *inner: "SchemaType") -> None:
        self._name, self._inner = name, inner

    def kind(self) -> str:
        """``TensorType``, ``ListType``, ``OptionalType``, ``IntType`` and so on."""
        name = self._name
        if name[0].islower() and name not in _KINDS:
            return "VarType"
        if name.startswith("__torch__"):
            return "ClassType"
        return _KINDS.get(name) or (name if name.endswith("Type") else name + "Type")

    def getElementType(self) -> "SchemaType":
        """What a list or an optional is of."""
        if len(self._inner) != 1:
            self._refuse("getElementType")
        return self._inner[0]

    def containedTypes(self) -> list["SchemaType"]:
        """The types that this one is made of."""
        return list(self._inner)

    def getKeyType(self) -> "SchemaType":
        """What the keys of a dictionary are."""
        return self._entry("getKeyType", 0)

    def getValueType(self) -> "SchemaType":
        """What the values of a dictionary are."""
        return self._entry("getValueType", 1)

    def _entry(self, name: str, place: int) -> "SchemaType":
        if self.kind() != "DictType":
            self._refuse(name)
        return self._inner[place]

    def elements(self) -> list["SchemaType"]:
        """What a tuple is made of."""
        if self.kind() != "TupleType":
            self._refuse("elements")
        return list(self._inner)

    def _refuse(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.kind()} {self} has no attribute {name!r}", name=name, obj=self)

    @property
    def annotation_str(self) -> str:
        """The type as it would be annotated."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaType) and (self._name, self._inner) == (other._name, other._inner)

    def __hash__(self) -> int:
        return hash((self._name, self._inner))

    def __str__(self) -> str:
        return f"{self._name}[{', '.join(map(str, self._inner))}]" if self._inner else self._name

    __repr__ = __str__


_KINDS = {
    "int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType", "number": "NumberType",
    "complex": "ComplexType", "Device": "DeviceObjType", "Stream": "StreamObjType", "ScalarType": "ScalarTypeType",
    "Dict": "DictType", "Tuple": "TupleType", "Layout": "LayoutType", "MemoryFormat": "MemoryFormatType",
}  # fmt: skip


class AliasInfo:
    """Which values an argument may share memory with, and whether the operator writes to it."""

    __slots__ = ("before_set", "after_set", "is_write", "_text")

    def __init__(self, before: list[str], after: list[str], is_write: bool) -> None:
        self.before_set, self.after_set, self.is_write = set(before), set(after), is_write
        self._text = "|".join(reversed(before)) + "!" * is_write
        if set(before) != set(after):
            self._text += " -> " + "|".join(reversed(after))

    def _key(self) -> tuple:
        return frozenset(self.before_set), frozenset(self.after_set), self.is_write


class Argument:
    """An argument of a schema, or one of its results."""

    __slots__ = (
        "name", "type", "real_type", "N", "kwarg_only", "alias_info", "default_value", "_has_default", "_spelt",
        "_written",
    )  # fmt: skip

    def __init__(self, name: str, spelt: str, kinds: tuple, length: int | None, alias: AliasInfo | None) -> None:
        self.name, self._spelt, (self.type, self.real_type) = name, spelt, kinds
        self.N, self.alias_info = length, alias
        self.kwarg_only = self._has_default = False
        self.default_value: Any = None

    def has_default_value(self) -> bool:
        """Whether the argument may be left out."""
        return self._has_default

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is given by name only, to be written to."""
        return self.kwarg_only and self.is_write

    def _key(self) -> tuple:
        alias = self.alias_info and self.alias_info._key()
        return (
            self.name,
            str(self.real_type),
            self.N,
            self.kwarg_only,
            spell(self.default_value),
            self._has_default,
            alias,
        )

    def _text(self) -> str:
        text = f"{self._spelt} {self.name}" if self.name else self._spelt
        return f"{text}={self._default()}" if self._has_default else text

    def _default(self) -> str:
        value = self.default_value
        if isinstance(value, list) and self._spelt.startswith("int[") and len(value) > 1 and len(set(value)) == 1:
            return spell(value[0])  # PyTorch shows equal ints as one
        if isinstance(value, str) and self._spelt.startswith("str"):
            return f'"{_QUOTED.sub(_quoted, value)}"'
        return spell(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Argument) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class FunctionSchema:
    """A parsed schema; ``str()`` gives it back in PyTorch's spelling, and equal schemas compare equal."""

    __slots__ = ("name", "overload_name", "arguments", "returns", "is_vararg", "is_varret")

    def __init__(self, name: str, overload_name: str, arguments: list[Argument], returns: list[Argument]) -> None:
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = arguments, returns
        self.is_vararg = self.is_varret = False

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to any argument."""
        return any(a.is_write for a in self.arguments)

    def _is_view_op(self) -> bool:
        return any(a.alias_info is not None and not a.is_write for a in self.arguments)

    def is_backward_compatible_with(self, old: "FunctionSchema") -> bool:
        """Whether every call that ``old`` allows is still allowed: no argument went, new ones have defaults."""
        n = len(old.arguments)
        same = all(a._key() == b._key() for a, b in zip(self.arguments, old.arguments, strict=False))
        rest = all(a.has_default_value() for a in self.arguments[n:])
        named = (self.name, self.overload_name) == (old.name, old.overload_name)
        return named and same and rest and len(self.arguments) >= n and self.returns == old.returns

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSchema):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple:
        arguments, returns = [a._key() for a in self.arguments], [a._key() for a in self.returns]
        return self.name, self.overload_name, *arguments, None, *returns, self.is_vararg, self.is_varret

    def __str__(self) -> str:
        parts, star = [], False
        for a in self.arguments:
            if a.kwarg_only and not star:
                parts.append("*")
                star = True
            parts.append(a._text())
        if self.is_vararg:
            parts.append("...")
        got = [a._text() for a in self.returns] + ["..."] * self.is_varret
        single = len(got) == 1 and not got[0].startswith("(") or self.is_varret
        result = ", ".join(got) if single else f"({', '.join(got)})"
        suffix = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{suffix}({', '.join(parts)}) -> {result}"

    __repr__ = __str__


def spell(value: Any) -> str:
    """A default as schemas show it: numbers to all their digits, a float with its point."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(map(spell, value))}]"
    if isinstance(value, float):
        if value == int(value) and abs(value) < 2**63:
            return f"{int(value)}."
        return f"{value:.17g}"
    if isinstance(value, complex):
        return f"{spell(value.real)}+{spell(value.imag)}j"
    return str(value)


ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b", "0": "\0"}
_SPECIAL = {value: "\\" + key for key, value in ESCAPES.items() if key != "0"}
_QUOTED = re.compile(r"[\\\"'\n\t\r\f\v\a\x08]")


def _quoted(match: re.Match) -> str:
    return _SPECIAL.get(match[0], "\\" + match[0])
