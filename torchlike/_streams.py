"""``torch.Stream``, ``torch.Event``, and the module of a device."""

from __future__ import annotations

import importlib
import time
from types import ModuleType
from typing import Any

import jax

import torchlike._base.device as devices

__all__ = ["Event", "Stream", "get_device_module"]

_MODULES = {"cpu": "cpu", "cuda": "cuda", "mps": "mps", "xpu": "xpu", "mtia": "mtia"}


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a device, such as ``torch.cuda``; that of the accelerator or else the CPU's where none is given.

    >>> import torchlike as torch
    >>> torch.get_device_module("cpu") is torch.cpu
    True
    """
    if device is None:
        place = "cuda" if jax.default_backend() == "gpu" else "cpu"
    else:
        place = devices.as_device(device).type
    if place not in _MODULES:
        raise RuntimeError(f"Device '{place}' does not have a corresponding module registered as 'torch.{place}'.")
    return importlib.import_module(f"{__name__.partition('.')[0]}.{_MODULES[place]}")


def _finish() -> None:
    for array in jax.live_arrays():
        array.block_until_ready()


def _linked(device: Any) -> devices.device:
    """The device, the CPU where none is given; RuntimeError for a GPU where jax has none."""
    found = devices.as_device("cpu" if device is None else device)
    if found.type == "cuda" and jax.default_backend() != "gpu":
        raise RuntimeError("PyTorch is not linked with support for cuda devices: jax has no GPU in this process")
    return found


class Stream:
    """An order of launches on a device. There is one: waiting waits for all that was launched."""

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _linked(device)
        self.stream_id, self.device_index = 0, -1 if self.device.index is None else self.device.index

    def synchronize(self) -> None:
        """Wait for all that was launched."""
        _finish()

    def query(self) -> bool:
        """True, once all that was launched is done."""
        _finish()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to do: what was launched earlier is ready for what comes later."""

    def wait_event(self, event: Event) -> None:
        """Nothing to do: what was launched earlier is ready for what comes later."""

    def record_event(self, event: Event | None = None) -> Event:
        """An event at this point."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def __repr__(self) -> str:
        return f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id=0"


class Event:
    """A point in the order of launches, with the time when it was reached."""

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = _linked(device)
        self._time: float | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Wait for what was launched, and note the time."""
        _finish()
        self._time = time.perf_counter()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another. RuntimeError where one was not recorded."""
        if self._time is None or other._time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return 1000 * (other._time - self._time)

    def synchronize(self) -> None:
        """Nothing left to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing left to wait for."""

    def query(self) -> bool:
        """True: recording waited."""
        return True

    def __repr__(self) -> str:
        return f"torch.Event device_type={self.device.type}, device_index=-1, event_flag=0, event_id=0"
