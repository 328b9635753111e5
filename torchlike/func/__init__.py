"""torch.func: transforms of functions."""

from torchlike._functions.functional_call import functional_call as functional_call
from torchlike.func._ensemble import debug_unwrap as debug_unwrap
from torchlike.func._ensemble import stack_module_state as stack_module_state
from torchlike.func._functionalize import functionalize as functionalize
from torchlike.func._grad import grad as grad
from torchlike.func._grad import grad_and_value as grad_and_value
from torchlike.func._grad import vjp as vjp
from torchlike.func._jacobians import hessian as hessian
from torchlike.func._jacobians import jacfwd as jacfwd
from torchlike.func._jacobians import jacrev as jacrev
from torchlike.func._jvp import jvp as jvp
from torchlike.func._linearize import linearize as linearize
from torchlike.func._vmap import vmap as vmap
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(
    __name__, {"rearrange": "_rearrange", "replace_all_batch_norm_modules_": "_batch_norm"}
)

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
