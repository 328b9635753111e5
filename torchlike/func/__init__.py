"""torch.func: transforms of functions."""

from torchlike._functions.functional_call import functional_call as functional_call
from torchlike.func._jvp import jvp as jvp
from torchlike.func._vmap import vmap as vmap
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)

__all__ = ["functional_call", "jvp", "vmap"]
