"""torch.accelerator: the GPU or TPU that jax has, if any."""

from typing import Any

import jax

import torchlike._base.device as devices
from torchlike.interop.alias import missing_names

__all__ = ["current_accelerator", "current_device_index", "device_count", "is_available", "synchronize"]

__getattr__ = missing_names(__name__)

_KINDS = {"gpu": "cuda", "tpu": "xla"}


def _kind() -> str | None:
    platform = jax.default_backend()
    return _KINDS.get(platform)


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


def synchronize(device: Any = None, /) -> None:
    """Wait until all accelerators have finished what was launched. RuntimeError without one."""
    _demand()
    for array in jax.live_arrays():
        array.block_until_ready()
