"""The bytes of a storage in host memory, in PyTorch's order, at an address that stays."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import torchlike._base.device as devices
from torchlike._base.layout import Layout, memory_order
from torchlike._executor.immediate import put_beside
from torchlike._executor.pending import Array, as_numpy, ready

if TYPE_CHECKING:
    from torchlike._core.tensor.storage import Storage

_ALIGNMENT = 64
_LITTLE = 1 << 12  # bytes that a storage keeps for the next array over them
_LARGE = 1 << 20  # bytes beyond which memory is not touched before it is needed


class _Lock:
    """``held``: who reads or changes what host memory there is; made anew in the child of a fork."""

    held = threading.RLock()

    @classmethod
    def renew(cls) -> None:
        cls.held = threading.RLock()


LOCK = _Lock
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Lock.renew)


def _compare() -> Callable[[int, int, int], int]:
    """``compare(address, address, count)``: 0 where two stretches of memory hold equal bytes."""
    try:
        found: Any = ctypes.CDLL(None).memcmp
    except (AttributeError, OSError, TypeError):  # there is no library of the process to ask

        def found(a: int, b: int, count: int) -> int:
            return ctypes.string_at(a, count) != ctypes.string_at(b, count)

        return found
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t), ctypes.c_int
    return found


_differ = _compare()


class HostMemory:
    """The bytes of a storage.

    Attributes:
        bytes: all of them, flat. address: where they begin. root: the array that has the memory, or None where it is
            not known who else refers to it. known: how often ``root`` is referred to where nobody else does.
        epoch: that of the storage when they were last those of its value. pinned: whether somebody has the address.
        own: whether it is memory of ours. writable: whether changes of the storage may go there.
        spans: what numpy sees of them, as sorted (first, end), the rest being the storage's value alone; None for all.
        group: weak references to the storages that begin at the same address, if one of them grew.
    """

    __slots__ = ("bytes", "address", "root", "known", "epoch", "pinned", "own", "writable", "spans", "group")
    spans: list[tuple[int, int]] | None
    group: Sequence[weakref.ref[Storage]]

    def __init__(self, flat: np.ndarray, root: np.ndarray | None = None, writable: bool = True) -> None:
        self.bytes, self.root, self.known = flat, root, _ALONE
        self.address: int = flat.__array_interface__["data"][0]
        self.epoch, self.pinned, self.own, self.writable, self.spans, self.group = -1, False, False, writable, None, ()

    @property
    def lasts(self) -> bool:
        """Whether a storage keeps the memory when numpy sees it no more: somebody has its address, or it is small."""
        return self.writable and (self.pinned or (self.own and len(self.bytes) <= _LITTLE))

    @classmethod
    def new(cls, nbytes: int) -> HostMemory:
        """Memory of our own, aligned."""
        try:
            return cls._new(nbytes)
        except (MemoryError, OSError):
            raise RuntimeError(
                f"DefaultCPUAllocator: can't allocate memory: you tried to allocate {nbytes} bytes"
            ) from None

    @classmethod
    def _new(cls, nbytes: int) -> HostMemory:
        if nbytes > _LARGE and hasattr(mmap, "MADV_NOHUGEPAGE"):
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            pages.madvise(mmap.MADV_NOHUGEPAGE)  # or the first byte that is written costs 2 MiB of zeros
            room = np.frombuffer(pages, np.uint8)
            return cls(room[:], room)._of_ours()
        room = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -room.__array_interface__["data"][0] % _ALIGNMENT
        return cls(room[start : start + nbytes], room)._of_ours()

    def _of_ours(self) -> HostMemory:
        self.own = True
        return self

    def beginning(self, nbytes: int) -> HostMemory:
        """The first bytes of this memory."""
        part = HostMemory(self.bytes[:nbytes], self.root)
        part.group = self.group
        return part

    def alone(self, storages: int = 1) -> bool:
        """Whether nobody refers to the memory but so many storages, by their array of bytes and by ``root``."""
        return self.root is not None and getrefcount(self.root) <= self.known + 2 * (storages - 1)

    def array_of(self, layout: Layout, dtype: np.dtype) -> np.ndarray:
        """An array over the memory; strides and offset count elements."""
        size = dtype.itemsize
        whole = self.bytes if self.writable else _fixed(self.bytes)
        if 0 in layout.shape:  # wherever it starts, which may be beyond the end
            return np.ndarray(layout.shape, dtype, whole, 0, [0] * len(layout.shape))
        return np.ndarray(layout.shape, dtype, whole, layout.offset * size, [s * size for s in layout.strides])

    # -- spans -----------------------------------------------------------------------------------
    def covers(self, first: int, end: int) -> bool | None:
        """Whether all the bytes from ``first`` to ``end`` are here; None for some of them."""
        if self.spans is None or first == end:
            return True
        met = [s for s in self.spans if s[0] < end and first < s[1]]
        return bool(met) and (True if met[0][0] <= first and end <= met[0][1] else None)

    def extend(self, first: int, end: int, value: Any, strides: Sequence[int] | None) -> None:
        """Take the bytes from ``first`` to ``end`` over from the storage's value where they are not here yet."""
        if self.spans is None:
            return
        source = _flat(value, strides)
        met = [s for s in self.spans if s[0] <= end and first <= s[1]]
        at = first
        for a, b in met:
            if at < a:
                self.bytes[at:a] = source[at:a]
            at = max(at, b)
        if at < end:
            self.bytes[at:end] = source[at:end]
        low, high = min([first, *[a for a, _ in met]]), max([end, *[b for _, b in met]])
        self.spans = sorted([*[s for s in self.spans if s not in met], (low, high)])
        if self.spans == [(0, len(self.bytes))]:
            self.spans = None

    # -- the storage's value ---------------------------------------------------------------------
    def put(self, value: Any, strides: Sequence[int] | None) -> None:
        """Fill what numpy sees with a value."""
        if strides is None and value.__class__ is Array:
            start = ready(value).unsafe_buffer_pointer()
            for a, b in self._parts():
                ctypes.memmove(self.address + a, start + a, b - a)
            return
        source = _flat(value, strides)
        for a, b in self._parts():
            self.bytes[a:b] = source[a:b]

    def differs(self, value: Any, strides: Sequence[int] | None) -> bool:
        """Whether some byte that numpy sees is not that of the value."""
        if strides is None:
            start = value.unsafe_buffer_pointer()
            if self.spans is None:
                return _differ(self.address, start, len(self.bytes)) != 0
        else:
            source = _flat(value, strides)
            start = source.__array_interface__["data"][0]
        return any([_differ(self.address + a, start + a, b - a) for a, b in self._parts()])

    def value(self, old: Any, strides: Sequence[int] | None) -> Any:
        """A new array like ``old`` with the bytes that numpy sees, and a copy of them."""
        if self.spans is None:
            if strides is None:
                return put_beside(self.bytes.view(old.dtype).reshape(old.shape), old)
            return put_beside(self.array_of(Layout(old.shape, tuple(strides), 0), old.dtype), old)
        copy = np.array(old)
        flat = copy.reshape(-1).view(np.uint8)
        for a, b in self.spans:
            flat[a:b] = self.bytes[a:b]
        return put_beside(copy, old)

    def _parts(self) -> list[tuple[int, int]]:
        return [(0, len(self.bytes))] if self.spans is None else self.spans


