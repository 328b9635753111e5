"""What the steps of numpy programs do, by their names: {name: (values, parameters) -> value}."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlike._executor import elements, numpy_exact, numpy_indexing

FLOATS = frozenset({"float32", "float64"})
TINY = {name: float(np.finfo(name).smallest_normal) for name in FLOATS}
WHOLE = frozenset({f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)})
COMPLEX = frozenset({"complex64", "complex128"})
ALL = FLOATS | WHOLE | COMPLEX | {"bool"}
HALVES = frozenset({"float16", "bfloat16"})
COPIED = 1 << 10  # elements
TINY["float16"] = float(np.finfo(np.float16).smallest_normal)


class Subnormal(Exception):
    """Numbers so small that XLA takes them for 0: it has to compute the results."""


def subnormal(x: np.ndarray) -> bool:
    """Whether a number other than 0 is below the normal ones."""
    if x.dtype.kind == "c":
        return subnormal(x.real) or subnormal(x.imag)
    if x.dtype.name == "bfloat16":
        words = np.ascontiguousarray(x).view(np.uint16)
        return bool((((words & 0x7F80) == 0) & ((words & 0x7F) != 0)).any())
    return x.dtype.kind == "f" and bool(((np.abs(x) < TINY[x.dtype.name]) & (x != 0)).any())


_BELOW_ONE = {np.dtype(t): t(1 - np.finfo(t).epsneg) for t in (np.float32, np.float64)}


def suspect(x: np.ndarray) -> bool:
    """As :func:`subnormal`, for where numpy raises on underflow: times a little less than 1, only such numbers do."""
    below = _BELOW_ONE.get(x.dtype)
    if below is None:
        return x.dtype.kind not in "biu" and subnormal(x)
    try:
        np.multiply(x, below)
    except FloatingPointError:  # the smallest normal number does too
        return subnormal(x)
    return False


def _larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The maximum; zeros have signs in XLA: 0. is larger than -0."""
    found = np.maximum(x, y)
    return found if found.dtype.kind != "f" else np.where((x == y) & (x == 0), x + y, found)


def _smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    found = np.minimum(x, y)
    return found if found.dtype.kind != "f" else np.where((x == y) & (x == 0), -(-x - y), found)


def _largest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    found = np.maximum.reduce(x, axes)
    if x.dtype.kind != "f":
        return found
    return np.where(found == 0, np.where(((x == 0) & ~np.signbit(x)).any(axes), x.dtype.type(0), found), found)


def _smallest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return -_largest(-x, axes) if x.dtype.kind == "f" else np.minimum.reduce(x, axes)


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product; of complex numbers part by part: numpy may round a product and a sum once."""
    if x.dtype.kind != "c":
        return np.multiply(x, y)
    return _complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    out = np.empty(np.broadcast(real, imag).shape, np.result_type(real, np.complex64))
    out.real, out.imag = real, imag
    return out


def _integer_power(x: np.ndarray, y: int) -> np.ndarray:
    found: Any = None
    rest = abs(y)
    while rest:
        if rest & 1:
            found = x if found is None else found * x
        rest >>= 1
        if rest:
            x = x * x
    return found if y > 0 else np.divide(x.dtype.type(1), found)


def _total(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The sum of floats, added up one after the other; numpy's own sum adds up parts first."""
    kept = [n for i, n in enumerate(x.shape) if i not in axes]
    added = math.prod([x.shape[i] for i in axes])  # not -1, which an empty array leaves open
    rows = x.transpose([*axes, *[i for i in range(x.ndim) if i not in axes]]).reshape(added, *kept)
    return np.add.accumulate(rows)[-1] + x.dtype.type(0)  # XLA begins with 0, to which -0. adds nothing


