"""Tensors whose class is asked for their sizes or strides: ``dispatch_sizes_strides_policy``.

Their methods ask the ``__torch_dispatch__`` with the aten call that stands for the question; None for an answer means
what the tensor would say itself.
"""

import math
from typing import Any

from torchlike._aten import python_dispatch as layer
from torchlike._aten.packets import ops
from torchlike._core.overrides import torch_function
from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.tensor import Tensor

_aten = ops.aten


def ask(t: Any, policy: str | None) -> Any:
    """Let the class of ``t`` be asked as ``policy`` says; returns ``t``."""
    if policy is not None:
        extras_of(t)["asks"] = policy
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
        return vars(Tensor)["is_contiguous"].behind()(t, **given)
    return _of_kind(bool, "is_contiguous", found)


_STRIDES = {"stride": _stride, "is_contiguous": _is_contiguous}
_SIZES = {
    "shape.__get__": _sizes, "size": _size, "dim": _dim, "ndimension": _dim, "ndim.__get__": _dim, "__len__": _length,
    "numel": _numel, "nelement": _numel, "storage_offset": _offset,
}  # fmt: skip
_ASKED = {"strides": _STRIDES, "sizes": _STRIDES | _SIZES}


def _answerer(name: str, args: tuple) -> Any:
    """What answers the method ``name`` of the tensor ``args[0]`` in place of the method; None if that does."""
    t = args[0] if args else None
    if not isinstance(t, Tensor) or t._ex is None or not layer.takes(type(t)):
        return None
    return _ASKED.get(t._ex.get("asks"), {}).get(name)


def install() -> None:
    """Let the published methods ask."""
    for entry in torch_function.ENTRIES.values():
        if entry.place == "torch.Tensor" and entry.name in _ASKED["sizes"]:
            entry.answerer = _answerer
