"""Tensors of the numbers that other objects hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base.once import warn_once
from torchlike._base.volatile import volatile
from torchlike._core.conversion.convert import copied_array, from_dlpack, of_array, over_array, requiring, tensor
from torchlike._core.conversion.factories import demand_strided
from torchlike._core.conversion.storages import of_storage
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.tensor import arguments
from torchlike._core.tensor.tensor import Tensor
from torchlike._core.tensor.untyped_storage import UntypedStorage

if TYPE_CHECKING:
    from torchlike._core.typed import DeviceLike, OptDtype


def asarray(obj: Any, *, dtype: OptDtype = None, device: DeviceLike = None, copy: bool | None = None,
       requires_grad: bool | None = None) -> Tensor:  # fmt: skip
    """``obj`` (a tensor, array, buffer, number or nested sequence) as a tensor.

    A tensor is returned as it is (detached, if ``requires_grad`` is False) where nothing changes, unless
    ``copy``; of an array, buffer or DLPack capsule the memory is shared then. ``copy=False`` raises ValueError where a
    copy is needed.
    """
    kind = None if dtype is None else arguments.as_dtype("asarray", "dtype", dtype)
    arguments.bools_or_none("asarray", copy=copy, requires_grad=requires_grad)
    if isinstance(obj, Tensor):
        return _as_tensor(obj, kind, device, copy, requires_grad)
    if isinstance(obj, np.ndarray):
        return _shared(of_array(obj, None, "cpu"), kind, device, copy, requires_grad)
    if type(obj).__name__ == "PyCapsule":
        return _shared(from_dlpack(obj), kind, device, copy, requires_grad)
    if isinstance(obj, bytes | bytearray | memoryview):
        t = frombuffer(obj, dtype=kind or dtypes.get_default_dtype())
        return _shared(t, kind, device, copy, requires_grad)
    if copy is False and isinstance(obj, np.generic):
        raise RuntimeError("can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray. ")
    if copy is False:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    numbers = np.asarray(obj) if isinstance(obj, np.generic) else obj  # which are cast, whatever the dtype holds
    return tensor(numbers, dtype=kind, device=device, requires_grad=bool(requires_grad))


def _shared(
    t: Tensor, kind: dtypes.dtype | None, device: DeviceLike, copy: bool | None, requires_grad: bool | None
) -> Tensor:
    device = devices.default_device() if device is None else device
    return _as_tensor(t, kind, device, copy, bool(requires_grad))


@unseen
def _as_tensor(
    t: Tensor, kind: dtypes.dtype | None, device: DeviceLike, copy: bool | None, requires_grad: bool | None
) -> Tensor:
    moved = device is not None and devices.as_device(device) != t.device
    if copy is False and kind is not None and kind is not t.dtype:
        raise ValueError(f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype '{kind.scalar_name}'.")
    if copy is False and moved:
        raise ValueError(f"can't alias tensor from device '{t.device}' to '{device}'.")
    out = t.to(device=device if moved else None, dtype=kind, copy=bool(copy))
    if out.requires_grad and requires_grad is False:
        return out.detach()
    if requires_grad and not out.requires_grad:
        out = out.detach() if out is t else out
        out.requires_grad = True
    return out


@volatile
def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A vector of the first ``size`` numbers of a file; ``shared``: changes of either are the other's.

    Raises:
        RuntimeError: the file cannot be read, or is shorter. A shared one is made, and made longer, instead.
    """
    if layout is not None:
        demand_strided("from_file", layout)
    kind = dtypes.get_default_dtype() if dtype is None else arguments.as_dtype("from_file", "dtype", dtype)
    t = of_storage(UntypedStorage.from_file(filename, bool(shared), (size or 0) * kind.itemsize), kind)
    t = t if device is None else t.to(device)
    return t if requires_grad is False else requiring(t, requires_grad)


def frombuffer(
    buffer: Any, *, dtype: dtypes.dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A vector over the bytes of ``buffer`` from ``offset``, seen as ``dtype``; those that never change are copied."""
    kind = arguments.as_dtype("frombuffer", "dtype", dtype)
    arguments.bools("frombuffer", requires_grad=requires_grad)
    count, offset = [arguments.as_int("frombuffer", n, x) for n, x in (("count", count), ("offset", offset))]
    try:
        raw = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    size, each = len(raw), kind.itemsize
    if not size or not count:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    if count < 0 and (size - offset) % each:
        raise ValueError(
            f"buffer length ({size - offset} bytes) after offset ({offset} bytes) must be a multiple "
            f"of element size ({each})"
        )
    if count > 0 and offset + count * each > size:
        raise ValueError(
            f"requested buffer length ({count} * {each} bytes) after offset ({offset} bytes) must not "
            "be greater than actual "
            f"buffer length ({size} bytes)"
        )
    array = np.frombuffer(raw, kind.np, count, offset)
    if raw.readonly:
        warn_once(
            "The given buffer is not writable. The tensor reads it, but a change of the tensor will not be seen there; "
            "copy the buffer if that is not meant.",
        )
    t = copied_array(array) if isinstance(buffer, bytes) else over_array(array)
    return t if requires_grad is False else requiring(t, requires_grad)
