"""Whole operator schemas: parsed with errors that point at the place, printed and compared as PyTorch does.

A recursive-descent parser of the notation ``ns::name.overload(Tensor(a!) x, *, int[2] y=1) -> (Tensor, int n)``. The
quick parser of ``_decl.schema`` serves the declarations at import; this one serves what users write and look at.
"""

import re
from typing import Any, NoReturn

from torchlike._base.device import device as Device
from torchlike._base.dtypes import ALIASES, dtype


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
        if not self._inner:
            raise RuntimeError(f"getElementType: {self} is neither a list nor an optional")
        return self._inner[0]

    def containedTypes(self) -> list["SchemaType"]:
        """The types that this one is made of."""
        return list(self._inner)

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

# What each name in a schema is to Python; the second name, where there is one, is its ``real_type``.
_NAMES = {
    "Tensor": "Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str", "Scalar": "number",
    "number": "number", "complex": "complex", "SymInt": "int", "SymBool": "bool", "ScalarType": "int", "Layout": "int",
    "MemoryFormat": "int", "Device": "Device", "Generator": "Generator", "Storage": "Storage", "Stream": "Stream",
    "QScheme": "QScheme", "Any": "Any", "Capsule": "Capsule", "NoneType": "NoneType",
    **{name: name for name in ("AnyEnumType", "AnyClassType", "AnyListType", "AnyTupleType")},
    "DeviceIndex": "int", "ConstQuantizerPtr": "int", "AnyClassType": "AnyClassType",
    "AnyListType": "AnyListType", "AnyTupleType": "AnyTupleType",
}  # fmt: skip
_REAL = {"ScalarType", "Layout", "MemoryFormat"}
_SPELT = {"DeviceIndex": "int", "ConstQuantizerPtr": "int"}


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
        return self.name, str(self.real_type), self.N, self.kwarg_only, spell(self.default_value), self._has_default, alias

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


