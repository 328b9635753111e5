"""Numbers at equal distances, to the last bit those of PyTorch on a CPU with AVX2."""

from __future__ import annotations

from typing import Any

import numpy as np

_SPLIT = 2.0**27 + 1  # cuts a float64 into two halves whose products are exact


def _halves(x: Any) -> tuple[Any, Any]:
    high = x * _SPLIT
    high = high - (high - x)
    return high, x - high


def fused(a: float, b: Any, c: Any) -> np.ndarray:
    """``a * b + c`` of float64, rounded once."""
    a, b, c = np.float64(a), np.asarray(b, np.float64), np.asarray(c, np.float64)
    product = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    lost = a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)
    total = product + c
    part = total - product
    exact = total + (lost + ((product - (total - part)) + (c - part)))
    return exact if np.isfinite(exact).all() else np.where(np.isfinite(exact), exact, total)  # halves overflow


def ramp(first: Any, last: Any, steps: int, real: Any) -> np.ndarray:
    """A ramp of real numbers in the arithmetic of the numpy dtype ``real``; its second half counts from the end."""
    first, last = real.type(first), real.type(last)
    by = real.type((last - first) / real.type(max(steps - 1, 1)))
    i = np.arange(steps, dtype=np.float64)
    up = i < steps // 2 if steps > 1 else np.ones(steps, bool)
    base = np.where(up, np.float64(first), np.float64(last))
    k = np.where(up, i, i - (steps - 1))
    if real.itemsize == 2:
        return ((np.float64(by) * k).astype(real).astype(np.float64) + base).astype(real)
    return (fused(by, k, base) if real.itemsize == 8 else np.float64(by) * k + base).astype(real)
