"""torch.accelerator: the GPU or TPU that jax has, if any."""

from collections.abc import Callable
from typing import Any, NoReturn

import jax

import torchlike._base.device as devices
from torchlike._base.volatile import volatile
from torchlike._executor import value_checks
from torchlike._streams import Stream
from torchlike.interop.alias import missing_names

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_memory_info", "is_available", "max_memory_allocated",
    "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip

__getattr__ = missing_names(__name__)

_KINDS = {"gpu": "cuda", "tpu": "xla"}


def _kind() -> str | None:
    if not any(map(devices.local_devices, _KINDS)):
        return None
    return _KINDS.get(jax.default_backend())


def is_available() -> bool:
    """Whether jax works on a GPU or TPU."""
    return _kind() is not None


def current_accelerator(check_available: bool = False) -> Any:
    """The device type of the accelerator, or None.

    >>> import torchlike as torch
    >>> (torch.accelerator.current_accelerator() is None) == (not torch.accelerator.is_available())
    True
    """
    kind = _kind()
    return None if kind is None else devices.device(kind)


def device_count() -> int:
    """How many accelerators this process sees; 0 without one."""
    return jax.local_device_count() if is_available() else 0


def _demand() -> None:
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def current_device_index() -> int:
    """The index of the accelerator that is used: the first. RuntimeError without one."""
    _demand()
    return 0


def set_device_index(device: Any, /) -> None:
    """Accepted for the first accelerator. RuntimeError without one, NotImplementedError for others."""
    _demand()
    index = device if isinstance(device, int) else devices.as_device(device).index or 0
    if index > 0:
        raise NotImplementedError(f'torch.accelerator.set_device_index({index}): write "cuda:{index}" instead')


def current_device_idx() -> int:
    """:func:`current_device_index` by its name of old."""
    return current_device_index()


def set_device_idx(device: Any, /) -> None:
    """:func:`set_device_index` by its name of old."""
    set_device_index(device)


class device_index:  # noqa: N801
    """A context of :func:`set_device_index`; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *exc: object) -> None: ...


def _known(device: Any) -> dict[str, int]:
    _demand()
    index = device if isinstance(device, int) else 0 if device is None else devices.as_device(device).index or 0
    return dict(jax.local_devices()[index].memory_stats() or {})


def empty_cache() -> None:
    """Nothing to do: XLA manages device memory. RuntimeError without an accelerator."""
    _demand()


@volatile
def memory_allocated(device: Any = None, /) -> int:
    """Bytes in use. RuntimeError without an accelerator."""
    return _known(device).get("bytes_in_use", 0)


@volatile
def max_memory_allocated(device: Any = None, /) -> int:
    """The peak of bytes in use. RuntimeError without an accelerator."""
    return _known(device).get("peak_bytes_in_use", 0)


@volatile
def memory_reserved(device: Any = None, /) -> int:
    """Bytes that XLA's allocator holds of the device, where it counts them. RuntimeError without an accelerator."""
    known = _known(device)
    return max(known.get("pool_bytes", 0), known.get("bytes_reserved", 0), known.get("bytes_in_use", 0))


@volatile
def max_memory_reserved(device: Any = None, /) -> int:
    """The peak of :func:`memory_reserved`, where XLA counts it. RuntimeError without an accelerator."""
    known = _known(device)
    return max(known.get("peak_pool_bytes", 0), known.get("peak_bytes_reserved", 0), known.get("peak_bytes_in_use", 0))


def empty_host_cache() -> None:
    """Nothing to do: XLA manages memory. RuntimeError without an accelerator."""
    _demand()


@volatile
def memory_stats(device: Any = None, /) -> dict[str, int]:
    """What XLA's allocator counts. RuntimeError without an accelerator."""
    return _known(device)


@volatile
def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """(free, total) bytes. RuntimeError without an accelerator."""
    known = _known(device)
    total = known.get("bytes_limit", 0)
    return total - known.get("bytes_in_use", 0), total


def current_stream(device: Any = None, /) -> Stream:
    """The one stream. RuntimeError without an accelerator."""
    _demand()
    return Stream(current_accelerator() if device is None else device)


def set_stream(stream: Stream, /) -> None:
    """Nothing to do: there is one. RuntimeError without an accelerator."""
    _demand()


def synchronize(device: Any = None, /) -> None:
    """Wait until all accelerators have finished what was launched. RuntimeError without one."""
    _demand()
    for array in jax.live_arrays():
        array.block_until_ready()
    value_checks.told()


def _forgets_nothing(name: str) -> Callable[..., NoReturn]:
    def refuse(device: Any = None, /) -> NoReturn:
        _demand()
        raise NotImplementedError(f"torch.accelerator.{name}(): XLA's allocator counts from the start of the process")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "NotImplementedError: XLA's allocator cannot forget its peak. RuntimeError without an accelerator."
    return refuse


reset_peak_memory_stats = _forgets_nothing("reset_peak_memory_stats")
reset_accumulated_memory_stats = _forgets_nothing("reset_accumulated_memory_stats")
