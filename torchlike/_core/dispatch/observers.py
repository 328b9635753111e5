"""Where what is no operator call (factories, ``detach``, ``item``) is shown to a ``__torch_dispatch__``.

Callers ask ``state.dispatch_modes`` first (and, given a tensor, whether it is a plain one): with no mode active
they pay for that alone.
"""

from contextlib import nullcontext
from typing import Any

from torchlike._base import device as devices
from torchlike._base.state import state
from torchlike._core.dispatch.layers import DISPATCH
from torchlike._core.tensor.arguments import KIND

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


__all__ = ["announced", "flagged", "made", "redispatch", "subclassed", "watched"]
