"""The functions of the package ``functorch``, each of which warns of its successor."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

from torchlike import func
from torchlike._functorch import make_functional as old
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def _warned(name: str, function: Callable, successor: str) -> Callable:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"We've integrated functorch into PyTorch. `functorch.{name}` is deprecated as of PyTorch 2.0 and will be "
            f"deleted in a future version. Please use `{successor}` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    return wrapper


vmap = _warned("vmap", func.vmap, "torch.vmap")
grad = _warned("grad", func.grad, "torch.func.grad")
grad_and_value = _warned("grad_and_value", func.grad_and_value, "torch.func.grad_and_value")
vjp = _warned("vjp", func.vjp, "torch.func.vjp")
jvp = _warned("jvp", func.jvp, "torch.func.jvp")
jacrev = _warned("jacrev", func.jacrev, "torch.func.jacrev")
jacfwd = _warned("jacfwd", func.jacfwd, "torch.func.jacfwd")
hessian = _warned("hessian", func.hessian, "torch.func.hessian")
functionalize = _warned("functionalize", func.functionalize, "torch.func.functionalize")
make_functional = _warned("make_functional", old.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _warned(
    "make_functional_with_buffers", old.make_functional_with_buffers, "torch.func.functional_call"
)
combine_state_for_ensemble = _warned(
    "combine_state_for_ensemble", old.combine_state_for_ensemble, "torch.func.stack_module_state"
)
