"""Means over the processes of one machine, in memory that they share: no sockets, and none of XLA's programs.

Each process has a part of the memory, where its arrays lie one after the other; the mean is their sum, since each is
divided before. Each process adds up one piece of all parts, where the arrays of all processes lie that get the mean:
in one of two places, which nobody may have arrays of an earlier mean in. Where somebody keeps both, each adds up its
piece in its own part, and takes the other pieces from theirs. Counters say how far each process is with each bucket.
"""

import contextlib
import itertools
import mmap
import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from torchlike._executor.immediate import adopted, uploaded
from torchlike._executor.pending import as_numpy
from torchlike.distributed import _runtime
from torchlike.distributed._peek import folder
from torchlike.distributed.distributed_c10d import ProcessGroup

KINDS = tuple(map(np.dtype, "fdFD"))  # of which numpy computes sums as fast as memory allows
_LINE = 64  # bytes: where XLA shares memory an array begins at a multiple
_LOOK = 1.0  # seconds of a wait between looks at whether the others still run
_GRACE = 0.3  # seconds for what a process has done before its end
_FEW = 1 << 14  # bytes up to which an array is copied, so that it does not keep the memory of a whole bucket
_PLACED, _ADDED, _TAKEN, _FREE = range(4)  # what the counters count; the last says which places are free, by bits
_PLACES = 2  # of a mean: arrays of the last one live on where gradients are not set to None


