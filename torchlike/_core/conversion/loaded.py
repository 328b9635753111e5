"""Storages whose bytes came from a file or a pickle, and the tensors made over storages."""

from __future__ import annotations

import math
import pickle
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._base.layout import Layout, contiguous_strides, is_dense, memory_order
from torchlike._base.state import no_grad
from torchlike._core.autograd.fields import mark
from torchlike._core.conversion.convert import place
from torchlike._core.conversion.storages import of_storage
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.mutation import store
from torchlike._core.tensor.storage import Storage, holding
from torchlike._core.tensor.tensor import Tensor, alias, fresh
from torchlike._core.tensor.untyped_storage import TypedStorage, UntypedStorage
from torchlike._executor.pending import NUMPYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlike._core.typed import Shape


class LoadedStorage(UntypedStorage):
    """Bytes on the host, which the first tensor over them puts on their device as the array it needs.

    A parameter is then an ordinary tensor, and no view of a row of bytes.
    """

    __slots__ = ("_host", "_where", "_cell")

    def __init__(self, host: np.ndarray, where: devices.device) -> None:
        self._host: np.ndarray | None = host.view(np.uint8)
        self._where = where

    def _fill(self, array: np.ndarray) -> Storage:
        self._cell = holding(place(array, self._where))
        self._cell.handle = weakref.ref(self)
        self._host = None
        return self._cell

    @property
    def _storage(self) -> Storage:  # type: ignore[override]
        return self._cell if self._host is None else self._fill(self._host)

    @property
    def device(self) -> devices.device:
        return super().device if self._host is None else self._where

    def nbytes(self) -> int:
        """How many bytes there are."""
        return super().nbytes() if self._host is None else len(self._host)

    size = __len__ = nbytes

    def cpu(self) -> UntypedStorage:
        """These bytes for the CPU."""
        return sent(self, devices.device("cpu"))

    def cuda(self, device: Any = None, non_blocking: bool = False) -> UntypedStorage:
        """These bytes for a GPU."""
        return sent(self, devices.as_device("cuda" if device is None else device))

    def tensor(self, dtype: dtypes.dtype, size: Shape, stride: Sequence[int]) -> Tensor | None:
        """The tensor over all bytes, as the base of whatever follows; None if there is one, or it is but a part."""
        layout = Layout(size, tuple(stride), 0)
        if self._host is None or math.prod(size) * dtype.itemsize != len(self._host) or not is_dense(layout):
            if self._host is not None and len(self._host) % dtype.itemsize == 0:
                self._fill(self._host.view(dtype.np))
            return None
        if tuple(stride) == contiguous_strides(size) or not len(self._host):
            return _over(self._fill(self._host.view(dtype.np).reshape(size)))
        order = memory_order(layout)[::-1]
        stored = self._host.view(dtype.np).reshape([size[d] for d in order])
        t = _over(self._fill(stored.transpose(np.argsort(order))))
        restride(t, layout.strides)
        return t

    def refill(self, host: np.ndarray) -> None:
        """Other bytes, in the place of those it was made with: in a file of old they follow what refers to them."""
        if self._host is not None:
            self._host = host.view(np.uint8)
            return
        cell = self._cell
        array, shape = host.view(cell.form.dtype), cell.form.shape
        if cell.strides is None:
            array = array.reshape(shape)
        else:
            order = memory_order(Layout(shape, cell.strides, 0))[::-1]
            array = array.reshape([shape[d] for d in order]).transpose(np.argsort(order))
        store(cell, place(array, self._where))


def sent(storage: UntypedStorage, where: devices.device) -> UntypedStorage:
    """A storage with the same bytes on a device; itself if it is there."""
    here = storage.device
    if where.type == here.type and where.index in (None, here.index):
        return storage
    host = storage._host if isinstance(storage, LoadedStorage) else None
    return LoadedStorage(storage._bytes() if host is None else host, where)


def _over(cell: Storage) -> Tensor:
    t = fresh(cell.value)
    if t._vc is t._storage:
        t._vc = cell
    t._storage = cell
    return t


def over_storage(
    storage: UntypedStorage | TypedStorage,
    dtype: dtypes.dtype,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool = False,
) -> Tensor:
    """A leaf that shares a storage with all others made over it.

    Raises:
        pickle.UnpicklingError: it would reach beyond the storage.
    """
    untyped = storage.untyped()
    _check_bounds(untyped.nbytes() // dtype.itemsize, offset, size, stride)
    size = tuple(size)
    held = offset == 0 and isinstance(untyped, LoadedStorage) and len(size) <= NUMPYS
    t = untyped.tensor(dtype, size, stride) if held else None
    if t is None:
        t = _over(untyped._storage)
        if untyped._storage.strides is not None:
            restride(t, untyped._storage.strides)
        if t.dtype is not dtype or t.shape != size or t.stride() != tuple(stride) or offset:
            with no_grad():
                t = alias(of_storage(untyped, dtype).as_strided(size, tuple(stride), offset))
    return mark(t, True) if requires_grad else t


def loaded_bytes(b: bytes, dtype: dtypes.dtype, device: str) -> TypedStorage:
    """A storage from a pickle."""
    host = np.frombuffer(b, np.uint8)
    return TypedStorage(wrap_storage=LoadedStorage(host, devices.device(device)), dtype=dtype)


def bytes_of(storage: UntypedStorage | TypedStorage) -> tuple[bytes, dtypes.dtype, str]:
    """What :func:`loaded_bytes` takes."""
    dtype = storage.dtype if isinstance(storage, TypedStorage) else dtypes.uint8
    return storage.untyped()._bytes().tobytes(), dtype, str(storage.device)


def _check_bounds(length: int, offset: Any, size: Any, stride: Any) -> None:
    """A tensor must lie in its storage: nothing is read beyond."""
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise pickle.UnpicklingError(
            f"a tensor of size {size}, stride {stride} and offset {offset}: the file is damaged"
        )
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if math.prod(size) and last >= length:
        raise pickle.UnpicklingError(
            f"a tensor of size {size} reaches element {last} of a storage of {length}: the file is damaged"
        )
