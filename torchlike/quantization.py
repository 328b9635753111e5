"""torch.quantization: the old place of ``torch.ao.quantization``."""

from torchlike.ao.quantization import *  # noqa: F403
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)