class Bucket:
    """Where arrays of some shapes and one dtype lie in a flat one. ``length``: its elements, with what is between."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], dtype: Any) -> None:
        self.shapes, self.dtype = list(shapes), np.dtype(dtype)
        self.counts = [int(np.prod(shape, dtype=int)) for shape in shapes]
        self._step = step = max(1, _LINE // self.dtype.itemsize)
        ends = list(itertools.accumulate(-(-count // step) * step for count in self.counts))
        self.begins, self.length = [0, *ends[:-1]], ends[-1]

    def parts(self, flat: np.ndarray) -> list[np.ndarray]:
        """The arrays in a flat one, as views."""
        pieces = zip(self.begins, self.counts, self.shapes, strict=True)
        return [flat[begin : begin + count].reshape(shape) for begin, count, shape in pieces]

    def within(self, arrays: list[np.ndarray], begin: int, end: int) -> list[tuple[np.ndarray, slice]]:
        """The parts of flat arrays that lie between two places of the flat one, each with its place there."""
        found = []
        for start, array in zip(self.begins, arrays, strict=True):
            low, high = max(start, begin), min(start + len(array), end)
            if low < high:
                found.append((array[low - start : high - start], slice(low, high)))
        return found

    def pieces(self, number: int) -> list[slice]:
        """As many pieces of a flat one, which begin where arrays may."""
        lines = self.length // self._step
        ends = [lines * i // number * self._step for i in range(number + 1)]
        return [slice(begin, end) for begin, end in itertools.pairwise(ends)]


class Bell:
    """By which processes wake each other: each has a socket where it lies in wait. OSError: it cannot."""

    def __init__(self, path: Path, own: int, size: int) -> None:
        paths = [path.with_name(f"{path.name}-{rank}") for rank in range(size)]
        self.path = paths.pop(own)
        self._theirs = paths
        self._others: list[socket.socket] = []
        self._sockets = contextlib.ExitStack()  # which are closed with the last use of this
        weakref.finalize(self, self._sockets.close)
        self._heard = self._sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        self._heard.bind(str(self.path))

    def connect(self) -> None:
        """Find the others, which are all there."""
        for path in self._theirs:
            other = self._sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            self._others.append(other)
            other.setblocking(False)
            other.connect(str(path))

    def ring(self) -> None:
        """Wake all others, of which some may have ended, and others have not heard earlier rings yet."""
        for other in self._others:
            with contextlib.suppress(OSError):
                other.send(b"1")

    def wait(self, seconds: float) -> bool:
        """Whether another has rung, within some seconds."""
        self._heard.settimeout(seconds)
        try:
            self._heard.recv(1)
        except TimeoutError:
            return False
        return True


class SharedSums:
    """The buckets of a group's processes, which all make them alike. They share memory from the first mean on."""

    def __init__(self, group: ProcessGroup, buckets: Sequence[Bucket]) -> None:
        self._group, self._buckets = group, list(buckets)
        self._own, self._size = group.rank(), group.size()
        self._name = group.key("sums", next(group.shared))
        self._uses = [0] * len(buckets)
        self._usable: bool | None = None
        self._marks: Any = None
        self._signs: Any = None
        self._bell: Any = None
        self._memory: Any = None
        self._flat: list[list[np.ndarray]] = []  # of each process each bucket
        self._begins: list[list[int]] = []  # of each place each bucket
        self._holders: dict[tuple[int, int], weakref.ref] = {}  # of a place of a bucket: lives as long as its arrays

    def usable(self) -> bool:
        """Whether all processes see one memory: asked in the thread of collectives, of all of them at once.

        ConnectionError: one has ended, or does not come.
        """
        if self._usable is None:
            try:
                self._usable = self._agreed()
            except _runtime.DistBackendError as error:
                raise ConnectionError(f"Connection lost: {error}") from error
        return self._usable

    @property
    def in_use(self) -> bool:
        """Whether a mean has been made here."""
        return bool(self._usable)

    def mean(self, number: int, arrays: Sequence[Any], divisor: int) -> list[jax.Array]:
        """The sums over all processes of these arrays over ``divisor``; see :meth:`usable`."""
        bucket = self._buckets[number]
        self._uses[number] += 1
        use = self._uses[number]
        jax.block_until_ready(arrays[-1])  # the last that was computed: the others need not be waited for one by one
        self._await(_TAKEN, number, use - 1)
        flat_arrays = [as_numpy(array).reshape(-1) for array in arrays]
        mine = bucket.pieces(self._size)[self._own]
        for begin, end in ((0, mine.start), (mine.stop, bucket.length)):  # its own piece nobody else reads
            for part, place in bucket.within(flat_arrays, begin, end):
                np.divide(part, divisor, out=self._flat[self._own][number][place])
        self._marks[_FREE, number, self._own] = self._free(number)
        self._say(_PLACED, number, use)
        self._await(_PLACED, number, use)
        home = _home(arrays[0])
        flat = self._added(number, use, bucket.within(flat_arrays, mine.start, mine.stop), divisor)
        return [uploaded(x, home) if x.nbytes <= _FEW else adopted(x, home) for x in bucket.parts(flat)]

    def _added(self, number: int, use: int, parts: list[tuple[np.ndarray, slice]], divisor: int) -> np.ndarray:
        """The sum of all, to which each process adds a piece: ``parts`` over ``divisor`` and those of the others."""
        flat, every, own = self._place(number), [flats[number] for flats in self._flat], self._own
        sums, others = every[own] if flat is None else flat, [*every[own + 1 :], *every[:own]]
        for part, place in parts:  # one at a time, while a processor's cache has it
            np.divide(part, divisor, out=sums[place])
            for other in others:
                np.add(sums[place], other[place], out=sums[place])
        if flat is not None:
            self._marks[_TAKEN, number, own] = use
        self._say(_ADDED, number, use)
        self._await(_ADDED, number, use)
        if flat is None:
            flat = _empty(self._buckets[number])
            for part, piece in zip(every, self._buckets[number].pieces(self._size), strict=True):
                flat[piece] = part[piece]
            self._say(_TAKEN, number, use)
        return flat

    def _free(self, number: int) -> int:
        """The places of a bucket in which this process has no arrays."""
        holders = [self._holders.get((place, number)) for place in range(_PLACES)]
        return sum(1 << place for place, holder in enumerate(holders) if holder is None or holder() is None)

    def _place(self, number: int) -> np.ndarray | None:
        """The first place that is free in all processes, which all find alike."""
        common = int(np.bitwise_and.reduce(self._marks[_FREE, number]))
        if not common:
            return None
        place, bucket = (common & -common).bit_length() - 1, self._buckets[number]
        flat = np.frombuffer(self._memory, bucket.dtype, bucket.length, self._begins[place][number])
        self._holders[place, number] = weakref.ref(flat)
        return flat

    # -- how far the others are ----------------------------------------------------------------------------------------
    def _say(self, what: int, number: int, use: int) -> None:
        _in_order()
        self._marks[what, number, self._own] = use
        self._bell.ring()

    def _late(self, what: int, number: int, use: int) -> list[int]:
        counts = self._marks[what, number].tolist()
        return [rank for rank, count in enumerate(counts) if count < use and rank != self._own]

    def _await(self, what: int, number: int, use: int) -> None:
        """Wait until all processes are as far. ConnectionError: one of them has ended."""
        while self._late(what, number, use):
            if not self._bell.wait(_LOOK):
                self._demand_running(what, number, use)
        _in_order()

    def _demand_running(self, what: int, number: int, use: int) -> None:
        if _runtime.connection.broken:
            raise ConnectionError(_runtime.connection.broken)
        ranks = self._group.ranks
        gone = _runtime.ended([ranks[rank] for rank in self._late(what, number, use)])
        if gone:
            time.sleep(_GRACE)
            gone = [rank for rank in gone if ranks.index(rank) in self._late(what, number, use)]
        if gone:
            raise ConnectionError(f"Connection closed by {_runtime.named(gone)}, which ended")

    # -- the memory ----------------------------------------------------------------------------------------------------
    def _agreed(self) -> bool:
        """Whether each process finds in its memory what every other one says that it has written there."""
        name = self._name.replace("/", "-").replace("torchlike", f"torchlike-{_runtime.connection.run}", 1)
        sign, same = secrets.randbits(62) + 1, False
        with contextlib.ExitStack() as names:
            try:
                path = folder() / name
                names.callback(path.unlink, missing_ok=True)
                self._map(path)
                self._bell = Bell(path, self._own, self._size)
                names.callback(self._bell.path.unlink, missing_ok=True)
                self._signs[self._own] = sign
            except (OSError, AttributeError):  # too little memory, or a system without it
                sign = 0
            every = self._everybody("sign", sign)
            with contextlib.suppress(OSError):
                if all(every) and self._signs.tolist() == every:
                    self._bell.connect()
                    same = True
            agreed = all(self._everybody("same", int(same)))
        if not agreed:
            self._flat.clear()
        return agreed

    def _map(self, path: Any) -> None:
        """Make the memory, or open it. OSError: there is too little."""
        sizes = [bucket.length * bucket.dtype.itemsize for bucket in self._buckets]
        count = len(sizes) * self._size
        head = -(-8 * (self._size + (_FREE + 1) * count) // _LINE) * _LINE
        length = head + (self._size + _PLACES) * sum(sizes)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, length)
            memory = mmap.mmap(descriptor, length)
        finally:
            os.close(descriptor)
        self._memory, self._signs = memory, np.frombuffer(memory, np.int64, self._size)
        self._marks = np.frombuffer(memory, np.int64, (_FREE + 1) * count, 8 * self._size)
        self._marks = self._marks.reshape(_FREE + 1, len(sizes), self._size)
        begins = list(itertools.accumulate(sizes * (self._size + _PLACES), initial=head))
        rows = [begins[i : i + len(sizes)] for i in range(0, len(begins) - 1, len(sizes))]
        self._begins = rows[self._size :]
        self._flat = [
            [np.frombuffer(memory, b.dtype, b.length, begin) for b, begin in zip(self._buckets, row, strict=True)]
            for row in rows[: self._size]
        ]

    def _everybody(self, what: str, value: int) -> list[int]:
        """What all processes say."""
        ranks, own = self._group.ranks, self._group.ranks[self._own]
        _runtime.put(f"{self._name}/{what}/{own}", str(value).encode())
        limit, late = self._group.seconds(), "shared memory: {} did not come"
        every = [
            _runtime.awaited(f"{self._name}/{what}/{rank}", limit, [rank], late.format(_runtime.named([rank])))
            for rank in ranks
        ]
        return [int(text) for text in every]


def _home(array: Any) -> jax.Device | None:
    """The device of an array; None where it is the one of arrays that may go anywhere, or several."""
    devices = array.devices()
    if len(devices) > 1 or not array._committed and devices == {jax.local_devices()[0]}:
        return None
    return next(iter(devices))


def _empty(bucket: Bucket) -> np.ndarray:
    memory = np.empty(bucket.length * bucket.dtype.itemsize + _LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _LINE
    return memory[begin : begin + bucket.length * bucket.dtype.itemsize].view(bucket.dtype)


def _in_order() -> None:
    """Let other processors see what was written before this before what is written after it, and read so too."""
    for _ in range(2):  # one is a barrier in one direction
        with _barrier:
            pass


_barrier = threading.Lock()
