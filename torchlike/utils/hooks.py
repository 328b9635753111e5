"""Handles of hooks, and what is said of hooks that do not travel with a tensor."""

from collections.abc import Callable

from torchlike._core.autograd.hooks import RemovableHandle, warn_if_has_hooks

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Callable) -> Callable:
    """Mark a hook, so that :func:`warn_if_has_hooks` passes over it; also a decorator.

    >>> import torchlike as torch
    >>> hook = torch.utils.hooks.unserializable_hook(lambda grad: None)
    """
    f.__torch_unserializable__ = True
    return f
