"""Arm's KleidiAI, which torchlike does not call."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether PyTorch's Arm's KleidiAI is there: no."""
    return False
