"""Lengths that a program takes as they come, ``x.shape[0]`` while it is exported: ranges up to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.export import is_symbolic_dim

import torchlike._base.dtypes as dtypes
from torchlike._core.tensor.tensor import Tensor

_ANSWERED = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__pow__")


def symbolic_range(start: Any, end: Any, step: Any, kind: dtypes.dtype) -> jax.Array:
    """``arange`` of whole numbers of which some are symbolic lengths."""
    for name, n in (("start", start), ("end", end), ("step", step)):
        if type(n) is not int and not is_symbolic_dim(n):
            raise TypeError(f"arange(): argument '{name}' must be int beside a dynamic length, not {type(n).__name__}")
    if type(step) is not int or not step:
        raise RuntimeError(f"arange(): step must be nonzero and known where a length is dynamic, not {step}")
    count = (end - start + step - 1) // step if step > 0 else (start - end - step - 1) // -step
    places = lax.broadcasted_iota(dtypes.int64.np, (count,), 0)
    return (places * step + jnp.asarray(start, dtypes.int64.np)).astype(kind.np)


@cache
def leave_to_tensors(symbol: type) -> None:
    """Operators whose left operand is a symbol of this class of jax's are a tensor's where the right one is a tensor.

    jax answers itself: ``n == x`` is False, as a comparison that fails may not raise where symbols are hashed.
    """
    for name in _ANSWERED:
        setattr(symbol, name, _unless_tensor(getattr(symbol, name)))


def _unless_tensor(method: Callable) -> Callable:
    @wraps(method)
    def operator(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tensor) else method(self, other)

    return operator
