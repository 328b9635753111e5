"""Operator schemas: PyTorch's signature notation, parsed once at import.

``add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`` names the operator and its
overload, its arguments with kinds and defaults, and its returns. ``(a)`` marks an alias, ``(a!)`` a
mutated argument.
"""

import ast
import re
from typing import NamedTuple

from torchlike._decl.function_schema import parse_schema

_HEAD = re.compile(r"(\w+)(?:\.(\w+))?\((.*)\) -> (.+)", re.DOTALL)
_ARG = re.compile(r"(\S+) (\w+)(?:=(.+))?")
_KIND = re.compile(r"(\w+)(\((\w+!?)\))?(.*)")

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
    def is_tensor(self):
        return self.kind == "Tensor"

    @property
    def public_name(self):
        """The name under which functions take it and errors speak of it."""
        return "input" if self.name == "self" else self.name

    def __str__(self):
        text = f"{self.type} {self.name}"
        return f"{text}={_spell(self.default, self)}" if self.has_default else text


def _spell(value, arg):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    return str(value)


def _split(text):
    """Split on the commas that are outside brackets and parentheses."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    tail = text[start:].strip()
    return [*parts, tail] if tail else parts


def _default(text):
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    if text[0] in "0123456789-.[\"'":
        value = ast.literal_eval(text)
        return tuple(value) if isinstance(value, list) else value
    return text


def _parse_arg(text, kwarg_only):
    match = _ARG.fullmatch(text)
    if match is None:
        raise SchemaError(f"not an argument: {text!r}")
    full, name, default = match.groups()
    kind, _, alias, suffix = _KIND.fullmatch(full).groups()
    if kind not in _KINDS:
        raise SchemaError(f"unknown kind {kind!r}; known: {sorted(_KINDS)}")
    length = re.search(r"\[(\d+)\]", suffix)
    kind = {"SymInt": "int", "ScalarType": "dtype"}.get(kind, kind)
    return Arg(
        full, kind, name, None if default is None else _default(default), default is not None, kwarg_only,
        "[" in suffix, suffix.endswith("?") or suffix.startswith("?"),
        int(length[1]) if length else None, bool(alias and alias.endswith("!")),
    )  # fmt: skip


def _refusal(text, error):
    """What is wrong with the schema, with the place where the whole parser finds it."""
    try:
        parse_schema(text)
    except (RuntimeError, IndexError) as found:
        error = f"{error}; {found}"
    return f"not a schema: {text!r}: {error}"


class Schema:
    """A parsed schema.

    Attributes:
        name, overload: ``"add"``, ``"Tensor"`` (the overload may be empty).
        args: tuple of :class:`Arg`.
        returns: tuple of (type, name or None).
        text: the schema as it was written.
    """

    __slots__ = ("text", "name", "overload", "args", "returns")

    def __init__(self, text):
        try:
            self._parse(text)
        except (SchemaError, ValueError, SyntaxError, AttributeError) as error:
            raise SchemaError(_refusal(text, error)) from None

    def _parse(self, text):
        match = _HEAD.fullmatch(text)
        if match is None:
            raise SchemaError("its form is 'name.overload(type argument=default, ...) -> type'")
        self.text = text
        self.name, overload, args, returns = match.groups()
        self.overload = overload or ""
        found, kwarg_only = [], False
        for part in _split(args):
            if part == "*":
                kwarg_only = True
            else:
                found.append(_parse_arg(part, kwarg_only))
        self.args = tuple(found)
        inner = returns[1:-1] if returns.startswith("(") else returns
        self.returns = tuple(tuple((p.split(" ") + [None])[:2]) for p in _split(inner))

    @property
    def full_name(self):
        return f"{self.name}.{self.overload}" if self.overload else self.name

    @property
    def is_view(self):
        return any("(a)" in kind for kind, _ in self.returns)

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Schema({self.text!r})"
