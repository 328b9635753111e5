"""Switches of cuDNN. XLA chooses its own algorithms, so setting them changes nothing."""

from typing import Any

from torchlike.backends._flags import flags as _flags
from torchlike.backends._flags import set_flags as _set_flags
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"

_NAMES = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision")
flags = _flags(globals(), _NAMES)
set_flags = _set_flags(globals(), _NAMES)


def is_available() -> bool:
    """Whether PyTorch's cuDNN is there: never."""
    return False


def version() -> None:
    """The version of PyTorch's cuDNN: none."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether PyTorch's cuDNN would be given a tensor: no."""
    return False
