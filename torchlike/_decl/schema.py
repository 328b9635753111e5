"""Operator schemas of declarations: PyTorch's signature notation, as kernels and fronts need it.

``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`` names the operator and its
overload, its arguments with kinds and defaults, and its returns. ``(a)`` marks an alias, ``(a!)`` a
mutated argument.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, NamedTuple

from torchlike._decl.function_schema import parse_schema

if TYPE_CHECKING:
    from torchlike._decl.schema_types import Argument

_KIND = re.compile(r"(\w+)(\(.*?\))?(.*)")

_KINDS = frozenset(
    "Tensor Scalar float int SymInt bool str ScalarType dtype Device Layout MemoryFormat Generator".split()
)


class SchemaError(TypeError):
    """A schema does not parse, or contradicts the declaration that uses it."""


class Arg(NamedTuple):
    """One argument: ``kind`` is the element type, ``list`` the list suffix (``None`` for a scalar)."""

    type: str
    kind: str
    name: str
    default: object
    has_default: bool
    kwarg_only: bool
    is_list: bool
    optional: bool
    length: int | None
    mutated: bool

    @property
    def is_tensor(self) -> bool:
        return self.kind == "Tensor"

    @property
    def is_number(self) -> bool:
        return self.kind in ("Scalar", "float", "int")

    @property
    def public_kind(self) -> str:
        """What errors call what is expected."""
        return {"Scalar": "Number", "dtype": "torch.dtype"}.get(self.kind, self.kind)

    @property
    def public_name(self) -> str:
        """The name under which functions take it and errors speak of it."""
        return "input" if self.name == "self" else self.name

    def __str__(self) -> str:
        text = f"{self.type} {self.name}"
        return f"{text}={_spell(self.default, self)}" if self.has_default else text


def _spell(value: object, arg: Arg) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


@cache
def _default(text: str) -> Any:
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if text[0] in "0123456789-.[\"'":
        value = ast.literal_eval(text)
        return tuple(value) if isinstance(value, list) else value
    return text


def _arg(parsed: Argument) -> Arg:
    """An argument of the parsed schema as kernels see it: its default is the value that a Python call leaves out."""
    kind, _, suffix = _KIND.fullmatch(parsed._spelt).groups()
    if kind not in _KINDS:
        raise SchemaError(f"unknown kind {kind!r}; known: {sorted(_KINDS)}")
    given = parsed.has_default_value()
    return Arg(
        parsed._spelt, {"SymInt": "int", "ScalarType": "dtype"}.get(kind, kind), parsed.name,
        _default(parsed._written) if given else None, given, parsed.kwarg_only, "[" in suffix,
        suffix.endswith("?") or suffix.startswith("?"), parsed.N, parsed.is_write,
    )  # fmt: skip


_Parts = tuple[str, str, tuple[Arg, ...], tuple[tuple[str, str | None], ...]]


def _parsed(text: str) -> _Parts:
    """Name, overload, arguments and results."""
    parsed = parse_schema(text)
    returns = tuple([(r._spelt, r.name or None) for r in parsed.returns])
    return parsed.name, parsed.overload_name, tuple([_arg(a) for a in parsed.arguments]), returns


_WHOLE = re.compile(r"([a-z_]\w*)(?:\.((?!__|default\()[A-Za-z_]\w*))?\(((?:[^()]|\(\w!?\))*)\) -> ([^#]+)")
_PIECE = re.compile(r"([A-Za-z]+(?:\(\w!?\))?(?:\[\d*\])?\??) ([a-z_]\w*)(=(?:-?[\w.]+|\"\w*\"))?")


def _by_pieces(text: str) -> _Parts | None:
    """The same from kinds of arguments that others are of too, each parsed once; None where the text has more to it."""
    whole = _WHOLE.fullmatch(text)
    if whole is None or iskeyword(whole[1]) or iskeyword(whole[2] or ""):
        return None
    args, by_name, defaults = [], False, False
    for piece in whole[3].split(", ") if whole[3] else ():
        if piece == "*" and not by_name:
            by_name = True
            continue
        arg = _of_piece(piece, by_name)
        if arg is None or defaults and not arg.has_default and not by_name:
            return None
        defaults = arg.has_default
        args.append(arg)
    return whole[1], whole[2] or "", tuple(args), _results(whole[4])


@cache
def _of_piece(piece: str, by_name: bool) -> Arg | None:
    found = _PIECE.fullmatch(piece)
    if found is None or iskeyword(found[2]):
        return None
    kind, name, default = found.groups()
    return _of_kind(kind, default or "", by_name)._replace(name=name)


@cache
def _of_kind(kind: str, default: str, by_name: bool) -> Arg:
    return _parsed(f"f({'*, ' if by_name else ''}{kind} x{default}) -> ()")[2][0]


@cache
def _results(text: str) -> tuple[tuple[str, str | None], ...]:
    return _parsed(f"f() -> {text}")[3]


class Schema:
    """A parsed schema.

    Attributes:
        name, overload: ``"add"``, ``"Tensor"`` (the overload may be empty).
        args: tuple of :class:`Arg`.
        returns: tuple of (type, name or None).
        text: the schema as it was written.
    """

    __slots__ = ("text", "name", "overload", "args", "returns")

    def __init__(self, text: str) -> None:
        try:
            self.name, self.overload, self.args, self.returns = _by_pieces(text) or _parsed(text)
        except (RuntimeError, IndexError, SchemaError, ValueError) as error:
            raise SchemaError(f"not a schema: {text!r}: {error}") from None
        self.text = text

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def is_view(self) -> bool:
        return any("(a)" in kind for kind, _ in self.returns)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Schema({self.text!r})"
