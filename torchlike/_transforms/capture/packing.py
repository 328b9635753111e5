"""What a small program replaces, kept as one array from call to call.

Note [Packing]
~~~~~~~~~~~~~~
A step of a small model computes for less time than XLA needs to be given dozens of arrays and to return dozens. So the
arrays that it replaces are parts of one, which goes from each call to the next. Their storages hold pieces: recorded
values (Pending) that are cut out of it when somebody asks. As long as nobody does, and nobody writes to a storage, each
call finds its own pieces there, and leaves the same objects, which stand for the new numbers from then on. Whoever else
holds a piece is to have the number of its time: the count of references shows that, and before the call goes on all
pieces are cut out and others take their places (``part``).
It is compiled anew for that, which takes as long as thousands of calls: so once it has been called a thousand times.
This is for the one thread of a process; beside others programs run as usual. A program whose pieces are asked for every
few calls is not packed any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import is_
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from torchlike._base.threads import alone
from torchlike._core.tensor.storage import Storage
from torchlike._executor.direct import one_device
from torchlike._executor.immediate import put_beside
from torchlike._executor.pending import Array, Kind, Pending, as_numpy, kind_of, pending, settled
from torchlike._executor.references import IN_CALL

if TYPE_CHECKING:
    from torchlike._decl.typed import Value, Values

_LEAST, _LARGEST = 8, 64  # arrays from which it pays, and up to which it was measured
_BYTES = 1 << 18  # of all of them: copying more takes longer than handing them over
_WARM = 1000  # calls before it is compiled for that
_LOST, _OFTEN = 3, 16  # times that pieces were asked for until it ends: so many, and one more in so many calls


class Packed(list):  # type: ignore[type-arg]
    """The results of a packed program, ``pieces`` in the places of those that are parts of ``flat``."""

    __slots__ = ("flat", "pieces")
    flat: jax.Array
    pieces: list[Pending]


def packs(arrays: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether a program may have these as one array, which it replaces by results of the kinds ``outs``."""
    if not IN_CALL or not _LEAST <= len(arrays) <= _LARGEST or {*map(type, arrays)} != {Array} or not one_device():
        return False
    alike = all([a.shape == o.shape and a.dtype == o.dtype for a, o in zip(arrays, outs, strict=True)])
    return alike and len({a.dtype for a in arrays}) == 1 and sum([a.nbytes for a in arrays]) <= _BYTES


class Packing:
    """Runs ``program``, whose first inputs are the values of ``storages`` and its first results those that follow.

    Attributes:
        plain: the program as it is run else. flat: the array of which ``pieces`` are parts, while they are ``whole``.
        lost: how often they were asked for, or did not stand in all storages, in so many ``calls``.
    """

    def __init__(
        self, program: Callable[..., Any], jitted: Callable[..., Any], plain: Any, storages: Sequence[Storage]
    ) -> None:
        values = [settled(s.value) for s in storages]
        self.kinds: list[Kind] = [kind_of(ShapedArray(v.shape, v.dtype), v.sharding) for v in values]
        self.plain, self.storages, self.width = plain, storages, len(storages)
        self._ends = np.cumsum([0, *[v.size for v in values]]).tolist()
        self._run = jitted(self._packed(program))
        self.lock, self.whole = threading.RLock(), False
        self.flat: jax.Array | None = None
        self.lost = self.calls = 0
        self.pieces = self._new()

    def _new(self) -> list[Pending]:
        return [pending(kind, self) for kind in self.kinds]

    def _packed(self, program: Callable[..., Any]) -> Callable[..., Any]:
        width = self.width

        def packed(flat: Value, *rest: Value) -> Any:
            spans = zip(self._ends, self._ends[1:], self.kinds, strict=False)
            parts = [jax.lax.slice(flat, (a,), (b,)).reshape(kind.shape) for a, b, kind in spans]
            outs = program(*parts, *rest)
            return jnp.concatenate([x.reshape(-1) for x in outs[:width]]), *outs[width:]

        return packed

    def __call__(self, *values: Value) -> Any:
        """The results for these values; nothing is changed before :meth:`commit`."""
        self.calls += 1
        if self.calls <= _WARM or self.lost > _LOST + (self.calls - _WARM) // _OFTEN:
            return self.plain(*values)
        if self.whole and all(map(is_, self.pieces, values)):
            flat = self.flat
            if max(map(getrefcount, self.pieces)) > IN_CALL:
                self.part()
        elif (flat := self._joined(values[: self.width])) is None:
            return self.plain(*[settled(v) for v in values[: self.width]], *values[self.width :])
        flat, *others = self._run(flat, *values[self.width :])
        outs = Packed(pieces := self.pieces)
        outs += others
        outs.flat, outs.pieces = flat, pieces
        return outs

    def _joined(self, values: Values) -> jax.Array | None:
        """The array of which these are the parts; None where they are not what the program was made for."""
        self.part()
        arrays = [settled(v) for v in values]
        known = {*map(type, self.storages)} == {Storage} and {*map(type, arrays)} == {Array}
        if known and all([a.shape == k.shape and a.dtype == k.dtype for a, k in zip(arrays, self.kinds, strict=True)]):
            return put_beside(np.concatenate([as_numpy(a).reshape(-1) for a in arrays]), arrays[0])
        self.lost += 1
        return None

    def commit(self, outs: Packed) -> None:
        """The pieces stand for these results from now on; who interrupts this has it done again.

        Somebody may have asked for pieces since the program ran, even in between (what Python calls by itself): those
        have the old numbers.
        """
        while not self.whole or self.flat is not outs.flat or outs.pieces is not self.pieces:
            outs[: self.width] = outs.pieces = self.pieces
            self.flat = outs.flat
            self.whole = True

    def settle(self, piece: Pending) -> None:
        """Compute a piece, and the others with it."""
        self.part()

    def part(self) -> None:
        """Cut out all pieces, and have others for what comes next. May be called again if a signal interrupts it."""
        with self.lock:
            self.whole = False
            if (flat := self.flat) is None:
                return
            self.lost += 1
            pieces = self.pieces
            for piece, array in zip(pieces, self._cut(flat), strict=True):
                piece.array = array
            if alone():
                for storage, piece in zip(self.storages, pieces, strict=True):
                    if storage.value is piece:
                        storage.value = piece.array  # which spares every reader to ask the piece
            if self.pieces is pieces:
                self.pieces = self._new()
            if self.flat is flat:
                self.flat = None

    def _cut(self, flat: jax.Array) -> list[Any]:
        """The parts, made of numpy's without a program, which would have to be compiled."""
        numbers = as_numpy(flat)
        spans = zip(self._ends, self._ends[1:], self.kinds, strict=False)
        return [put_beside(numbers[a:b].reshape(kind.shape).copy(), flat) for a, b, kind in spans]