_TOKEN = re.compile(
    r"(?P<space>(?:\s|#[^\n]*)+)|(?P<ident>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<arrow>->)|(?P<dots>\.\.\.)|(?P<mark>[-()\[\]{},:.=*?!|+@/<>&^%~])"
)
_RESERVED = frozenset(
    "False None True and as assert break class continue def del elif else for global if import in is not or pass "
    "raise return while with".split()
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a", "b": "\b", "0": "\0"}
_LISTED = ("int", "float", "bool", "complex")
_NAMED = {"Mean": 1, "strided": 0, "contiguous_format": 0}
_CODES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 "
    "bfloat16"
).split()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.kind = self.value = ""
        self.start = 0
        self.advance()

    def advance(self) -> str:
        """The token that was current; the next one becomes it."""
        before = self.value
        match = _TOKEN.match(self.text, self.at)
        if match is not None and match.lastgroup == "space":
            self.at = match.end()
            match = _TOKEN.match(self.text, self.at)
        self.start = self.at
        if match is None:
            if self.at < len(self.text):
                self.value = self.text[self.at]
                self.at += 1
                self.expected("a valid token", repr(self.value))
            self.kind, self.value = "eof", ""
            return before
        self.kind, self.value, self.at = match.lastgroup or "", match[0], match.end()
        if self.kind == "ident" and self.value in _RESERVED or self.kind == "mark":
            self.kind = self.value
        return before

    def fail(self, problem: str) -> NoReturn:
        """Raise RuntimeError that shows the current place."""
        line = self.text.rfind("\n", 0, self.start) + 1
        end = self.text.find("\n", self.start)
        shown = self.text[line : end if end >= 0 else None]
        mark = "" if self.kind == "eof" else "\n" + " " * (self.start - line) + "~" * len(self.value) + " <--- HERE"
        raise RuntimeError(f"{problem}:\n{shown}{mark}")

    def expected(self, what: str, found: str = "") -> NoReturn:
        names = {"string": "'string_literal'"}
        self.fail(f"expected {what} but found {found or names.get(self.kind, repr(self.kind))} here")

    def take(self, kind: str) -> str:
        if self.kind != kind:
            self.expected({"string": "string_literal", "arrow": "arrow"}.get(kind, kind))
        return self.advance()

    def took(self, kind: str) -> bool:
        if self.kind == kind:
            self.advance()
            return True
        return False

    # -- the grammar -------------------------------------------------------------------------------

    def operator(self) -> tuple[str, str]:
        """``ns::name`` and the overload."""
        name = self.take("ident")
        if self.took(":"):
            self.take(":")
            name += "::" + self.take("ident")
        overload = ""
        if self.kind == "mark" or self.kind == ".":
            self.advance()
            overload = self.take("ident")
        elif self.kind == "number" and self.value[0] == ".":
            self.expected("eof")
        if overload == "default" or overload.startswith("__"):
            raise RuntimeError(f"{overload} is not a legal overload name for aten operators")
        return name, overload

    def schema(self) -> FunctionSchema:
        name, overload = self.operator()
        if self.kind == "eof":
            raise RuntimeError(
                f"Tried to parse a function schema but only the operator name was given: {self.text!r}; append the "
                "arguments and results, as in 'name(Tensor x) -> Tensor'"
            )
        if self.kind != "(":
            self.expected("eof")
        found = FunctionSchema(name, overload, [], [])
        self.arguments(found)
        self.take("arrow")
        if self.took("dots"):
            found.is_varret = True
        elif self.kind == "(":
            self.results(found)
        else:
            found.returns.append(self.argument(result=True))
        if self.kind != "eof":
            self.expected("eof")
        self.demand_order(found)
        return found

    def arguments(self, found: FunctionSchema) -> None:
        self.take("(")
        by_name = False
        if self.took(")"):
            return
        while True:
            if found.is_vararg:
                self.fail("... must be the last element of the argument list")
            if self.took("*"):
                by_name = True
            elif self.took("dots"):
                found.is_vararg = True
            else:
                arg = self.argument()
                arg.kwarg_only = by_name
                found.arguments.append(arg)
            if not self.took(","):
                break
        self.take(")")

    def results(self, found: FunctionSchema) -> None:
        self.take("(")
        if self.took(")"):
            return
        while True:
            if self.took("dots"):
                found.is_varret = True
            else:
                found.returns.append(self.argument(result=True))
            if not self.took(","):
                break
        self.take(")")

    def demand_order(self, found: FunctionSchema) -> None:
        seen = None
        for a in found.arguments:
            if a.kwarg_only:
                break
            if seen is not None and not a.has_default_value():
                raise RuntimeError(
                    f"Non-default positional argument follows default argument. Parameter {a.name} in {found} needs a "
                    f"default, as {seen} has one before it, or a place behind *"
                )
            seen = a.name if a.has_default_value() else None

    def argument(self, result: bool = False) -> Argument:
        spelt, kind, real, length, alias = self.type()
        name = "" if result and self.kind != "ident" else self.take("ident")
        arg = Argument(name, spelt, (kind, real), length, alias)
        if not result and self.took("="):
            arg._has_default = True
            arg.default_value = self.default(arg)
        return arg

    def type(self) -> tuple[str, SchemaType, SchemaType, int | None, AliasInfo | None]:
        spelt, kind, real = self.base()
        alias, text = self.alias()
        spelt += text
        length = None
        while True:
            if self.took("["):
                length = None
                size = ""
                if self.kind != "]":
                    size = self.take("number")
                    length = int(size)
                self.take("]")
                spelt += f"[{size}]"
                kind, real = SchemaType("List", kind), SchemaType("List", real)
                if alias is not None:
                    alias = AliasInfo([], [], alias.is_write)
                again, text = self.alias()
                alias, spelt = again or alias, spelt + text
                if length is not None and self.kind == "[":
                    self.expected("ident")
            elif self.took("?"):
                spelt += "?"
                kind, real = SchemaType("Optional", kind), SchemaType("Optional", real)
            else:
                return spelt, kind, real, length, alias

    def base(self) -> tuple[str, SchemaType, SchemaType]:
        if self.kind == "(":
            self.advance()
            inner = [self.type()]
            while self.took(","):
                inner.append(self.type())
            self.take(")")
            spelt = f"({', '.join(t[0] for t in inner)})"
            return spelt, SchemaType("Tuple", *(t[1] for t in inner)), SchemaType("Tuple", *(t[2] for t in inner))
        if self.kind != "ident":
            self.expected("ident")
        name = self.value
        if name in ("Dict", "Future", "RRef", "Await"):
            self.advance()
            spelt, *kinds = self.base()
            kinds = [SchemaType(name, *(k._inner if k._name == "Tuple" else (k,))) for k in kinds]
            return name + spelt, kinds[0], kinds[1]
        known = _NAMES.get(name)
        if known is None and not (name[0].islower() or name == "__torch__"):
            common = ", ".join(["Tensor", "SymInt", "int", "float", "bool", "str", "Scalar", "ScalarType", "Device"])
            self.fail(f"unknown type specifier {name!r}. Valid schema types include {common}, and lists T[] and T?")
        self.advance()
        while name.startswith("__torch__") and self.took("."):
            name += "." + self.take("ident")
        kind = SchemaType(known or name)
        return _SPELT.get(name, name), kind, SchemaType(name) if name in _REAL else kind

    def alias(self) -> tuple[AliasInfo | None, str]:
        """``(a!)``, ``(a -> b|c)`` or nothing, and its spelling."""
        if self.kind != "(":
            return None, ""
        self.advance()
        before = self.alias_set()
        is_write = self.took("!")
        after = self.alias_set() if self.took("arrow") else before
        self.take(")")
        found = AliasInfo(before, after, is_write)
        return found, f"({found._text})"

    def alias_set(self) -> list[str]:
        if self.took("*"):
            return ["*"]
        found = [self.take("ident")]
        while self.took("|"):
            found.append(self.take("*" if self.kind == "*" else "ident"))
        return found

    # -- defaults ----------------------------------------------------------------------------------

    def default(self, arg: Argument) -> Any:
        kind = arg.type
        if kind._name == "List":
            return self.list_default(arg)
        if kind._name in ("Tensor", "Generator"):
            self.take("None")
            return None
        if kind._name == "Device":
            return Device(_unquoted(self.take("string")))
        if kind._name == "Optional" or kind._name in ("int", "float", "bool", "str", "number", "complex"):
            value = self.constant()
            as_float = kind._name == "float" and type(value) is int
            return float(value) if as_float else value
        self.fail(f"an argument of type {kind} takes no default")

    def list_default(self, arg: Argument) -> list:
        element = arg.type._inner[0]._name
        if element not in _LISTED:
            self.fail(f"lists are only supported for {', '.join(_LISTED)} types as defaults, not for {arg.type}")
        if arg.N is not None and self.kind != "[":
            values = [self.constant()] * arg.N
        else:
            self.take("[")
            values = [] if self.kind == "]" else [self.constant()]
            while self.took(","):
                values.append(self.constant())
            self.take("]")
        if element == "bool" and not all(isinstance(v, bool) for v in values):
            self.fail(f"expected bool values for {arg.type} {arg.name}, got {values}")
        return [float(v) if element == "float" else v for v in values]

    def constant(self) -> Any:
        if self.kind == "string":
            return _unquoted(self.advance())
        if self.kind in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[self.advance()]
        if self.kind == "ident":
            return self.named()
        negative = self.took("-")
        text = self.take("number")
        if text.endswith("j"):
            value: Any = complex(text)
        elif text.isdigit():
            value = int(text)
            if value >= 1 << 63:
                raise IndexError(f"{text} in {self.text} does not fit into 64 bits")
        else:
            value = float(text)
        return -value if negative else value

    def named(self) -> int:
        """The number behind a name: a dtype, a layout, a memory format or a reduction."""
        name = self.value
        known = ALIASES.get(name) if name not in _NAMED else None
        if name in _NAMED:
            self.advance()
            return _NAMED[name]
        if isinstance(known, dtype) and str(known).removeprefix("torch.") in _CODES:
            self.advance()
            return _CODES.index(str(known).removeprefix("torch."))
        self.fail(f"invalid numeric default value {name!r}; give a number, a string in quotes, True, False or None")


_SPECIAL = {value: "\\" + key for key, value in _ESCAPES.items() if key != "0"}
_QUOTED = re.compile(r"[\\\"'\n\t\r\f\v\a\x08]")


def _quoted(match: re.Match) -> str:
    return _SPECIAL.get(match[0], "\\" + match[0])


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])


def parse_schema(text: str) -> FunctionSchema:
    """The schema that ``text`` states.

    Raises RuntimeError, with the place marked, where it is not one.

    >>> from torchlike._decl.function_schema import parse_schema
    >>> schema = parse_schema("my::add.out(Tensor x, float s=1, *, Tensor(a!) out) -> Tensor(a!)")
    >>> schema
    my::add.out(Tensor x, float s=1., *, Tensor(a!) out) -> Tensor(a!)
    >>> schema.arguments[1].default_value, schema.arguments[2].is_out
    (1.0, True)
    """
    return _Parser(text).schema()


def parse_name(text: str) -> tuple[str, str]:
    """(``ns::name``, overload) of an operator's name alone."""
    parser = _Parser(text)
    found = parser.operator()
    if parser.kind != "eof":
        parser.expected("eof")
    return found
