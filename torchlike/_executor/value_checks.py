"""Value checks of compiled functions that nobody has asked for yet.

Beside its results a program computes flags, which its next call reads: so no call waits for its own results. There may
be no next call. Who waits for all that was launched is told, and so is who ends the process.
"""

from __future__ import annotations

import atexit
import itertools
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlike._executor.pending import as_numpy, ready

if TYPE_CHECKING:
    from torchlike._decl.typed import Value, Values

_numbers = itertools.count()
_watched: dict[int, tuple[weakref.ref, list[Value], list[Exception]]] = {}


def watch(program: object, flags: list[Value], errors: list[Exception]) -> None:
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


def examine(flags: list[Value], errors: list[Exception]) -> None:
    """Take the flags of former calls one by one, and raise the error of the first that is set."""
    while flags:
        try:
            found = flags.pop(0)
        except IndexError:  # another thread has taken it
            return
        if b"\1" in _bytes(found):
            i = int(np.asarray(found).argmax())
            errors[i] = typed(errors[i])
            raise errors[i].with_traceback(None)


class Unseen(RuntimeError):
    """The error of a value check whose values a program does not keep, until it is known of which type it is."""

    def __init__(self, message: str, op: Any, static: Any, values: Values) -> None:
        super().__init__(message)
        self.check = op, static, [(v.shape, v.dtype) if hasattr(v, "dtype") else v for v in values]


def typed(error: Exception) -> Exception:
    """``error`` as its check raises it: of the type that it has for values that are refused."""
    if not isinstance(error, Unseen):
        return error
    kinds = dict(_kinds(*error.check))
    return kinds.get(True, kinds.get(False, RuntimeError))(*error.args)


_EXAMPLES = (np.nan, 2**30), (-1, -1), (0, 0)  # of floats, and of integers


def _kinds(op: Any, static: Any, kinds: list[Any]) -> Iterator[tuple[bool, type[Exception]]]:
    """(whether it is refused, the type of the error) for examples of values."""
    for number, integer in _EXAMPLES:
        try:
            bad, error = op.examine(static, [_example(kind, number, integer) for kind in kinds])
            found = error() if callable(error) else error
        except Exception:  # what the message shows is not there
            continue
        if isinstance(found, Exception):
            yield bool(bad), type(found)


def _example(kind: Any, number: float, integer: int) -> Any:
    if not isinstance(kind, tuple):
        return kind
    shape, dtype = kind
    limits = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    value = number if limits is None else min(max(integer, limits.min), limits.max)
    return np.broadcast_to(np.array(value, dtype), shape)  # of any size, and no memory


def _bytes(value: Value) -> bytes:
    """The bytes of an array, where it can be straight out of its memory."""
    try:
        return memoryview(ready(value)).tobytes()
    except (BufferError, TypeError, ValueError):  # it is elsewhere, or in pieces
        return as_numpy(value).tobytes()
