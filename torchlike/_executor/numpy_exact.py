"""Steps of numpy programs whose numbers XLA defines where C and numpy do not: quotients, shifts and casts of integers.

Each function gives what XLA gives for every input: at zero divisors, shifts too far, numbers outside of a range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

INT = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
_FLOATS = frozenset({"float32", "float64"})
# Unsigned integers, and bits of the fraction and of the exponent.
_WORDS: dict[str, tuple[Any, int, int]] = {
    "float32": (np.uint32, 23, 8),
    "float64": (np.uint64, 52, 11),
}


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The quotient cut off at the point; by 0 it is -1, in all bits."""
    if x.dtype.kind == "u":
        return np.where(y == 0, ~x.dtype.type(0), np.floor_divide(x, np.where(y == 0, y.dtype.type(1), y)))
    one = np.where((y == 0) | (y == -1), y.dtype.type(1), y)
    found = np.floor_divide(x, one)
    found = found + ((found * one != x) & ((x < 0) != (one < 0))).astype(x.dtype)
    return np.where(y == 0, x.dtype.type(-1), np.where(y == -1, np.subtract(x.dtype.type(0), x), found))


def _rest(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What a quotient leaves over, with the sign of what is divided."""
    if x.dtype.kind == "f":
        return np.fmod(x, y)
    if x.dtype.kind == "u":
        return np.where(y == 0, x, np.remainder(x, np.where(y == 0, y.dtype.type(1), y)))
    return np.where(y == 0, x, np.fmod(x, np.where((y == 0) | (y == -1), y.dtype.type(1), y)))


def _shifted(x: np.ndarray, by: np.ndarray, how: str) -> np.ndarray:
    """Bits moved left, or right with copies of the sign ("arithmetic") or zeros ("logical")."""
    bits = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    signed = np.dtype(f"i{x.dtype.itemsize}")
    count = by.view(unsigned) if by.ndim else np.asarray(by).astype(unsigned)
    far, near = count >= bits, np.minimum(count, unsigned.type(bits - 1))
    if how == "arithmetic":
        return (x.astype(signed) >> near.astype(signed)).astype(x.dtype)
    words = x.astype(unsigned)
    moved = words << near if how == "left" else words >> near
    return np.where(far, unsigned.type(0), moved).astype(x.dtype)


def _whole(x: np.ndarray, dtype: str) -> np.ndarray:
    """Floats as integers: cut off at the point, the nearest one where they are outside, 0 for NaN."""
    kind = np.iinfo(dtype)
    low, high = float(kind.min), float(kind.max)  # the largest may be one less than that, which no float is
    inside = (x > low) & (x < high)
    found = np.where(inside, x, 0).astype(dtype)
    return np.where(inside | np.isnan(x), found, np.where(x > 0, kind.max, kind.min).astype(dtype))


def _precise(x: np.ndarray, exponent: int, fraction: int) -> np.ndarray:
    """Floats rounded to fewer bits; what is too large is infinite, what is too small is 0."""
    unsigned, bits, wide = _WORDS[x.dtype.name]
    words = np.ascontiguousarray(x).view(unsigned).reshape(x.shape)
    sign = words & unsigned(1 << (bits + wide))
    rest = words ^ sign
    cut = bits - fraction
    if cut:
        rest = rest + (((rest >> unsigned(cut)) & unsigned(1)) + unsigned((1 << (cut - 1)) - 1))
        rest = rest & ~unsigned((1 << cut) - 1)
    bias, narrow = (1 << (wide - 1)) - 1, (1 << (exponent - 1)) - 1
    power = (rest >> unsigned(bits)).astype(np.int64)
    rest = np.where(power <= bias - narrow, unsigned(0), rest)
    rest = np.where(power > bias + narrow, unsigned(((1 << wide) - 1) << bits), rest)
    found = (rest | sign).view(x.dtype).reshape(x.shape)
    return np.where(np.isnan(x), x, found)


def _sign(x: np.ndarray) -> np.ndarray:
    return np.where((x == 0) | (x != x), x, np.copysign(x.dtype.type(1), x)) if x.dtype.kind == "f" else np.sign(x)


def _sorted(*args: Any) -> np.ndarray:
    """One array in the order of another one; the order stays where keys are the same."""
    x, key, axis = args
    return np.take_along_axis(x, np.argsort(key, axis, kind="stable"), axis)


def _along(x: np.ndarray, does: str, axis: int, backwards: int) -> np.ndarray:
    """Sums and the like of integers, up to each element of an axis."""
    x = np.flip(x, axis) if backwards else x
    found = _ALONG[does].accumulate(x, axis, x.dtype)
    return np.flip(found, axis) if backwards else found


_ALONG = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}

DOES = {
    "quotient": _quotient, "rest": _rest, "shift": _shifted, "whole": _whole, "precise": _precise, "sign": _sign,
    "sorted": _sorted, "along": _along, "choose": lambda which, *cases: np.choose(which, cases, mode="clip"),
    "multiply": lambda x, axes: np.multiply.reduce(x, axes, x.dtype),
}  # fmt: skip
_SHIFTS = {"shift_left": "left", "shift_right_logical": "logical", "shift_right_arithmetic": "arithmetic"}


def step(eqn: Any) -> tuple[str, tuple[Any, ...]] | None:
    """The step of an equation; None if it is none of these."""
    name, params = eqn.primitive.name, eqn.params
    kinds = {v.aval.dtype.name for v in eqn.invars}
    if kinds <= INT:
        if name in _SHIFTS:
            return "shift", (_SHIFTS[name],)
        if name == "div":
            return "quotient", ()
        if name in _ALONG:
            return "along", (name, params["axis"], int(params["reverse"]))
        if name == "reduce_prod":
            return "multiply", (tuple(params["axes"]),)
    if name in ("rem", "sign") and kinds <= INT | _FLOATS:
        return "rest" if name == "rem" else name, ()
    if name == "convert_element_type" and kinds <= _FLOATS and params.get("sharding") is None:
        return ("whole", (np.dtype(params["new_dtype"]).name,)) if np.dtype(params["new_dtype"]).name in INT else None
    if name == "reduce_precision" and kinds <= _FLOATS:
        return _rule_precise(kinds.pop(), params["exponent_bits"], params["mantissa_bits"])
    if name == "select_n" and eqn.invars[0].aval.dtype.name == "int32" and len(eqn.invars) < 32:
        return "choose", ()
    return None


def _rule_precise(kind: str, exponent: int, fraction: int) -> tuple[str, tuple[Any, ...]] | None:
    _, bits, wide = _WORDS[kind]
    return ("precise", (exponent, fraction)) if 1 < exponent <= wide and 0 < fraction <= bits else None
