"""One pass at a time: making an iterator of a pipe ends those that were made of it before."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any


class _SnapshotState(enum.Enum):
    """What the next pass over a pipe begins with: anew, where it was left, or anew after a pass."""

    NotStarted = 0
    Restored = 1
    Iterating = 2


def told(pipe: Any) -> str:
    """A pipe and its settings, for messages."""
    kept = {k: v for k, v in sorted(vars(pipe).items()) if not k.startswith("_") and not hasattr(v, "getstate_hook")}
    return f"{type(pipe).__qualname__}({', '.join(f'{k}={v!r:.100}' for k, v in kept.items())})"


def begin(pipe: Any) -> int:
    """Begin a pass, unless one was restored; returns its number."""
    if pipe._snapshot_state is _SnapshotState.Restored:
        pipe._snapshot_state = _SnapshotState.Iterating
        return pipe._valid_iterator_id
    pipe._snapshot_state = _SnapshotState.Iterating
    pipe._valid_iterator_id += 1
    pipe._number_of_samples_yielded, pipe._fast_forward_iterator = 0, None
    pipe.reset()
    return pipe._valid_iterator_id


def demand_valid(pipe: Any, number: int) -> None:
    """RuntimeError where another pass has begun since."""
    if pipe._valid_iterator_id != number:
        raise RuntimeError(
            "This iterator has been invalidated because another iterator has been created from the same IterDataPipe: "
            f"{told(pipe)}\nThis may be caused by multiple references to the same IterDataPipe. Use `.fork()` where "
            "several readers are meant."
        )


class IteratorDecorator:
    """The iterator that a pipe's own code gave, as long as its pass is the last one."""

    def __init__(self, iterator: Any, pipe: Any, number: int, counts: bool) -> None:
        self.iterator, self.pipe, self.number, self.counts = iterator, pipe, number, counts

    def __iter__(self) -> IteratorDecorator:
        return self

    def __next__(self) -> Any:
        self.pipe._demand_valid(self.number)
        item = next(self.iterator)
        if self.counts:
            self.pipe._number_of_samples_yielded += 1
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self.iterator, name)


def _named(error: Exception, pipe: Any) -> None:
    said = "\nThis exception is thrown by __iter__ of "
    if error.args and isinstance(error.args[0], str) and said not in error.args[0]:
        error.args = (f"{error.args[0]}{said}{told(pipe)}", *error.args[1:])


def _generated(made: Callable) -> Callable:
    @functools.wraps(made)
    def iterate(self: Any, *args: Any, **kwargs: Any) -> Iterator:
        number = self._begin()
        restored = self._fast_forward_iterator
        source = made(self, *args, **kwargs) if restored is None else restored
        while True:
            self._demand_valid(number)
            try:
                item = next(source)
            except StopIteration:
                return
            except Exception as error:
                _named(error, self)
                raise
            if restored is None:
                self._number_of_samples_yielded += 1
            yield item

    return iterate


def _given(made: Callable) -> Callable:
    @functools.wraps(made)
    def iterate(self: Any, *args: Any, **kwargs: Any) -> IteratorDecorator:
        number = self._begin()
        restored = self._fast_forward_iterator
        source = made(self, *args, **kwargs) if restored is None else restored
        return IteratorDecorator(source, self, number, restored is None and source is not self)

    return iterate


def _counting_samples(made: Callable) -> Callable:
    @functools.wraps(made)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        item = made(self, *args, **kwargs)
        self._number_of_samples_yielded += 1
        return item

    return step


def hook(cls: type) -> None:
    """Let the passes over pipes of a class count themselves and end each other."""
    own = vars(cls)
    if "__iter__" in own:
        made = own["__iter__"]
        setattr(cls, "__iter__", (_generated if inspect.isgeneratorfunction(made) else _given)(made))  # noqa: B010
    if "__next__" in own:
        setattr(cls, "__next__", _counting_samples(own["__next__"]))  # noqa: B010
