"""Intel's MKL, which torchlike does not call."""

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def is_available() -> bool:
    """Whether PyTorch's Intel's MKL is there: no."""
    return False


VERBOSE_OFF, VERBOSE_ON = 0, 1
