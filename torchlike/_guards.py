"""torch._guards: which fake mode a call would run under."""

from __future__ import annotations

from typing import Any

from torchlike._base.state import state
from torchlike._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torchlike.interop.refusing import refusing
from torchlike.utils._pytree import tree_leaves

__getattr__ = refusing(__name__, "not in torchlike yet")


def active_fake_mode() -> FakeTensorMode | None:
    """The innermost fake mode of this thread, None where there is none.

    >>> import torchlike as torch
    >>> from torchlike._guards import active_fake_mode
    >>> active_fake_mode() is None
    True
    """
    modes = [mode for mode in state.dispatch_modes if isinstance(mode, FakeTensorMode)]
    return modes[-1] if modes else None


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The one fake mode that is on, or that tensors among ``inputs`` are of; AssertionError where there are several."""
    active = active_fake_mode()
    found = [("active fake mode", active)] if active is not None else []
    tensors = [x for x in tree_leaves(inputs) if isinstance(x, FakeTensor)]
    found += [(f"fake tensor input {place}", x.fake_mode) for place, x in enumerate(tensors)]
    if not found:
        return None
    source, one = found[0]
    for name, mode in found:
        if mode is not one:
            raise AssertionError(f"fake mode ({one}) from {source} doesn't match mode ({mode}) from {name}")
    return one
