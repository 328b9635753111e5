"""Custom functions under autocast: forward and backward in the same state of it."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torchlike._base.dtypes import dtype
from torchlike._core.autocast.context import autocast
from torchlike._core.autocast.layer import cast, eligible
from torchlike._core.autocast.settings import get_autocast_dtype, is_autocast_enabled, kind_of
from torchlike._core.tensor.tensor import Tensor


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: dtype | None = None) -> Callable:
    """A decorator of the ``forward`` of a :class:`torch.autograd.Function` that is to work under autocast.

    Without ``cast_inputs`` forward runs in the autocast that is on around the call. With it, floating tensors among the
    arguments, also in tuples, lists and dicts, are cast to that dtype (float64 ones are not) and forward runs with
    autocast off; where it is off already nothing happens. Backward, decorated with :func:`custom_bwd`, then runs in the
    same state. ValueError for a ``device_type`` that is no text.

    >>> import torchlike as torch
    >>> class Product(torch.autograd.Function):
    ...     @staticmethod
    ...     @torch.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, a, b):
    ...         ctx.save_for_backward(a, b)
    ...         return a.mm(b)
    ...     @staticmethod
    ...     @torch.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         a, b = ctx.saved_tensors
    ...         return grad.mm(b.t()), a.t().mm(grad)
    >>> a = torch.ones(2, 2, requires_grad=True)
    >>> with torch.autocast("cpu"):
    ...     y = Product.apply(a, a)
    >>> y.dtype
    torch.bfloat16
    >>> y.sum().backward()
    """
    _demand_text(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        on = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if not on or cast_inputs is None:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            kind = kind_of("custom_fwd", device_type)
            return fwd(ctx, *all_cast(args, kind, cast_inputs), **all_cast(kwargs, kind, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """A decorator of the ``backward`` of a :class:`torch.autograd.Function`: it runs in the autocast of forward.

    Forward is to be decorated with :func:`custom_fwd`, where there is an example; AttributeError in backward where it
    is not. ValueError for a ``device_type`` that is no text.
    """
    _demand_text(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _demand_text(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def all_cast(value: Any, kind: str, target: dtype) -> Any:
    """``value`` with the floating tensors in it cast."""
    if isinstance(value, Tensor):
        return cast(value, target) if eligible(value, kind) else value
    if isinstance(value, str | np.ndarray):
        return value
    if isinstance(value, Mapping):
        return {all_cast(k, kind, target): all_cast(v, kind, target) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [all_cast(v, kind, target) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _cast(value: Any, device_type: str, dtype: dtype) -> Any:
    """``value`` with the floating tensors of that device in it cast, also in tuples, lists and dicts.

    >>> import torchlike as torch
    >>> torch.amp.autocast_mode._cast((torch.ones(1), 2), "cpu", torch.bfloat16)
    (tensor([1.], dtype=torch.bfloat16), 2)
    """
    return all_cast(value, kind_of("_cast", device_type), dtype)


__all__ = ["all_cast", "custom_bwd", "custom_fwd"]
