"""Switches of oneDNN, which torchlike does not call."""

from torchlike.backends._flags import flags as _flags
from torchlike.backends._flags import set_flags as _set_flags
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"

_NAMES = ("enabled", "deterministic", "allow_tf32", "fp32_precision")
flags = _flags(globals(), _NAMES)
set_flags = _set_flags(globals(), _NAMES)


def is_available() -> bool:
    """Whether PyTorch's oneDNN is there: no."""
    return False


def is_acl_available() -> bool:
    """Whether Arm's library is there: no."""
    return False
