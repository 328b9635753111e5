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


def scalar(x: Any) -> Any:
    """What to give a kernel for ``x``: the array of a number that comes often, else ``x`` as it is."""
    kind = x.__class__
    if kind is float:
        found = _floats.get(x)
    elif kind is int:
        found = _ints.get(x)
    else:
        return x
    if found is None:
        return x if UNUSUAL else _new(x, kind)
    return x if UNUSUAL or not trace_state_clean() else found


def _new(x: Any, kind: type) -> Any:
    """As :func:`scalar`, for a number without an array."""
    if not x or not -LARGE < x < LARGE:  # 0.0 has a sign that a dictionary does not tell, and NaN is not found
        return x
    count = _counts.get((kind, x), 0) + 1
    if count < AGAIN:
        if len(_counts) >= KEPT:
            _counts.clear()
        _counts[kind, x] = count
        return x
    array = _array(x, kind) if _usable() else None
    if array is None:
        return x
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
