"""torch.utils._contextlib: context managers that decorate too, entered anew at each call."""

from collections.abc import Callable
from typing import Any

from torchlike._base.state import Context, decorate
from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)

_DecoratorContextManager = Context


class _NoParamDecoratorContextManager(Context):
    """One that takes no arguments: given a function it decorates that, so parentheses may be left out."""

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


def context_decorator(ctx: Any, func: Callable) -> Callable:
    """``func``, each call of which runs under ``ctx``: a context manager, or a function that makes one.

    AssertionError for what is both, as ``torch.no_grad`` is. TypeError for neither.

    >>> import torchlike as torch
    >>> from torchlike.utils._contextlib import context_decorator
    >>> context_decorator(lambda: torch.no_grad(), torch.is_grad_enabled)()
    False
    """
    is_context = hasattr(ctx, "__enter__")
    if is_context and callable(ctx):
        raise AssertionError(
            f"Passed in {ctx} is both callable and also a valid context manager (has __enter__), making it ambiguous "
            "which interface to use: give a lambda"
        )
    if not is_context and not callable(ctx):
        raise TypeError(
            f"context_decorator(): {type(ctx).__name__!r} object does not support the context manager protocol"
        )
    return decorate((lambda: ctx) if is_context else ctx, func)
