"""Python numbers against dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base import float8

if TYPE_CHECKING:
    from torchlike._base.dtypes import dtype
    from torchlike._core.typed import Number

_C_NAMES = {
    "float32": "float", "float64": "double", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "int32": "int",
    "int64": "int64_t", "int16": "short", "int8": "int8_t", "uint8": "uint8_t", "complex64": "c10::complex<float>",
}  # fmt: skip


def of_number(number: Number) -> dtypes.dtype:
    """The dtype a Python number has by itself."""
    if isinstance(number, bool):
        return dtypes.bool
    if isinstance(number, int):
        return dtypes.int64
    default = dtypes.get_default_dtype()
    return default.to_complex() if isinstance(number, complex) else default


def fitting(dtype: dtype, number: Any) -> Any:
    """``number`` as a number that ``dtype`` holds; RuntimeError where it would overflow."""
    kind = dtype.np.kind
    if number.__class__ is float and (kind == "f" and dtype.itemsize >= 4 and -3.4e38 < number < 3.4e38):
        return number
    if isinstance(number, np.generic):
        number = number.item()
    if kind == "b":
        return bool(number)
    fits = True
    if isinstance(number, complex) and not dtype.is_complex:
        fits, number = not number.imag, number.real
    if fits and kind in "iu":
        fits, number = _whole(dtype, number)
    elif fits and not isinstance(number, complex) and (abs(number) != float("inf") or dtype.np.name in float8.NAMES):
        fits = not abs(number) > float(jnp.finfo(dtype.np).max)
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(dtype.name, dtype.name)} without overflow")
    return number


def _whole(dtype: dtype, number: Any) -> tuple[bool, Any]:
    """(whether an integer dtype takes the number, the integer); small negative integers wrap in unsigned dtypes."""
    limits = np.iinfo(dtype.np)
    top = int(limits.max)
    low = int(limits.min) if dtype.np.kind == "i" or isinstance(number, float) else -top
    if not (number == number and low <= number <= top):
        return False, number
    whole = int(number)
    return True, whole + top + 1 if whole < 0 and dtype.np.kind == "u" else whole
