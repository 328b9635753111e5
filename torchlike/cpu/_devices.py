"""There is one CPU; these exist so that code which asks about a device can ask about it."""

from typing import Any

import jax

from torchlike._executor import value_checks


def is_available() -> bool:
    """True: there is a CPU."""
    return True


def is_initialized() -> bool:
    """True: it is ready."""
    return True


def device_count() -> int:
    """1, as PyTorch counts it."""
    return 1


def current_device() -> str:
    """The text "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing to choose."""


def synchronize(device: Any = None) -> None:
    """Wait until the CPU has finished what was launched."""
    for array in jax.live_arrays("cpu"):
        array.block_until_ready()
    value_checks.told()
