"""torch.func: transforms of functions."""

from torchlike.func._jvp import jvp as jvp
from torchlike.func._vmap import vmap as vmap
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

__all__ = ["jvp", "vmap"]
