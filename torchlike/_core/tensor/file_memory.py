"""Bytes of files as memory of storages: read once, or mapped, so that changes reach the file."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from torchlike._core.tensor.shared_memory import adopt, over
from torchlike._core.tensor.storage import Storage
from torchlike._core.tensor.tensor import fresh


def read(filename: Any, nbytes: int) -> np.ndarray:
    """The first ``nbytes`` bytes of a file. RuntimeError where it cannot be read, or is shorter."""
    _demand_size(filename, nbytes)
    try:
        host = np.fromfile(filename, np.uint8, nbytes)
    except OSError as error:
        raise _unopened(filename, "read-only", error) from None
    if len(host) < nbytes:
        raise RuntimeError(f"file <{filename}> size <{len(host)}> is smaller than the required mapping size <{nbytes}>")
    return host


def mapped(filename: Any, nbytes: int) -> Storage | None:
    """A storage over the first bytes of a file, which is made, and made longer, as it needs be; None of no bytes.

    Raises:
        RuntimeError: the file cannot be written.
        NotImplementedError: memory cannot be shared here, as with other devices in the place of the CPU.
    """
    _demand_size(filename, nbytes)
    try:
        with open(filename, "ab") as file:
            if file.tell() < nbytes:
                os.truncate(filename, nbytes)
    except OSError as error:
        raise _unopened(filename, "read-write", error) from None
    if not nbytes:
        return None
    found = over(np.memmap(filename, np.uint8, "r+", shape=(nbytes,)))
    if found is None:
        raise NotImplementedError("from_file(shared=True): memory cannot be shared here; use shared=False")
    storage = fresh(found[0])._storage
    adopt(storage, found[1])
    return storage


def _demand_size(filename: Any, nbytes: int) -> None:
    if nbytes < 0:
        raise RuntimeError(f"unable to mmap {nbytes} bytes from file <{filename}>: give a size of 0 or more")


def _unopened(filename: Any, mode: str, error: OSError) -> RuntimeError:
    return RuntimeError(f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})")
