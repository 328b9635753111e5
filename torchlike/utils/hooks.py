"""Handles of hooks, and what is said of hooks that do not travel with a tensor."""

import warnings
from collections.abc import Callable
from typing import Any

from torchlike._core.hooks import RemovableHandle
from torchlike._core.tensor import Tensor

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable) -> Callable:
    """Mark a hook, so that :func:`warn_if_has_hooks` passes over it; also a decorator.

    >>> import torchlike as torch
    >>> hook = torch.utils.hooks.unserializable_hook(lambda grad: None)
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on the tensor that :func:`unserializable_hook` has not marked: hooks are not serialized."""
    hooks: dict[Any, Callable] = tensor._backward_hooks or {}
    for hook in hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, decorate the function "
                "with @torch.utils.hooks.unserializable_hook, and this warning is not given.",
                stacklevel=2,
            )
