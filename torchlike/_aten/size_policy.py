"""Tensors whose class is asked for their sizes, strides, device or layout: ``dispatch_sizes_strides_policy`` and kin.

Their methods ask the ``__torch_dispatch__`` with the aten call that stands for the question; None for an answer means
what the tensor would say itself.
"""

import math
from collections.abc import Callable
from typing import Any

from torchlike._aten import python_dispatch as layer
from torchlike._aten.packets import ops
from torchlike._aten.source import Overload, Source
from torchlike._base import device as devices
from torchlike._core.overrides import torch_function
from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor, strided

_aten = ops.aten
ops.prim._source = _PRIM = Source("prim")
_PRIM.add(Overload("device(Tensor a) -> Device", lambda: lambda a: a.device))
_PRIM.add(Overload("layout(Tensor a) -> Layout", lambda: lambda a: a.layout))


def ask(t: Any, policy: str | None, device: bool = False, layout: bool = False) -> Any:
    """Let the class of ``t`` be asked for its sizes as ``policy`` says, for its device or layout; returns ``t``.

    Raises ValueError for a policy that is none.
    """
    if policy not in (None, "sizes", "strides"):
        raise ValueError(f"Unknown sizes_strides_policy: {policy}; expected 'strides' or 'sizes'")
    asked = {policy: True, "device": device, "layout": layout}
    names = [name for name, wanted in asked.items() if wanted and name is not None]
    if names:
        extras_of(t)["asks"] = {k: v for name in names for k, v in _ASKED[name].items()}
        torch_function.arm()
    return t


def _answer(func: Any, t: Any, *args: Any) -> Any:
    return layer.invoke(func, (t, *args), {})


def _ints(name: str, func: Any, t: Any, given: Any) -> tuple:
    found = _answer(func, t)
    if found is None:
        return tuple(given)
    if not isinstance(found, list | tuple):
        given = type(found).__name__
        raise RuntimeError(f"{name} must be a list or a tuple, but the __torch_dispatch__ gave a {given}")
    return tuple(found)


def _of_kind(kind: type, name: str, found: Any) -> Any:
    if type(found) is not kind:
        raise RuntimeError(f"{name} returned invalid type {type(found).__name__}, expected {kind.__name__}")
    return found


def _sizes(t: Any) -> Any:
    return Size(_ints("sym_size", _aten.sym_size.default, t, t._layout.shape))


def _strides(t: Any) -> tuple:
    return _ints("sym_strides", _aten.sym_stride.default, t, t._layout.strides)


def _dim(t: Any) -> int:
    return _of_kind(int, "dim", _answer(_aten.dim.default, t))


def _size(t: Any, dim: int | None = None) -> Any:
    if dim is None:
        return _sizes(t)
    n = _dim(t)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return _sizes(t)[dim]


def _length(t: Any) -> int:
    if not _dim(t):
        raise TypeError("len() of a 0-d tensor")
    return _sizes(t)[0]


def _stride(t: Any, dim: int | None = None) -> Any:
    return _strides(t) if dim is None else _strides(t)[dim]


def _numel(t: Any) -> int:
    found = _answer(_aten.sym_numel.default, t)
    return math.prod(t._layout.shape) if found is None else _of_kind(int, "sym_numel", found)


def _offset(t: Any) -> int:
    found = _answer(_aten.sym_storage_offset.default, t)
    return t._layout.offset if found is None else _of_kind(int, "sym_storage_offset", found)


def _is_contiguous(t: Any, memory_format: Any = None) -> bool:
    if memory_format is None:
        found = _answer(_aten.is_contiguous.default, t)
    else:
        found = _answer(_aten.is_contiguous.memory_format, t, memory_format)
    if found is None:
        given = {} if memory_format is None else {"memory_format": memory_format}
        return vars(Tensor)["is_contiguous"].behind.built()(t, **given)
    return _of_kind(bool, "is_contiguous", found)


def _device(t: Any) -> Any:
    found = _answer(ops.prim.device.default, t)
    if isinstance(found, int | str):
        return devices.as_device(found)
    return _of_kind(devices.device, "device", found)


def _on(kind: str) -> Callable:
    return lambda t: _device(t).type == kind


def _device_number(t: Any) -> int:
    device = _device(t)
    return -1 if device.type in ("cpu", "meta") else device.index or 0


def _layout(t: Any) -> Any:
    found = _answer(ops.prim.layout.default, t)
    if type(found) is not type(strided):
        raise RuntimeError(f"layout returned invalid type {type(found).__name__}, expected Layout")
    return found


_STRIDES = {"stride": _stride, "is_contiguous": _is_contiguous}
_SIZES = {
    "shape.__get__": _sizes, "size": _size, "dim": _dim, "ndimension": _dim, "ndim.__get__": _dim, "__len__": _length,
    "numel": _numel, "nelement": _numel, "storage_offset": _offset,
}  # fmt: skip
_DEVICE = {f"is_{kind}.__get__": _on(kind) for kind in ("cpu", "cuda", "meta")}
_ASKED: dict[str, dict[str, Callable]] = {
    "strides": _STRIDES, "sizes": _STRIDES | _SIZES, "layout": {"layout.__get__": _layout},
    "device": _DEVICE | {"device.__get__": _device, "get_device": _device_number},
}  # fmt: skip
_METHODS = {name for methods in _ASKED.values() for name in methods}


def answer_of(t: Any, func: Any, *args: Any) -> Any:
    """What the class of ``t`` says to a question about its strides that is an operator alone; None if that answers."""
    asked = t._ex is not None and "stride" in t._ex.get("asks", ()) and layer.takes(type(t))
    return _answer(func, t, *args) if asked else None


def _answerer(name: str, args: tuple) -> Any:
    """What answers the method ``name`` of the tensor ``args[0]`` in place of the method; None if that does."""
    t = args[0] if args else None
    if not isinstance(t, Tensor) or t._ex is None or not layer.takes(type(t)):
        return None
    return t._ex.get("asks", {}).get(name)


def install() -> None:
    """Let the published methods ask."""
    for door in torch_function.ENTRIES.doors.values():
        if door.behind.place == "torch.Tensor" and door.behind.name in _METHODS:
            door.behind.entry.answerer = _answerer
