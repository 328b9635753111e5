"""Marks for NVIDIA's profilers. Without a GPU they raise RuntimeError, with one they mark jax's traces."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import jax

from torchlike.cuda._devices import is_available
from torchlike.interop.alias import missing_names

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

__getattr__ = missing_names(__name__)


class _Open(threading.local):
    """The ranges of a thread that are open."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


_open = _Open()
_started: dict[int, Any] = {}


def _demand() -> None:
    if not is_available():
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def _begun(msg: str) -> Any:
    _demand()
    annotation = jax.profiler.TraceAnnotation(msg)
    annotation.__enter__()
    return annotation


def range_push(msg: str) -> int:
    """Begin a range inside those of this thread; returns how many are around it."""
    _open.stack.append(_begun(msg))
    return len(_open.stack) - 1


def range_pop() -> int:
    """End the innermost range of this thread; returns how many are left around it."""
    _demand()
    _open.stack.pop().__exit__(None, None, None)
    return len(_open.stack)


def range_start(msg: str) -> int:
    """Begin a range that any code may end; returns its number."""
    annotation = _begun(msg)
    _started[id(annotation)] = annotation
    return id(annotation)


def range_end(range_id: int) -> None:
    """End the range of a number."""
    _demand()
    _started.pop(range_id).__exit__(None, None, None)


def mark(msg: str) -> None:
    """A range of no length."""
    _begun(msg).__exit__(None, None, None)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context that is a range; the message is formatted with the other arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
