"""What constructors of typed storages take, and what they say of anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import torchlike._base.device as devices
from torchlike._base.dtypes import dtype, qint8, qint32, quint2x4, quint4x2, quint8

_QUANTIZED = {qint8: "i1", qint32: "i4", quint8: "u1", quint4x2: "u1", quint2x4: "u1"}


class StorageBase:
    """What every storage of bytes is an instance of."""

    __slots__ = ()


def element_type(kind: dtype) -> np.dtype:
    """How the elements of a storage lie in its bytes; those of quantized types are integers."""
    return np.dtype(_QUANTIZED[kind]) if kind in _QUANTIZED else kind.np


def demand_arguments(name: str, what: tuple[type, ...], args: tuple[Any, ...], wrap_storage: Any) -> None:
    """RuntimeError or TypeError unless a storage is made of nothing, a size, a sequence or ``wrap_storage`` alone.

    ``what``: the class of the storage that may be wrapped, and those of which no sequence can be made.
    """
    said = f"{name} received an invalid combination of arguments (it takes a size, a sequence, or wrap_storage=): "
    if wrap_storage is not None:
        if args:
            raise RuntimeError(f"{said}No positional arguments should be given when using 'wrap_storage'")
        if not isinstance(wrap_storage, what[0]):
            raise TypeError(f"{said}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
    if len(args) > 1:
        raise RuntimeError(f"{said}Too many positional arguments: {len(args)}")
    if args and isinstance(args[0], str):
        raise TypeError(f"{name}: invalid data type 'str'")
    if args and (isinstance(args[0], what) or not isinstance(args[0], int) and not hasattr(args[0], "__len__")):
        raise TypeError(f"{said}Argument type not recognized: {type(args[0])}")


def demand_unnamed(name: str, named: dict[str, Any]) -> None:
    """RuntimeError for what a class of old knows of itself, TypeError for what no storage takes."""
    for key in named:
        if key in ("device", "dtype"):
            raise RuntimeError(f"{name}: Keyword argument '{key}' cannot be specified: the class says it")
        raise TypeError(f"{name} got an unexpected keyword argument '{key}'")


def demand_wrapping(kind: Any, device: Any) -> None:
    """RuntimeError or TypeError where a storage that is wrapped is not said to be of a dtype, or of a device."""
    name = "TypedStorage.__init__ received an invalid combination of arguments: "
    if kind is None:
        raise RuntimeError(f"{name}Argument 'dtype' must be specified where 'wrap_storage' is")
    if not isinstance(kind, dtype):
        raise TypeError(f"{name}Argument 'dtype' must be torch.dtype, not {type(kind)}")
    if device is not None:
        raise RuntimeError(f"{name}Argument 'device' should not be specified when 'wrap_storage' is given")


def known_device(device: Any) -> Any:
    """``device``; RuntimeError for one that a storage cannot be made on."""
    if device is not None and devices.as_device(device).type != "meta":
        try:
            devices.jax_device(devices.as_device(device))
        except RuntimeError as error:
            raise RuntimeError(f"Storage device not recognized: {error}") from None
    return device


def host_elements(given: int | Sequence[Any], kind: dtype) -> np.ndarray:
    """The elements of a new storage: zeros, or those of a sequence."""
    return np.zeros(given, element_type(kind)) if isinstance(given, int) else elements(list(given), kind)


def elements(given: Any, kind: dtype) -> np.ndarray:
    """Numbers as they lie in a storage. RuntimeError for those that an integer type cannot hold."""
    lies, numbers = element_type(kind), np.array(given)
    if lies.kind in "iu" and numbers.size:
        most = np.iinfo(lies).max
        if numbers.max() > most or numbers.min() < (np.iinfo(lies).min or -most):
            raise RuntimeError(f"value cannot be converted to type {lies} without overflow")
    with np.errstate(over="ignore"):
        return numbers.astype(lies)
