"""Batches in pinned memory, for loaders that others write: without an accelerator they stay as they are."""

import queue
from collections.abc import Mapping
from threading import Event
from typing import Any

from torchlike._base.device import local_devices
from torchlike._core.tensor.tensor import Tensor
from torchlike._utils import ExceptionWrapper
from torchlike.utils.data._utils.collate import _is_namedtuple, _like
from torchlike.utils.data._utils.worker import MP_STATUS_CHECK_INTERVAL


def pin_memory(data: Any, device: Any = None) -> Any:
    """``data`` with its tensors, and what else has a method ``pin_memory``, pinned; RuntimeError without accelerator.

    >>> pin_memory({"name": ["text", 3]})
    {'name': ['text', 3]}
    """
    if isinstance(data, Tensor):
        return data.pin_memory()
    if isinstance(data, str | bytes):
        return data
    if isinstance(data, Mapping):
        return _like(data, {k: pin_memory(v, device) for k, v in data.items()})
    if _is_namedtuple(data):
        return type(data)(*(pin_memory(v, device) for v in data))
    if isinstance(data, tuple | list):
        return _like(data, [pin_memory(v, device) for v in data])
    return data.pin_memory() if hasattr(data, "pin_memory") else data


def _pin_memory_loop(in_queue: Any, out_queue: Any, device_id: Any, done_event: Event, device: Any = None) -> None:
    """Take pairs (number, batch) and give them on with the batch pinned, until ``done_event`` is set."""
    here = any(map(local_devices, ("gpu", "tpu")))
    while not done_event.is_set():
        try:
            number, data = in_queue.get(timeout=MP_STATUS_CHECK_INTERVAL)
        except queue.Empty:
            continue
        if here and not isinstance(data, ExceptionWrapper):
            try:
                data = pin_memory(data, device)
            except Exception as error:
                data = ExceptionWrapper((type(error), error, error.__traceback__), "in pin memory thread")
        out_queue.put((number, data))
