"""The arguments of ``to`` of tensors, modules and packed sequences: a device and a dtype, a dtype, or a tensor."""

from typing import Any, NamedTuple, NoReturn

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._core.tensor.memory_format import demand_format
from torchlike._core.tensor.tensor import Tensor

_FLAGS = ("non_blocking", "copy")
_NAMED = {"device", "dtype", *_FLAGS, "memory_format"}
_NAMES = {"tensor": ("tensor", *_FLAGS), "dtype": ("dtype", *_FLAGS), "device": ("device", "dtype", *_FLAGS)}
# A number is taken for a tensor of it, as in PyTorch, but an int for a device's index.
_TENSORS = (Tensor, bool, float, complex)
_FORMS = (
    "to(device=None, dtype=None, non_blocking=False, copy=False, *, memory_format=None), "
    "to(dtype, non_blocking=False, copy=False, *, memory_format=None) or "
    "to(tensor, non_blocking=False, copy=False, *, memory_format=None)"
)


class To(NamedTuple):
    """What a call of ``to`` asks for; None where it leaves things as they are."""

    device: devices.device | None = None
    dtype: dtypes.dtype | None = None
    non_blocking: bool = False
    copy: bool = False
    memory_format: Any = None


def parse_to(args: tuple, kwargs: dict[str, Any]) -> To:
    """What ``to(*args, **kwargs)`` asks for; TypeError if the arguments have none of its forms."""
    if len(args) == 1 and not kwargs:
        first = args[0].__class__
        if first is dtypes.dtype:
            return To(None, args[0])
        if first is str or first is devices.device:
            return To(devices.as_device(args[0]))
    if not args and kwargs.keys() <= _NAMED:
        return _checked(kwargs, args, kwargs)
    return _checked(_given(args, kwargs), args, kwargs)


def _given(args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names in the form that they have."""
    if len(args) > 4:
        raise TypeError(f"to() takes from 0 to 4 positional arguments but {len(args)} were given")
    names = _NAMES[_form(args, kwargs)]
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or kwargs.keys() - {*names, "memory_format"} or kwargs.keys() & given.keys():
        _refuse(args, kwargs)
    return given | kwargs


def _form(args: tuple, kwargs: dict[str, Any]) -> str:
    first = args[0] if args else None
    if isinstance(first, _TENSORS) or "tensor" in kwargs:
        return "tensor"
    return "dtype" if _as_dtype(first) is not None else "device"


def _as_dtype(x: Any) -> dtypes.dtype | None:
    """The dtype that an argument stands for, which may be one of Python's types; else None."""
    if x.__class__ is dtypes.dtype:
        return x
    return dtypes.PYTHON_TYPES.get(x) if x.__class__ is type else None


def _checked(given: dict[str, Any], args: tuple, kwargs: dict[str, Any]) -> To:
    flags = given.get("non_blocking", False), given.get("copy", False)
    if flags[0].__class__ is not bool or flags[1].__class__ is not bool:
        _refuse(args, kwargs)
    memory_format = given.get("memory_format")
    if memory_format is not None:
        demand_format("to", memory_format)
    if "tensor" in given:
        return To(*_of_tensor(given["tensor"], args, kwargs), *flags, memory_format)
    device, dtype = given.get("device"), given.get("dtype")
    if dtype is not None and (dtype := _as_dtype(dtype)) is None:
        _refuse(args, kwargs)
    if device is not None:
        try:
            device = devices.as_device(device, "to")
        except TypeError:
            _refuse(args, kwargs)
    return To(device, dtype, *flags, memory_format)


def _of_tensor(tensor: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[devices.device, dtypes.dtype]:
    if isinstance(tensor, Tensor):
        return tensor.device, tensor.dtype
    if not isinstance(tensor, _TENSORS):
        _refuse(args, kwargs)
    return devices.device("cpu"), dtypes.PYTHON_TYPES[type(tensor)]


def _refuse(args: tuple, kwargs: dict[str, Any]) -> NoReturn:
    got = [_kind(x) for x in args] + [f"{name}={_kind(x)}" for name, x in kwargs.items()]
    raise TypeError(
        f"to() received an invalid combination of arguments - got ({', '.join(got)}), but expected {_FORMS}"
    )


def _kind(x: Any) -> str:
    return "torch.dtype" if x.__class__ is dtypes.dtype else type(x).__name__
