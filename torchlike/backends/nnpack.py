"""NNPACK, which torchlike does not call."""

from torchlike.backends._flags import flags as _flags
from torchlike.backends._flags import set_flags as _set_flags
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

enabled = False
flags = _flags(globals(), ("enabled",))
set_flags = _set_flags(globals(), ("enabled",))


def is_available() -> bool:
    """Whether PyTorch's NNPACK is there: no."""
    return False