def _fixed(array: np.ndarray) -> np.ndarray:
    array = array[:]
    array.flags.writeable = False
    return array


def _flat(value: Any, strides: Sequence[int] | None) -> np.ndarray:
    """The bytes of a value in the order in which PyTorch has them."""
    array = as_numpy(value)
    if strides is not None:
        array = array.transpose(memory_order(Layout(array.shape, tuple(strides), 0))[::-1])
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _measured() -> int:
    """How often a root is referred to by its memory alone; 0 where counts do not tell."""
    memory = HostMemory.new(1)
    assert memory.root is not None
    memory.known = getrefcount(memory.root)
    before = memory.alone()
    other = memory.bytes[:0]
    during = memory.alone()
    del other
    return memory.known if before and not during and memory.alone() else 0


_ALONE = 0
_ALONE = _measured()


def root_of(flat: np.ndarray) -> np.ndarray | None:
    """The array that has the memory of ``flat``, if all who refer to the memory refer to that."""
    root = flat.base
    if type(root) is np.ndarray and root.base is None and root.flags.owndata:
        return root
    return None


def on_host(value: Any) -> bool:
    """Whether a value is an array on one CPU of this process."""
    return value.__class__ is Array and _is_host(value.sharding)


@functools.lru_cache(256)
def _is_host(sharding: Any) -> bool:
    if not sharding.is_fully_addressable or len(sharding.device_set) != 1:
        return False
    return devices.from_jax(next(iter(sharding.device_set))).type == "cpu"


def demand_accelerator() -> None:
    """RuntimeError where jax has neither a GPU nor a TPU: there is no memory to pin for it."""
    if jax.default_backend() == "cpu":
        raise RuntimeError("Cannot access accelerator device when none is available.")


__all__ = ["LOCK", "HostMemory", "demand_accelerator", "on_host", "root_of"]