def _pad(
    x: np.ndarray, fill: np.ndarray, before: Sequence[int], steps: Sequence[int], shape: Sequence[int]
) -> np.ndarray:
    out = np.full(shape, fill, x.dtype)
    firsts = [max(0, -(b // s)) for b, s in zip(before, steps, strict=True)]  # of what is not cut off
    counts = [(m - 1 - b) // s + 1 for b, s, m in zip(before, steps, shape, strict=True)]
    part = x[tuple(map(slice, firsts, [max(n, 0) for n in counts]))]
    if part.size:
        starts = [b + i * s for b, i, s in zip(before, firsts, steps, strict=True)]
        ends = [b + (n - 1) * s + 1 for b, n, s in zip(starts, part.shape, steps, strict=True)]
        out[tuple(map(slice, starts, ends, steps))] = part
    return out


def _start(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> tuple[slice, ...]:
    """The part of ``x`` from ``starts`` on, moved so that it is inside."""
    firsts = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple([slice(s, s + m) for s, m in zip(firsts, sizes, strict=True)])


def _updated(x: np.ndarray, new: np.ndarray, *starts: Any) -> np.ndarray:
    out = x.copy()
    out[_start(x, starts, new.shape)] = new
    return out


def _broadcast(x: np.ndarray, between: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """``x`` repeated; a small copy takes a quarter of the time of numpy's view."""
    if math.prod(shape) > COPIED:
        return np.broadcast_to(x.reshape(between), shape)
    out = np.empty(shape, x.dtype)
    out[...] = x.reshape(between)
    return out


def _element(*args: Any) -> np.ndarray:
    """See elements.call. XLA's own numbers may be such that it takes them for 0 further on, which numpy does not."""
    found = elements.call(*args)
    if suspect(found):
        raise Subnormal
    return found


UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": _product, "div": np.divide, "max": _larger, "min": _smaller,
    "neg": np.negative, "abs": np.absolute, "square": np.square, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "is_finite": np.isfinite, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "not": np.invert, "shift_left": np.left_shift, "shift_right_logical": np.right_shift, "add_any": np.add,
}  # fmt: skip
DOES = UFUNCS | {
    "select": lambda which, no, yes: np.where(which, yes, no),
    "clamp": lambda low, x, high: _smaller(_larger(x, low), high),
    "power": _integer_power,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
    "complex": _complex,
    "conj": lambda x: np.conjugate(x),
    "round": np.rint,
    "cast": lambda x, dtype: x.astype(dtype),
    "bits": lambda x, dtype, shape: np.ascontiguousarray(x).view(dtype).reshape(shape),
    "reshape": lambda x, shape: x.reshape(shape),
    "broadcast": _broadcast,
    "transpose": lambda x, order: x.transpose(order),
    "slice": lambda x, *parts: x[tuple(map(slice, *parts))],
    "reverse": lambda x, axes: np.flip(x, axes),
    "concatenate": lambda *args: np.concatenate(args[:-1], args[-1]),
    "pad": _pad,
    "dynamic_slice": lambda x, *rest: x[_start(x, rest[:-1], rest[-1])],
    "dynamic_update_slice": _updated,
    "largest": _largest,
    "smallest": _smallest,
    "every": lambda x, axes: np.logical_and.reduce(x, axes),
    "any": lambda x, axes: np.logical_or.reduce(x, axes),
    "sum": lambda x, axes: np.add.reduce(x, axes, x.dtype),
    "total": _total,
    "stack": lambda *args: np.stack(args[:-1], args[-1]),
    "argmax": lambda x, axis, dtype: np.argmax(x, axis).astype(dtype),
    "argmin": lambda x, axis, dtype: np.argmin(x, axis).astype(dtype),
    "element": _element,
    "iota": lambda dtype, row, shape: np.broadcast_to(np.arange(math.prod(row), dtype=dtype).reshape(row), shape),
    **numpy_indexing.DOES,
    **numpy_exact.DOES,
}
# Of the others, the steps whose results may be too small.
ROUNDING = frozenset({"power", "cast", "total", "scatter", "element", "precise", "rest", "whole", "sign"})
