"""Conversions to floats of eight bits, where PyTorch's number is not the one that ``astype`` gives."""

from typing import Any

import numpy as np

_LARGEST = {"float8_e4m3fn": 448.0}  # where there is no infinity, what is larger is the largest number
_NOTHING = {"float8_e4m3fnuz": 2.0**-11, "float8_e5m2fnuz": 2.0**-18}  # rounds to 0; XLA takes a negative one for NaN
NAMES = frozenset((*_LARGEST, *_NOTHING, "float8_e8m0fnu"))


def converted(x: Any, dtype: np.dtype, xp: Any = np) -> Any:
    """Real numbers ``x`` in ``dtype``; ``xp`` is numpy or ``jax.numpy``.

    Raises nothing: ``float8_e4m3fn`` has 448 for all that is larger, ``float8_e8m0fnu`` a power of two for a negative
    number and its least for 0.
    """
    dtype = np.dtype(dtype)
    if dtype.isbuiltin == 1 or dtype.name not in NAMES or x.dtype == dtype:  # numpy makes the name anew, in 1 us
        return x.astype(dtype)
    if x.dtype.kind in "biu" or x.dtype.itemsize <= 2:  # XLA rounds some half numbers to twice what they are
        x = x.astype(np.float32)
    if dtype.name in _LARGEST:
        return xp.clip(x, -_LARGEST[dtype.name], _LARGEST[dtype.name]).astype(dtype)
    if dtype.name in _NOTHING:
        return xp.where(abs(x) <= _NOTHING[dtype.name], xp.zeros_like(x), x).astype(dtype)
    return xp.where(x == 0, np.zeros((), np.uint8).view(dtype), abs(x).astype(dtype))
