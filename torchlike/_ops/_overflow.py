"""The check of numbers beside tensors of few bits: PyTorch refuses one that the dtype does not hold, XLA wraps it."""

import numpy as np
from jax import numpy as jnp

C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int32": "int",
    "int64": "int64_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "complex64": "c10::complex<float>",
}  # fmt: skip
_OF_FEW_BITS = frozenset(("uint8", "int8", "int16", "int32", "float16"))


def overflow(tensor, *numbers, halves=True, promotes=True):
    """``check`` of an operator: whether the dtype of ``tensor`` does not hold one of the numbers, and the exception.

    No check where all are held in any case, as by dtypes of many bits. A float beside an integer tensor is not checked
    if it ``promotes``; those beside float16 are where ``halves`` says so.
    """
    dtype = tensor.dtype
    if dtype.name not in _OF_FEW_BITS or dtype.kind == "f" and not halves:
        return None, None
    flags = [beyond(dtype, n) for n in numbers if n is not None and not (promotes and _promotes(dtype, n))]
    if not flags:
        return None, None
    return jnp.any(jnp.stack(flags)), lambda: error(dtype)


def error(dtype):
    """The exception for a number that a dtype does not hold."""
    return RuntimeError(f"value cannot be converted to type {C_NAMES.get(dtype.name, dtype.name)} without overflow")


def _promotes(dtype, number):
    return dtype.kind != "f" and jnp.asarray(number).dtype.kind not in "iu"


def beyond(dtype, number):
    """Whether a dtype does not hold a number; small negative integers wrap in unsigned ones, as PyTorch's."""
    number = jnp.asarray(number)
    if number.dtype.kind == "c" and dtype.kind == "c":
        return beyond(dtype, number.real) | beyond(dtype, number.imag)
    if number.dtype.kind in "bc":
        return jnp.zeros((), bool)
    if jnp.issubdtype(dtype, jnp.inexact):
        return (abs(number) > float(jnp.finfo(dtype).max)) & (abs(number) != jnp.inf)
    limits = np.iinfo(dtype)
    wraps = dtype.kind == "u" and number.dtype.kind in "iu"
    return ~((number >= (-int(limits.max) if wraps else int(limits.min))) & (number <= int(limits.max)))


def of_pair(condition, self, other):
    """``check`` of a choice between a tensor and a number."""
    for tensor, number in ((self, other), (other, self)):
        if getattr(number, "weak_type", False) and not getattr(tensor, "weak_type", False):
            return overflow(tensor, number, halves=False)
    return None, None


def factors(self, beta, alpha, **rest):
    """``check`` of a sum of a tensor and a product, each with a factor."""
    given = [f for f in (beta, alpha) if not (isinstance(f, int) and f == 1)]
    return overflow(self, *given, halves=False, promotes=False)
