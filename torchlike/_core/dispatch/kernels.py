"""Functions of arrays as functions of tensors, each one compiled kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlike._core.dispatch.dispatch import call
from torchlike._decl.derive import Derived

if TYPE_CHECKING:
    from torchlike._core.tensor.tensor import Tensor


def kernel(family: str, node: str) -> Callable[[Callable[..., Any]], Callable[..., Tensor]]:
    """The decorator that makes a function of arrays one of tensors; derivatives are jax's.

    ``family``: tells its name from those of others. ``node``: what the nodes of its calls are called.
    """

    def made(function: Callable[..., Any]) -> Callable[..., Tensor]:
        name = f"{family} {function.__name__.strip('_')}"
        op = Derived(name, node, function, (name,))
        return functools.wraps(function)(lambda *tensors: call(op, tensors, ()))

    return made
