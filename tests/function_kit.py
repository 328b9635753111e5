"""Custom functions for tests, of either library, and what is compared of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def function(t: Any, forward: Callable, backward: Callable | None = None, setup: Callable | None = None, **more) -> Any:
    """A subclass of ``t.autograd.Function`` called MyFn, with these static methods and class attributes."""
    methods = {"forward": forward, "backward": backward, "setup_context": setup}
    given = {name: staticmethod(f) for name, f in methods.items() if f is not None}
    return type("MyFn", (t.autograd.Function,), {**given, **more})


def doubled(t: Any) -> Any:
    """``a * 2`` whose backward multiplies by 3."""
    return function(t, lambda ctx, a: a * 2, lambda ctx, g: g * 3)


def doubled_in_place(t: Any) -> Any:
    """Doubles its argument in place; the derivative it gives is 2."""

    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    return function(t, forward, lambda ctx, g: g * 2)


def leaf(t: Any, *values: float) -> Any:
    """A vector that requires grad, (1, 2) unless told otherwise."""
    return t.tensor(values or (1.0, 2.0), requires_grad=True)


def facts(y: Any) -> tuple:
    """What autograd knows of a tensor."""
    return y.detach(), y.requires_grad, y.is_leaf, y._is_view(), y.grad_fn, y.output_nr, y._version


def last(*values: Any) -> Any:
    """The last of ``values``: for expressions that must do something else on the way."""
    return values[-1]


def told(f: Callable) -> Any:
    """The result of ``f()``, or the type and the message of its error, in words that both libraries share."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__, str(error).replace("torchlike", "torch")
