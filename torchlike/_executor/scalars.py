"""Python numbers that kernels are given again and again, as arrays.

jax makes an array of a number in each call, which takes 2 to 3 us; a factor of 0.5 or the place ``i`` of ``x[i]`` comes
back in every step. The arrays are what jax makes: weakly typed, not committed to the device.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from torchlike._base.bits import X64
from torchlike._base.state import UNUSUAL
from torchlike._base.tracing import trace_state_clean
from torchlike._executor import compiling

AGAIN = 3  # the time a number comes at which its array is made
LARGE = 1 << 31  # integers beyond are no places
KEPT = 4096  # numbers of each kind; beyond, all are forgotten

_floats: dict[float, Any] = {}
_ints: dict[int, Any] = {}
_counts: dict[Any, int] = {}


def with_arrays(values: Any) -> Any:
    """What to give a kernel for ``values``: arrays of numbers that come often, if all of them do, else as they are."""
    if UNUSUAL:
        return values
    out = []
    for x in values:
        kind = x.__class__
        if kind is float or kind is int:
            array = (_floats if kind is float else _ints).get(x)
            if array is None:
                array = _new(x, kind)
                if array is None:
                    return values
            x = array
        out.append(x)
    return out if trace_state_clean() else values


def _new(x: Any, kind: type) -> Any:
    """The array of a number that has none yet; None where it has not come often enough."""
    if (not x and kind is float) or not -LARGE < x < LARGE:
        return None  # a dictionary does not tell 0.0 from -0.0, and does not find NaN
    count = _counts.get((kind, x), 0) + 1
    if count < AGAIN:
        if len(_counts) >= KEPT:
            _counts.clear()
        _counts[kind, x] = count
        return None
    if not _usable():
        return None
    array = _array(x, kind)
    kept: dict[Any, Any] = _floats if kind is float else _ints
    if len(kept) >= KEPT:
        kept.clear()
    kept[x] = array
    return array


def _usable() -> bool:
    """Whether kernels run on the one device where the arrays would be."""
    return bool(compiling.host() and X64 and jax.config.jax_enable_x64) and trace_state_clean() and _alone()


def _alone() -> bool:
    return jax.local_device_count() == jax.device_count() == 1 and compiling.usual()


def _array(x: Any, kind: type) -> Any:
    dtype = np.dtype(np.float64 if kind is float else np.int64)
    aval = jax.core.ShapedArray((), dtype, weak_type=True)
    (array,) = compiling.put([np.array(x, dtype)], [aval], False)
    return array
