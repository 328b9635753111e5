"""Streams, events and graphs of torch.cuda: XLA orders what it launches by itself."""

import time
from typing import Any, NoReturn

from torchlike.cuda._devices import is_available, synchronize
from torchlike.interop.alias import missing_names

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "graph",
    "set_stream",
    "stream",
]

__getattr__ = missing_names(__name__)


class Stream:
    """An order of launches. There is one: waiting for a stream waits for all that was launched.

    Raises RuntimeError without a GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        if not is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support: jax has no GPU in this process")
        self.device, self.priority = device, priority

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        synchronize(self.device)

    def query(self) -> bool:
        """True, once all that was launched is done."""
        self.synchronize()
        return True

    def wait_stream(self, stream: "Stream") -> None:
        """Nothing to do: what was launched earlier is ready for what comes later."""

    def wait_event(self, event: "Event") -> None:
        """Nothing to do: what was launched earlier is ready for what comes later."""

    def record_event(self, event: "Event | None" = None) -> "Event":
        """An event at this point."""
        event = Event() if event is None else event
        event.record(self)
        return event


class Event:
    """A point in the order of launches, with the time when it was reached. Raises RuntimeError without a GPU."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: jax has no GPU in this process")
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Wait for what was launched, and note the time."""
        synchronize()
        self._time = time.perf_counter()

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from this event to another. RuntimeError where one was not recorded."""
        if self._time is None or end_event._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (end_event._time - self._time)

    def synchronize(self) -> None:
        """Nothing left to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing left to wait for."""

    def query(self) -> bool:
        """True: recording waited."""
        return True


class StreamContext:
    """A context that launches on ``stream``; None leaves everything as it is."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def stream(stream: Stream | None) -> StreamContext:
    """A context that launches on ``stream``."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream. AssertionError without a GPU."""
    if not is_available():
        raise AssertionError("Torch not compiled with CUDA enabled: jax has no GPU in this process")
    return Stream(device)


default_stream = current_stream


class CUDAGraph:
    """Launches that are repeated. Raises NotImplementedError; RuntimeError without a GPU."""

    def __init__(self, keep_graph: bool = False) -> None:
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class CUDAGraph: jax has no GPU in this process")
        raise NotImplementedError("torch.cuda.CUDAGraph: torch.compile makes one program of a step")


class graph:  # noqa: N801
    """A context that records a CUDAGraph. Raises RuntimeError without a GPU, NotImplementedError with one."""

    def __init__(
        self, cuda_graph: Any, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        if not is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support: jax has no GPU in this process")
        _no_graphs()


def _no_graphs() -> NoReturn:
    raise NotImplementedError("torch.cuda.graph: torch.compile makes one program of a step")


def set_stream(stream: Stream | None) -> None:
    """Nothing to do: there is one stream."""
