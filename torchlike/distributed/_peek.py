"""What the processes of one machine are about to do, in memory that they share.

XLA's transport ends a process that gets more bytes than it waits for. Collectives that a group does for the first time
are compared before (see ``_calls._compare``); those that all have done before are looked up here, which costs a few
microseconds and no message: each process writes down what it begins, and looks whether another one has begun something
else by the same number. Whoever comes second sees it, and does not begin.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import tempfile
import zlib
from pathlib import Path

SLOTS = 512  # collectives that are kept of each process
_WORD = struct.Struct("@Q")  # its number and what it is, in one word, of which no other process sees a half


class Board:
    """The last collectives of the ranks of a group, of which those on other machines are not seen.

    Args:
        name: of the group in this run, the same for all ranks. own, size: the number of this rank, and of all.
    """

    def __init__(self, name: str, own: int, size: int) -> None:
        self.own, self.size = own, size
        self._path = folder() / f"torchlike-{zlib.crc32(name.encode()):08x}-{name[:32]}"
        self._kept = True
        length = SLOTS * _WORD.size * size
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, length)
            self._memory = mmap.mmap(descriptor, length)
        finally:
            os.close(descriptor)
        self.known: dict[int, str] = {}

    def say(self, number: int, text: str) -> None:
        """Write down that this rank begins a collective."""
        mark = zlib.crc32(text.encode())
        self.known[mark] = text
        _WORD.pack_into(self._memory, self._at(self.own, number), _upper(number) | mark)

    def other(self, number: int, text: str) -> tuple[int, str] | None:
        """(rank, what it does, or "" for what is new here) of one that has begun something else by this number."""
        mark = zlib.crc32(text.encode())
        for rank in range(self.size):
            (word,) = _WORD.unpack_from(self._memory, self._at(rank, number))
            if word != _upper(number) | mark and word >> 32 == number & 0xFFFFFFFF:
                return rank, self.known.get(word & 0xFFFFFFFF, "")
        return None

    def _at(self, rank: int, number: int) -> int:
        return (rank * SLOTS + number % SLOTS) * _WORD.size

    def met(self) -> None:
        """All ranks are here: nobody needs the name of the memory any more."""
        if self._kept:
            self._kept = False
            with contextlib.suppress(OSError):
                self._path.unlink()


def _upper(number: int) -> int:
    return (number & 0xFFFFFFFF) << 32


def folder() -> Path:
    shared = Path("/dev/shm")
    return shared if shared.is_dir() and os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
