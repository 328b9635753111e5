"""Switches of MIOpen, which torchlike does not call."""

from torchlike.backends._flags import flags as _flags
from torchlike.backends._flags import set_flags as _set_flags
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

immediate = False
flags = _flags(globals(), ("immediate",))
set_flags = _set_flags(globals(), ("immediate",))
