"""Where what is no operator call (factories, ``detach``, ``item``) is shown to a ``__torch_dispatch__``.

Callers ask ``state.dispatch_modes`` first (and, given a tensor, whether it is a plain one): with no mode active
they pay for that alone.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from inspect import signature
from typing import Any

from torchlike._base import device as devices
from torchlike._base.state import state
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.tensor import alias

_NOTHING = nullcontext()


def redispatch(name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of the aten call ``name``, as the modes and subclasses give it."""
    return DISPATCH.show(name, args, {k: v for k, v in kwargs.items() if v is not None})


def made(name: str, *args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> Any:
    """A factory call: as :func:`redispatch`, with the device spelt out."""
    device = devices.default_device() if device is None else devices.as_device(device)
    return flagged(redispatch(name, *args, **kwargs, device=device, pin_memory=False), requires_grad)


def flagged(t: Any, requires_grad: bool) -> Any:
    """A new tensor that requires grad if asked to."""
    if requires_grad:
        t.requires_grad_(True)
    return t


def one_call(name: str = "", results: Any = None) -> Callable[[Callable], Callable]:
    """A decorator: what a function calls is one call to modes, of the aten operator ``name`` (its own by default).

    Its parameters are those of the operator, in their order. ``results``: the class of its tuple, if that has names.
    """

    def decorate(function: Callable) -> Callable:
        order = signature(function)

        @wraps(function)
        def shown(*args: Any, **kwargs: Any) -> Any:
            if not state.dispatch_modes or kwargs.get("out") is not None:
                return function(*args, **kwargs)
            try:
                bound = order.bind(*args, **kwargs)
            except TypeError:
                return function(*args, **kwargs)
            bound.arguments.pop("out", None)
            out = whole(name or function.__name__, function, *bound.args, **bound.kwargs)
            return out if results is None or isinstance(out, results) else results(out)

        return shown

    return decorate


def whole(name: str, function: Callable, *args: Any, **kwargs: Any) -> Any:
    """``function(*args, **kwargs)``, whose calls modes see as one, of the aten operator ``name``."""
    return DISPATCH.whole(name, function, args, kwargs) if state.dispatch_modes else function(*args, **kwargs)


def as_calls(calls: Callable) -> Callable[[Callable], Callable]:
    """A decorator: modes see of a function what ``calls(aten, *args)`` calls, which gives the same numbers."""

    def decorate(function: Callable) -> Callable:
        @wraps(function)
        def shown(*args: Any) -> Any:
            return DISPATCH.as_calls(calls, function, args) if state.dispatch_modes else function(*args)

        return shown

    return decorate


def apart(t: Any) -> Any:
    """``t`` without its history, which modes are not shown."""
    return alias(t) if state.dispatch_modes and not state.levels and type(t) in KIND else t.detach()


def announced(name: str, t: Any, *args: Any) -> Any:
    """A context for an in-place change of ``t`` that is no operator call: modes see ``name``, and are off within."""
    return DISPATCH.announce(name, t, *args) if state.dispatch_modes else _NOTHING


def watched(t: Any) -> bool:
    """Whether a call on ``t`` is to be shown: a mode is active, or its class has a ``__torch_dispatch__``."""
    return bool(state.dispatch_modes) or subclassed(t)


def subclassed(t: Any) -> bool:
    """Whether the class of ``t`` has a ``__torch_dispatch__``."""
    cls = type(t)
    return cls not in KIND and DISPATCH.takes(cls)


__all__ = ["announced", "as_calls", "flagged", "made", "one_call", "redispatch", "subclassed", "watched", "whole"]
