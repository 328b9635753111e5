"""Addresses that can be read: for ``data_ptr()`` a storage on the CPU gets memory of its own with its current value."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

import torchlike._base.device as devices
from torchlike._base.layout import Layout, memory_order
from torchlike._executor.pending import Array, Pending, settled

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage

_ALIGNMENT = 64
_lock = threading.Lock()


class HostMemory:
    """The bytes of a storage as of ``epoch``, in the order in which PyTorch has them, at an address that stays."""

    __slots__ = ("_bytes", "address", "epoch")

    def __init__(self, nbytes: int) -> None:
        room = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT
        self._bytes = room[start : start + nbytes]
        self.address: int = self._bytes.ctypes.data
        self.epoch = -1

    def fill(self, value: np.ndarray, epoch: int) -> None:
        memory: np.ndarray = np.ndarray(value.shape, value.dtype, self._bytes.data)
        memory[...] = value
        self.epoch = epoch


def address(storage: Storage) -> int:
    """The address of the storage's bytes, which stays as it is and can be read as long as the storage lives.

    What lies there is the value at the time of this call: a later change is seen there after the next call. On other
    devices, while jax traces and for values spread over devices it is a number that aliases share and nobody can read.
    """
    if storage.stands:  # for a tensor outside of a transform; it has no memory, and says so
        return storage.address
    value = storage.value
    if value.__class__ is Pending:
        value = settled(value)
    if value.__class__ is not Array or not value.is_fully_addressable or len(value.devices()) != 1:
        return storage.address
    if devices.of_array(value).type != "cpu":
        return storage.address
    with _lock:
        host = getattr(storage, "host", None)
        if host is None or len(host._bytes) != value.nbytes:
            host = storage.host = HostMemory(value.nbytes)
        if host.epoch != storage.epoch:
            array = np.asarray(value)
            if storage.strides is not None:
                array = array.transpose(memory_order(Layout(array.shape, storage.strides, 0))[::-1])
            host.fill(array, storage.epoch)
        return host.address


__all__ = ["HostMemory", "address"]
