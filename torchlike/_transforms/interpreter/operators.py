"""The operators of the language: the function, the methods and the symbol of each."""

from __future__ import annotations

import operator
from typing import Any


def as_given(x: Any, name: str, result: Any) -> Any:
    """An object whose method ``name`` gives what that of ``x`` gave: Python is to judge whether it may."""
    return type(type(x).__name__, (), {"__module__": "torchlike", name: lambda self: result})()


def subscript(x: Any, key: Any) -> Any:
    """``x[key]``."""
    return x[key]


def contained(x: Any, value: Any) -> bool:
    """``value in x``."""
    return value in x


COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "@": "matmul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip


def _operators() -> tuple[dict[str, Any], dict[str, Any]]:
    plain = {s: getattr(operator, f"{n}_" if n in ("and", "or") else n) for s, n in _NAMES.items()}
    found = {s: (plain[s], f"__{n}__", f"__r{n}__") for s, n in _NAMES.items()}
    found |= {f"{s}=": (getattr(operator, f"i{n}"), f"__{n}__", f"__r{n}__") for s, n in _NAMES.items()}
    for symbol, name, reflected in (
        ("<", "lt", "gt"), ("<=", "le", "ge"), (">", "gt", "lt"), (">=", "ge", "le"), ("==", "eq", "eq"),
        ("!=", "ne", "ne"),
    ):  # fmt: skip
        found[symbol] = getattr(operator, name), f"__{name}__", f"__{reflected}__"
    unary = {"-": (operator.neg, "__neg__"), "+": (operator.pos, "__pos__"), "~": (operator.invert, "__invert__")}
    return found, unary


OPERATORS, UNARY = _operators()
IN_PLACE = frozenset([f for symbol, (f, *_) in OPERATORS.items() if symbol[-1] == "=" and symbol not in COMPARISONS])
