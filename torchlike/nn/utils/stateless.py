"""Modules called with other tensors: the older name of ``torch.func.functional_call``."""

import warnings
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike._functions import functional_call as _calls
from torchlike.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call ``module`` with the given tensors in the place of its own.

    Deprecated: ``torch.func.functional_call`` does the same, and has the arguments and errors.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
        "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _calls.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


_reparametrize_module = _calls.reparametrized
