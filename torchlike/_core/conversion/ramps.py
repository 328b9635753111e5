"""The numbers of ``arange``, ``linspace`` and ``logspace``, to the last bit those of PyTorch on a CPU with AVX2."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import demand_countable
from torchlike._base.ramp import fused, ramp
from torchlike._core.conversion.numbers import fitting

_VECTOR = 32  # bytes
_DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}  # of a significand, in bits


def overload(name: str, *ends: Any) -> str:
    """The aten call of a ramp between these ends, which are numbers or tensors."""
    kinds = ["Scalar" if isinstance(x, int | float | complex) else "Tensor" for x in ends]
    return f"{name}.{'_'.join(kinds) if 'Tensor' in kinds else 'default'}"


def elements(function: str, first: Any, last: Any, by: Any) -> int:
    """How many numbers of a range come before its end; RuntimeError where they cannot be counted."""
    whole = all(isinstance(n, int) for n in (first, last, by))
    count = -((first - last) // by) if whole else (last - first) / by
    if not 0 <= count < 2**63:
        raise RuntimeError(f"{function}: invalid size, possible overflow? {count} numbers from {first} to {last}")
    return math.ceil(count)


@np.errstate(all="ignore")
def arange_values(first: Any, last: Any, by: Any, kind: dtypes.dtype) -> np.ndarray:
    """``first + i * by`` for each i that stays before ``last``, in the arithmetic of ``kind``."""
    if kind is dtypes.int64:
        first, last, by = int(first), int(last), int(by)
        if not by:
            raise ValueError("step must be nonzero")
    count = elements("arange", first, last, by)
    demand_countable((count,), kind.itemsize)
    if not kind.is_floating_point:
        return (np.arange(count, dtype=np.int64) * np.int64(by) + np.int64(first)).astype(kind.np)
    if _is_exact(float(first), float(by), count, kind):
        return (np.arange(count, dtype=np.float64) * by + first).astype(kind.np)
    lanes = _VECTOR // kind.itemsize
    whole = count - count % (2 * lanes)  # vectors count from their own first element, which has been rounded
    bases = _line(first, by, np.arange(0, whole, lanes, dtype=np.float64), kind)
    vectors = _line(bases.astype(np.float64)[:, None], by, np.arange(lanes, dtype=np.float64)[None], kind)
    rest = _line(first, by, np.arange(whole, count, dtype=np.float64), kind)
    return np.concatenate([vectors.reshape(-1), rest]) if whole else rest


def _is_exact(first: float, by: float, count: int, kind: dtypes.dtype) -> bool:
    """Whether ``kind`` holds every number of the range: however they are counted, nothing is rounded."""
    if not math.isfinite(by) or (first == 0 and math.copysign(1, first) < 0):
        return False
    grid, bound = max(first.as_integer_ratio()[1], by.as_integer_ratio()[1]), 2 ** _DIGITS[kind.name]
    return grid < bound and (abs(first) + abs(by) * count) * grid < bound


def _line(first: Any, by: float, i: np.ndarray, kind: dtypes.dtype) -> np.ndarray:
    """``first + by * i`` in the precision in which PyTorch counts: float64, or float32 for 16 bits."""
    if kind is dtypes.bfloat16:  # the one that rounds twice
        return (np.float32(by) * i.astype(np.float32) + np.asarray(first, np.float32)).astype(kind.np)
    if kind.itemsize == 2:
        return (np.float64(np.float32(by)) * i + np.asarray(first, np.float32)).astype(np.float32).astype(kind.np)
    return fused(by, i, first).astype(kind.np)


def _end(kind: dtypes.dtype, x: Any) -> Any:
    """An end of a ramp as ``kind`` holds it; RuntimeError if it does not."""
    if isinstance(x, float) and x < 0 and kind.np.kind == "u":
        raise RuntimeError(f"value cannot be converted to type {kind.name}_t without overflow")
    return fitting(kind, x)


@np.errstate(all="ignore")
def linspace_values(first: Any, last: Any, steps: int, kind: dtypes.dtype) -> np.ndarray:
    """``steps`` numbers from ``first`` to ``last``; RuntimeError if ``kind`` holds one of these not."""
    demand_countable((steps,), kind.itemsize)
    first, last = _end(kind, first), _end(kind, last)
    if kind.is_complex:
        value = np.empty(steps, kind.np)
        real = value.real.dtype
        first, last = complex(first), complex(last)
        value.real, value.imag = (
            ramp(a, b, steps, real) for a, b in ((first.real, last.real), (first.imag, last.imag))
        )
        return value
    if kind.is_floating_point:
        return ramp(first, last, steps, np.dtype(kind.np))
    value = ramp(first, last, steps, np.dtype(np.float64)).astype(np.int64).astype(kind.np)
    if steps > 1:
        value[0], value[-1] = first, last  # which float64 may not hold
    return value


@np.errstate(all="ignore")
def logspace_values(first: Any, last: Any, steps: int, base: float, kind: dtypes.dtype) -> np.ndarray:
    """``base`` to the powers of a ramp of :func:`linspace_values`."""
    demand_countable((steps,), kind.itemsize)
    wide = dtypes.complex128 if kind.is_complex else dtypes.float64
    first, last = _end(kind, first), _end(kind, last)
    return np.power(np.asarray(float(base)), linspace_values(first, last, steps, wide)).astype(kind.np)


__all__ = ["arange_values", "elements", "linspace_values", "logspace_values"]
