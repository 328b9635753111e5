"""A limit to the wait for what several processes compute together outside of collectives: DTensors, fully_shard.

Whoever reads such a value waits within XLA, which has no end where another process died or does not come, and cannot
be interrupted. A thread sees it, says which ranks are missing, and ends the process, as NCCL's watchdog does.
"""

import contextlib
import os
import queue
import sys
import threading
import time
from typing import Any

import jax

from torchlike.distributed import _runtime
from torchlike.distributed import distributed_c10d as c10d

_SILENT = 1.0  # seconds of a wait after which a rank says that it waits
_PATIENCE = 2.0  # seconds for others to say so
_PLACE = "torchlike/watch"


def watched(value: Any) -> None:
    """Let the wait for a value of all processes have an end: the timeout of their group."""
    if _runtime.connection.world is not None and isinstance(value, jax.Array):
        if not isinstance(value, jax.core.Tracer) and not value.is_fully_addressable:
            _watch.put(value)


class waiting:
    """A context in which this process computes with others: XLA may wait for them where it begins.

    DistBackendError names those whose connection has failed.
    """

    def __enter__(self) -> None:
        self._done = _watch.begun() if _runtime.connection.world is not None else None

    def __exit__(self, *exc: object) -> None:
        if self._done is None:
            return
        self._done.set()
        error = exc[1]
        if isinstance(error, Exception) and not isinstance(error, _runtime.DistError) and "Gloo" in str(error):
            _runtime.connection.broken = text = _lost(error)
            raise _runtime.DistBackendError(text) from error


class _Watch:
    """Two threads: one waits for values, in their order; the other looks at how long that takes."""

    def __init__(self) -> None:
        self._lock, self._started = threading.Lock(), False
        self._values: queue.SimpleQueue[tuple[Any, threading.Event]] = queue.SimpleQueue()
        self._waits: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()

    def put(self, value: Any) -> None:
        self._values.put((value, self.begun()))

    def begun(self) -> threading.Event:
        """The wait for what is to be set."""
        with self._lock:
            if not self._started:
                self._started = True
                for run in (self._wait, self._look):
                    threading.Thread(target=run, daemon=True, name="torchlike-watch").start()
        here = threading.Event()
        self._waits.put(here)
        return here

    def _wait(self) -> None:
        while True:
            value, here = self._values.get()
            while not self._values.empty():  # what was begun later is ready later
                here.set()
                value, here = self._values.get()
            with contextlib.suppress(Exception):  # whoever reads it is told
                value.block_until_ready()
            del value
            here.set()

    def _look(self) -> None:
        while True:
            here = self._waits.get()
            if not here.wait(_SILENT):
                _be_impatient(here)


def _be_impatient(here: threading.Event) -> None:
    """Something takes long: by others' fault, if they do not wait too."""
    world = c10d.group.WORLD
    if world is None:
        return
    me, limit = world.ranks[world.rank()], world.seconds()
    patience, begun = min(_PATIENCE, limit / 4), time.monotonic()
    _runtime.put(f"{_PLACE}/{me}", b"")
    while not here.wait(min(1.0, patience)):
        if time.monotonic() - begun + patience < limit:
            continue
        missing = _runtime.absent(_PLACE, world.ranks, patience)
        if missing and not here.is_set():
            _end(missing, limit)
        begun = time.monotonic()
    _runtime.forget(f"{_PLACE}/{me}")


def _lost(error: Exception) -> str:
    world = c10d.group.WORLD
    if world is None:
        return str(error)
    _runtime.put(f"{_PLACE}/{world.ranks[world.rank()]}", b"")
    missing = _runtime.absent(_PLACE, world.ranks, min(_PATIENCE, world.seconds() / 4))
    who = f"{_runtime.named(missing)} died or did not take part" if missing else "the connection between ranks failed"
    return f"tensors over several processes: {who} ({str(error)[:200]})"


def _end(missing: list[int], limit: float) -> None:
    print(
        f"torch.distributed.DistBackendError: after {limit:g} seconds {_runtime.named(missing)} died or did not take "
        "part in what tensors over several processes need; this process ends",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    os._exit(1)


_watch = _Watch()
