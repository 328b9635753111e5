"""The check of an element that another tensor takes over: PyTorch refuses what its dtype does not hold, XLA wraps it.

Numbers are refused before anything runs, see ``held`` of declarations.
"""

import numpy as np
from jax import numpy as jnp

_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int32": "int",
    "int64": "int64_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "complex64": "c10::complex<float>",
}  # fmt: skip


def error(dtype):
    """The exception for a number that a dtype does not hold."""
    return RuntimeError(f"value cannot be converted to type {_C_NAMES.get(dtype.name, dtype.name)} without overflow")


def exceeds(tensor, value):
    """(whether the dtype of ``tensor`` does not hold ``value``, the exception); no check where it holds all such."""
    dtype, given = tensor.dtype, value.dtype
    if "b" in (dtype.kind, given.kind) or _holds_all(dtype, given):
        return None, None
    return _beyond(dtype, value), lambda: error(dtype)


def _is_whole(dtype):
    return dtype.kind in "iu"


def _holds_all(dtype, given):
    """Whether a dtype holds whatever another one does."""
    limits, others = (jnp.iinfo(d) if _is_whole(d) else jnp.finfo(d) for d in (dtype, given))
    if not _is_whole(dtype):
        return float(others.max) <= float(limits.max)
    return _is_whole(given) and others.max <= limits.max and others.min >= _least(dtype, given)


def _least(dtype, given):
    """The least element of an integer dtype; small negative integers wrap in unsigned ones, as PyTorch's."""
    limits = np.iinfo(dtype)
    return -int(limits.max) if dtype.kind == "u" and _is_whole(given) else int(limits.min)


def _beyond(dtype, value):
    """Whether a dtype does not hold an element."""
    if jnp.iscomplexobj(value):
        return _beyond(dtype, value.real) | _beyond(dtype, value.imag)
    if not _is_whole(dtype):
        return (abs(value) > float(jnp.finfo(dtype).max)) & (abs(value) != jnp.inf)
    return ~((value >= _least(dtype, value.dtype)) & (value <= int(np.iinfo(dtype).max)))
