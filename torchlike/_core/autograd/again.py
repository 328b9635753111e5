"""What surrounds a computation, for when backward runs it again: what is there no longer has to come back."""

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Around = Callable[[Any], AbstractContextManager]


class _Present(threading.local):
    """What surrounds the calls of this thread, from outside to inside."""

    def __init__(self) -> None:
        self.around: list[Around] = []


_present = _Present()


class surrounded:
    """A context whose computations, if they are run again, are run in the context ``around(function)``."""

    __slots__ = ("_around",)

    def __init__(self, around: Around) -> None:
        self._around = around

    def __enter__(self) -> None:
        _present.around.append(self._around)

    def __exit__(self, *exc: object) -> None:
        _present.around.pop()


def surroundings(function: Any) -> Callable[[], AbstractContextManager]:
    """What makes the context in which ``function``, called here now, is run again.

    >>> from contextlib import nullcontext
    >>> with surrounded(lambda function: nullcontext(print("again:", function))):
    ...     again = surroundings("f")
    >>> with again():
    ...     print("inside")
    again: f
    inside
    """
    found = [*_present.around]
    if not found:
        return contextlib.nullcontext

    @contextlib.contextmanager
    def again() -> Any:
        with contextlib.ExitStack() as stack:
            for around in found:
                stack.enter_context(around(function))
            yield

    return again
