"""torch.futures: results that come later."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from torchlike.interop.alias import missing_names

__all__ = ["Future", "collect_all", "wait_all"]

__getattr__ = missing_names(__name__)

T = TypeVar("T")


class Future(Generic[T]):
    """A result that another thread sets, or an exception in its place.

    Args:
        devices: accepted; values are ready for every device.

    >>> import torchlike as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.value() * 2)
    >>> future.set_result(4)
    >>> doubled.wait()
    8
    """

    def __init__(self, *, devices: Any = None) -> None:
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
                raise RuntimeError("Future already completed: its result or exception can be set once")
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
        """Call ``callback(self)`` when the future is complete; at once if it is. Its exceptions are dropped."""

        def run() -> None:
            try:
                callback(self)
            except Exception as error:
                print(f"Future.add_done_callback: the callback raised {error!r}")

        self._when_done(run)

    def then(self, callback: Callable) -> "Future":
        """A future of ``callback(self)``, which is called when this one is complete; at once if it is."""
        following: Future = Future()

        def run() -> None:
            try:
                result = callback(self)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(result)

        self._when_done(run)
        return following


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of ``futures`` that is complete when all of them are."""
    whole: Future = Future()
    left, lock = [len(futures)], threading.Lock()

    def count() -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            whole.set_result(futures)

    if not futures:
        whole.set_result(futures)
    for future in futures:
        future._when_done(count)
    return whole


def wait_all(futures: list[Future]) -> list:
    """The results of all ``futures``, once they are there."""
    return [future.wait() for future in collect_all(futures).wait()]
