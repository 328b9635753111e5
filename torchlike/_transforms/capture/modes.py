"""The modes that a function can leave otherwise than it found them, which a program would do in its first call only."""

from __future__ import annotations

from torchlike._base import dtypes
from torchlike._base.state import state
from torchlike._core.autocast.settings import autocast_state
from torchlike._core.tensor import printing
from torchlike._decl import settings

_FLAGS = {
    "grad": "the grad mode",
    "dispatch_grad": "the grad mode",
    "inference": "inference mode",
    "pack": "hooks on saved tensors",
    "pack_refused": "hooks on saved tensors",
    "function_modes": "a mode",
    "dispatch_modes": "a mode",
    "overrides_off": "overrides",
    "levels": "a function transform",
    "multithreading": "the threads of backward",
    "view_replay": "the replay of views",
}


class Modes:
    """The modes of this thread, and the process's that operators follow, as they are."""

    def __init__(self) -> None:
        self.flags, self.active = {name: getattr(state, name) for name in _FLAGS}, state.active
        self.autocast, self.dtype = autocast_state()[:3], dtypes.get_default_dtype()
        self.printing = printing.get_printoptions()

    def left(self) -> str | None:
        """What is not as it was, if anything is."""
        for name, before in self.flags.items():
            if getattr(state, name) != before:
                return _FLAGS[name]
        if autocast_state()[:3] != self.autocast:
            return "autocast"
        if dtypes.get_default_dtype() is not self.dtype:
            return "the default dtype"
        return None if printing.get_printoptions() == self.printing else "how tensors are printed"

    def restore(self) -> None:
        """Let them be as they were; autocast is the capture's own care."""
        for name, before in self.flags.items():
            setattr(state, name, before)
        state.active = self.active
        if dtypes.get_default_dtype() is not self.dtype:
            settings.set_default_dtype(self.dtype)
        if printing.get_printoptions() != self.printing:
            printing.set_printoptions(**self.printing)


__all__ = ["Modes"]
