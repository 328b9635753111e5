"""Streams and events of the CPU, which has one order of launches."""

from typing import Any


class Stream:
    """The order of launches on the CPU."""

    def __init__(self, priority: int = -1) -> None: ...

    def wait_stream(self, stream: Any) -> None:
        """Nothing to do: there is one."""

    def record_event(self) -> None:
        """Nothing to do: there is one order."""

    def wait_event(self, event: Any) -> None:
        """Nothing to do: there is one order."""


class Event:
    """A point in the order of launches on the CPU, which is reached when it is recorded."""

    def __init__(self, enable_timing: bool = False) -> None: ...

    def query(self) -> bool:
        """True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to do."""

    def synchronize(self) -> None:
        """Nothing to do."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to do."""


_STREAM = Stream()


def current_stream(device: Any = None) -> Stream:
    """The one stream.

    >>> import torchlike as torch
    >>> torch.cpu.current_stream() is torch.cpu.current_stream()
    True
    """
    return _STREAM


class StreamContext:
    """A context that changes nothing: there is one stream."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


def stream(stream: Stream | None) -> StreamContext:
    """A context on a stream."""
    return StreamContext(stream)
