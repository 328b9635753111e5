"""Value checks of compiled functions that nobody has asked for yet.

Beside its results a program computes flags, which its next call reads: so no call waits for its own results. There may
be no next call. Who waits for all that was launched is told, and so is who ends the process.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torchlike._decl.typed import Value

_numbers = itertools.count()
_watched: dict[int, tuple[weakref.ref, list[Value], Sequence[Exception]]] = {}


def watch(program: object, flags: list[Value], errors: Sequence[Exception]) -> None:
    """Look after the flags of a program's calls as long as there are some; ``errors``: what each of them raises."""
    if not _watched:
        atexit.unregister(told)
        atexit.register(told)  # before jax's own, which was there earlier
    number = next(_numbers)

    def gone(_: object) -> None:
        if not flags:
            _watched.pop(number, None)

    _watched[number] = weakref.ref(program, gone), flags, errors


def told() -> None:
    """Raise what the value checks of calls say that nobody has asked for, one error at a time; waits for them."""
    for number, (program, flags, errors) in list(_watched.items()):
        examine(flags, errors)
        if program() is None:
            _watched.pop(number, None)


def examine(flags: list[Value], errors: Sequence[Exception]) -> None:
    """Take the flags of former calls one by one, and raise the error of the first that is set."""
    while flags:
        try:
            found = flags.pop(0)
        except IndexError:  # another thread has taken it
            return
        if b"\1" in _bytes(found):
            raise errors[int(np.asarray(found).argmax())].with_traceback(None)


def _bytes(value: Value) -> bytes:
    """The bytes of an array, where it can be straight out of its memory."""
    try:
        return memoryview(value).tobytes()
    except (BufferError, TypeError, ValueError, RuntimeError):  # it is elsewhere, or in pieces
        return np.asarray(value).tobytes()
