"""Whole operator schemas, parsed with errors that point at the place.

A recursive-descent parser of the notation ``ns::name.overload(Tensor(a!) x, *, int[2] y=1) -> (Tensor, int n)``, of
declarations (``_decl.schema``) and of what users write.
"""

import re
from typing import Any, NoReturn

from torchlike._base import dtypes
from torchlike._base.device import device as Device
from torchlike._base.dtypes import ALIASES, dtype
from torchlike._decl.schema_types import ESCAPES, AliasInfo, Argument, FunctionSchema, SchemaType

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "SchemaType", "parse_name", "parse_schema"]

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

_TOKEN = re.compile(
    r"(?:\s|#[^\n]*+)*+(?:(?P<ident>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?j?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|(?P<arrow>->)|(?P<dots>\.\.\.)|(?P<mark>[-()\[\]{},:.=*?!|+@/<>&^%~]))"
)
_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_RESERVED = frozenset(
    "False None True and as assert break class continue def del elif else for global if import in is not or pass "
    "raise return while with".split()
)
_LISTED = ("int", "float", "bool", "complex")
_NAMED = {"Mean": 1, "strided": 0, "contiguous_format": 0}
_CODES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 "
    "bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz "
    "float8_e4m3fnuz uint16 uint32 uint64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 "
    "float8_e8m0fnu float4_e2m1fn_x2"
).split()


def code_of(kind: dtype) -> int:
    """The number of a dtype in schemas."""
    return _CODES.index(str(kind).removeprefix("torch."))


def of_code(code: int) -> dtype:
    """The dtype that a number stands for in schemas."""
    return getattr(dtypes, _CODES[code])


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.unnamed = 0  # places written to that the text gives no name
        self.kind = self.value = ""
        self.start = self.end = 0  # of the current token, and of the one before
        self.advance()

    def advance(self) -> str:
        """The token that was current; the next one becomes it."""
        before, self.end = self.value, self.at
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            self.start = self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text):
                self.value = self.text[self.at]
                self.at += 1
                self.expected("a valid token", repr(self.value))
            self.kind, self.value = "eof", ""
            return before
        self.kind = match.lastgroup or ""
        self.value, self.start, self.at = match[self.kind], match.start(self.kind), match.end()
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
            arg._has_default, start = True, self.start
            arg.default_value = self.default(arg)
            arg._written = self.text[start : self.end]
        return arg

    def type(self, inside: bool = False) -> tuple[str, SchemaType, SchemaType, int | None, AliasInfo | None]:
        """A type; ``inside`` another, what it shares is read and left out."""
        spelt, kind, real = self.base()
        alias, text = self.alias()
        text = "" if inside else text
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
                alias, spelt = again or alias, spelt + ("" if inside else text)
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
            inner = [self.type(inside=True)]
            while self.took(","):
                inner.append(self.type(inside=True))
            self.take(")")
            spelt = f"({', '.join(t[0] for t in inner)})"
            return spelt, SchemaType("Tuple", *(t[1] for t in inner)), SchemaType("Tuple", *(t[2] for t in inner))
        if self.took("None"):
            return "NoneType", SchemaType("NoneType"), SchemaType("NoneType")
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
        """``(a!)``, ``(a -> b|c)``, ``!`` for a set of its own, or nothing, and its spelling."""
        if self.took("!"):
            found = AliasInfo([f"${self.unnamed}"], [], True)
            self.unnamed += 1
        elif self.took("("):
            before = self.alias_set()
            is_write = self.took("!")
            found = AliasInfo(before, self.alias_set() if self.took("arrow") else before, is_write)
            self.take(")")
        else:
            return None, ""
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
            return code_of(known)
        self.fail(f"invalid numeric default value {name!r}; give a number, a string in quotes, True, False or None")


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), text[1:-1])


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
