"""torch.mtia: Meta's accelerators, on which jax does not work."""

from torchlike.interop.alias import missing_names

__all__ = ["device_count", "is_available", "is_initialized"]

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether there is such a device: no."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def is_initialized() -> bool:
    """Whether one is in use: no."""
    return False
