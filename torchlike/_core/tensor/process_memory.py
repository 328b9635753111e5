"""Memory of storages that several processes map: what one of them writes, the others read.

It is a storage whose memory somebody else may write to, see Note [Shared memory] in ``shared_memory``, and stays one:
nobody knows which processes still look at it. The memory is that of a file without a name, whose descriptor is what
travels; a forked child has it already.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.sharding import SingleDeviceSharding

import torchlike._base.device as devices
import torchlike._core.tensor.shared_memory as shared
from torchlike._base.state import state
from torchlike._core.tensor.host_memory import LOCK, HostMemory, on_host
from torchlike._core.tensor.storage import SHARING, Storage
from torchlike._executor.pending import settled

if TYPE_CHECKING:
    from torchlike._core.typed import Shape

POSSIBLE = os.name == "posix"
"""Whether processes can be given each other's files."""

_KNOWN: weakref.WeakValueDictionary[tuple[int, int], Storage] = weakref.WeakValueDictionary()


class ProcessMemory(HostMemory):
    """The bytes of a storage in a file that other processes may map too.

    Attributes:
        file: its descriptor, open as long as the memory is there.
    """

    __slots__ = ("file",)

    def __init__(self, file: int, nbytes: int) -> None:
        super().__init__(np.frombuffer(mmap.mmap(file, nbytes), np.uint8))
        self.file = file

    def __del__(self) -> None:
        os.close(self.file)


def _new_file(nbytes: int) -> int:
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("torchlike")
    else:
        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.truncate(file, nbytes)
    return file


def _key(file: int) -> tuple[int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino


def file_of(storage: Storage) -> int | None:
    """The file with the storage's bytes, if other processes can map it."""
    memory = getattr(storage, "host", None)
    return memory.file if storage.shared and isinstance(memory, ProcessMemory) else None


def share(storage: Storage) -> bool:
    """Move the bytes of a storage to memory that other processes can map; False where it cannot be."""
    if file_of(storage) is not None:
        return True
    if state.capture is not None:
        state.capture.refuse("share_memory_()")
    if not POSSIBLE or storage.stands or storage.copied or (not storage.shared and type(storage) not in SHARING):
        return False
    value: Any = settled(storage.value)
    if not on_host(value) or not value.nbytes:
        return False
    memory = ProcessMemory(_new_file(value.nbytes), value.nbytes)
    with LOCK.held:
        memory.put(value, storage.strides)
        storage.host = memory
        if not storage.shared:
            storage.__class__ = SHARING[type(storage)]
        shared.set_form(storage, value)
        storage.epoch += 1
    remember(storage)
    return True


def known(file: int) -> Storage | None:
    """The storage of this process over a file, which is closed then."""
    found = _KNOWN.get(_key(file))
    if found is None or file_of(found) is None:
        return None
    os.close(file)
    return found


def mapped(file: int, shape: Shape, dtype: np.dtype) -> tuple[shared.Unread, ProcessMemory]:
    """(what stands for the value, memory) of a new storage over a file that another process has shared."""
    device = devices.jax_device(devices.device("cpu"))
    stand = shared.Unread(shape, dtype, SingleDeviceSharding(device), devices.anchor(device) is not None)
    return stand, ProcessMemory(file, stand.nbytes)


def remember(storage: Storage) -> None:
    """Let :func:`known` find a storage that was made over such a file."""
    _KNOWN[_key(storage.host.file)] = storage
