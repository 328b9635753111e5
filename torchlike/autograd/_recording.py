"""What a profile records while it is on, and nothing while none is.

Operators are seen by a dispatch mode of the thread that profiles; jax tells of compilations by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from torchlike._aten.python_dispatch import push, set_modes
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor
from torchlike.autograd.profiler_util import ANNOTATION, COMPILATION, KERNEL, OPERATOR, EventList, FunctionEvent

_COMPILING = "/jax/core/compile/"
_active: list[Recorder] = []
_lock = threading.Lock()
_told = [False]  # whether jax tells of what it compiles


def _disable_profiler() -> None:
    """End the profiles of this thread that go on.

    >>> import torchlike as torch
    >>> torch.autograd._disable_profiler()
    """
    for recorder in [each for each in _active if each in state.dispatch_modes]:
        recorder.stop()


class Recorder:
    """Collects events from the call of :meth:`start` to that of :meth:`stop`."""

    hears_composed = True  # asks dispatch to tell of operators that are several calls

    def __init__(self, record_shapes: bool = False) -> None:
        self.shapes = record_shapes
        self.events = EventList()
        self._open = threading.local()
        self._entered = False

    def start(self) -> None:
        """Begin; in this thread operators are recorded too."""
        with _lock:
            if not _told[0]:
                jax.monitoring.register_event_duration_secs_listener(_compiled)
                _told[0] = True
            _active.append(self)  # before the mode, which operators may see at once
        push(self)
        self._entered = True

    def stop(self) -> None:
        """End. A second call does nothing."""
        if not self._entered:
            return
        self._entered = False
        set_modes(tuple(mode for mode in state.dispatch_modes if mode is not self))
        with _lock:
            _active.remove(self)
        self.events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))  # the outer ones first

    def _stack(self) -> list[FunctionEvent]:
        if not hasattr(self._open, "stack"):
            self._open.stack = []
        return self._open.stack

    def begin(self, name: str, category: str, shapes: Any = None) -> FunctionEvent:
        """A range of this thread, inside those that are open."""
        now, number = time.perf_counter() * 1e6, len(self.events)
        event = FunctionEvent(
            number, name, threading.get_ident(), now, now, category=category, input_shapes=shapes
        )
        stack = self._stack()
        if stack:
            event.cpu_parent = stack[-1]
            stack[-1].cpu_children.append(event)
        stack.append(event)
        return event

    def end(self, event: FunctionEvent) -> None:
        """Close a range, and what was left open inside it."""
        event.time_range.end = time.perf_counter() * 1e6
        stack = self._stack()
        if event in stack:
            del stack[stack.index(event) :]
        self.events.append(event)

    def past(self, name: str, category: str, duration: float) -> None:
        """A range that ends now."""
        event = self.begin(name, category)
        event.time_range.start -= duration
        self.end(event)

    @contextmanager
    def composed(self, name: str, inputs: tuple) -> Iterator[None]:
        """Around the calls that an operator of this name is."""
        event = self.begin(name, OPERATOR, self._shapes(inputs))
        try:
            yield
        finally:
            self.end(event)

    def _shapes(self, inputs: Any) -> Any:
        return [list(x.shape) for x in inputs if isinstance(x, Tensor)] if self.shapes else None

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        event = self.begin(name, OPERATOR, self._shapes(args))
        try:
            result = func(*args, **(kwargs or {}))
            kernel = self.begin(f"kernel {name}", KERNEL)
            jax.block_until_ready([x._storage.value for x in _tensors(result)])
            self.end(kernel)
            return result
        finally:
            self.end(event)


def _tensors(result: Any) -> list[Tensor]:
    found = result if isinstance(result, list | tuple) else [result]
    return [x for x in found if isinstance(x, Tensor) and isinstance(x._storage.value, jax.Array)]


def _compiled(event: str, duration_secs: float, **about: Any) -> None:
    if not _active or not event.startswith(_COMPILING):
        return
    what = event.removeprefix(_COMPILING).removesuffix("_duration")
    for recorder in list(_active):
        recorder.past(f"{what} {about.get('fun_name', '')}".rstrip(), COMPILATION, duration_secs * 1e6)


def annotated(name: str) -> list[tuple[Recorder, FunctionEvent]]:
    """Begin a range of the user's in every profile that is on."""
    return [(recorder, recorder.begin(name, ANNOTATION)) for recorder in list(_active)]


def _profiler_enabled() -> bool:
    """Whether a profile is on."""
    return bool(_active)
