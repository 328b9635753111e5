"""DLPack capsules of dtypes that numpy lacks: it sees unsigned integers, the capsule says the dtype."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

_UNSIGNED = 1  # dlpack.h: DLDataTypeCode
_CODES = {
    np.dtype(getattr(ml_dtypes, name)): code
    for name, code in {
        "bfloat16": 4, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
        "float8_e8m0fnu": 14,
    }.items()
}  # fmt: skip
_KINDS = {code: kind for kind, code in _CODES.items()}
# Where the code stands: after data, device and ndim of the DLTensor, which a versioned capsule has at 32.
_PLACES = {b"dltensor": 20, b"dltensor_versioned": 52}

_name_of = ctypes.pythonapi.PyCapsule_GetName
_name_of.restype, _name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
_memory_of = ctypes.pythonapi.PyCapsule_GetPointer
_memory_of.restype, _memory_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _code(capsule: Any) -> ctypes.c_uint8:
    name = _name_of(capsule)
    return ctypes.c_uint8.from_address(_memory_of(capsule, name) + _PLACES[name])


def lent(array: np.ndarray, **kwargs: Any) -> Any:
    """The capsule of an array, of whatever dtype."""
    code = _CODES.get(array.dtype)
    if code is None:
        return array.__dlpack__(**kwargs)
    capsule = array.view(f"u{array.itemsize}").__dlpack__(**kwargs)
    _code(capsule).value = code
    return capsule


def taken_as_integers(capsule: Any) -> np.dtype | None:
    """The dtype of a capsule, which says unsigned integers from now on; None for one that numpy has itself."""
    if _name_of(capsule) not in _PLACES:
        return None
    code = _code(capsule)
    kind = _KINDS.get(code.value)
    if kind is not None:
        code.value = _UNSIGNED
    return kind
