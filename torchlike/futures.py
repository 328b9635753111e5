"""torch.futures: results that come later."""

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from torchlike._base.device import device
from torchlike.interop.alias import missing_names

__all__ = ["Future", "collect_all", "wait_all"]

__getattr__ = missing_names(__name__)

T = TypeVar("T")


class Future(Generic[T]):
    """A result that another thread sets, or an exception in its place.

    Args:
        devices: accelerators with an index, from which values may come. They are ready for every device.

    Raises:
        ValueError: one of ``devices`` has no index.

    >>> import torchlike as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(4)
    >>> doubled.wait()
    8
    """

    def __init__(self, *, devices: Sequence | None = None) -> None:
        for given in devices or ():
            if device(given).index is None:
                raise ValueError(f"Expected devices to have indices, got {device(given)}")
        self._ready = threading.Condition()
        self._done, self._value, self._error = False, None, None
        self._callbacks: list[Callable] = []

    def done(self) -> bool:
        """Whether the result, or an exception, is there."""
        return self._done

    def wait(self) -> Any:
        """The result, once it is there. Raises the exception that was set."""
        with self._ready:
            self._ready.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> Any:
        """The result, which must be there. Raises the exception that was set; RuntimeError: nothing was yet."""
        if not self._done:
            raise RuntimeError("Future.value(): the future is not completed; wait() waits for its result")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result: Any) -> None:
        """Complete the future. Raises RuntimeError if it is complete."""
        self._complete(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Complete the future with an exception. Raises AssertionError for what is none."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, value: Any, error: Any) -> None:
        with self._ready:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._done, self._value, self._error = True, value, error
            callbacks, self._callbacks = self._callbacks, []
            self._ready.notify_all()
        for callback in callbacks:
            callback()

    def _when_done(self, callback: Callable) -> None:
        with self._ready:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback()

    def add_done_callback(self, callback: Callable) -> None:
        """Call ``callback(self)`` when the future is complete; at once if it is. Its exceptions are only printed."""
        _demand_function("add_done_callback", callback)

        def run() -> None:
            try:
                callback(self)
            except Exception as error:
                print(_failed(error), file=sys.stderr)

        self._when_done(run)

    def then(self, callback: Callable) -> "Future":
        """A future of ``callback(self)``, which is called when this one is complete; at once if it is.

        What ``callback`` raises is told by a RuntimeError when the new future is waited for.
        """
        _demand_function("then", callback)
        following: Future = Future()

        def run() -> None:
            try:
                result = callback(self)
            except Exception as error:
                told = _failed(error)
                told.__cause__ = error
                following.set_exception(told)
            else:
                following.set_result(result)

        self._when_done(run)
        return following

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")


def _demand_function(method: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{method}(): incompatible function arguments: expected a function, not {type(callback)}")


def _failed(error: Exception) -> RuntimeError:
    """What a callback's exception is told by: its class, its message, and the lines, the innermost first."""
    frames = reversed(traceback.extract_tb(error.__traceback__)[1:])
    lines = "".join(f"  {frame.filename}({frame.lineno}): {frame.name}\n" for frame in frames)
    kind = type(error).__name__
    return RuntimeError(f"Got the following error when running the callback: {kind}: {error}\n\nAt:\n{lines}")


def _demand_futures(function: str, futures: Any) -> None:
    if not isinstance(futures, list | tuple):
        raise TypeError(f"{function}(): incompatible function arguments: expected a list of futures, not {futures!r}")
    for future in futures:
        if future is None:
            raise RuntimeError("Future can't be None")
        if not isinstance(future, Future):
            raise TypeError(f"{function}(): incompatible function arguments: expected futures, not {future!r}")


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of ``futures`` that is complete when all of them are.

    If any of them ends with an exception, it does so with the first one's in the list.
    """
    _demand_futures("collect_all", futures)
    whole: Future = Future()
    left, lock = [len(futures)], threading.Lock()

    def finish() -> None:
        errors = (future._error for future in futures if future._error is not None)
        whole._complete(futures, next(errors, None))

    def count() -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            finish()

    if not futures:
        finish()
    for future in futures:
        future._when_done(count)
    return whole


def wait_all(futures: list[Future]) -> list:
    """The results of all ``futures``, once they are there. Raises the first exception in the list that was set."""
    return [future.wait() for future in collect_all(futures).wait()]
