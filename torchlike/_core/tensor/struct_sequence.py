"""Classes of tuples with names as CPython makes them for C: what PyTorch's ``torch.return_types`` are."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any


class _Field(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("doc", ctypes.c_char_p)]


class _Description(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("doc", ctypes.c_char_p),
        ("fields", ctypes.POINTER(_Field)),
        ("shown", ctypes.c_int),
    ]


_new_type = ctypes.pythonapi.PyStructSequence_NewType
_new_type.restype, _new_type.argtypes = ctypes.py_object, [ctypes.POINTER(_Description)]
_kept: list[Any] = []  # the types refer to the text of their names


def struct_sequence(name: str, fields: Sequence[str]) -> Any:
    """A class of tuples, ``module.name``, whose elements are members too; it takes one sequence of them."""
    members = (_Field * (len(fields) + 1))(*[_Field(f.encode(), None) for f in fields], _Field(None, None))
    description = _Description(name.encode(), None, members, len(fields))
    _kept.append((members, description))
    return _new_type(ctypes.byref(description))
