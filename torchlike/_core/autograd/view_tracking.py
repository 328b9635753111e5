"""Contexts that change how autograd watches in-place changes and views."""

from __future__ import annotations

from typing import Any

from torchlike._base.state import Switch, state
from torchlike._base.volatile import volatile
from torchlike._core.tensor.mutation import restore_version
from torchlike._core.tensor.tensor import Tensor


class _unsafe_preserve_version_counter:
    """After this context the tensors have the version that they had before it.

    Autograd then does not notice what was changed in place: a wrong gradient is the caller's.
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        if not isinstance(self.tensors, tuple):
            raise AssertionError(f"Expected tensors to be a tuple (or one tensor), not {type(tensors).__name__}")
        self._versions = tuple(t._version for t in self.tensors)

    def __enter__(self) -> None:
        """The versions were read when the context was made."""

    def __exit__(self, *exc: object) -> None:
        for t, version in zip(self.tensors, self._versions, strict=True):
            restore_version(t, version)


class _force_original_view_tracking(Switch):
    """Set how views are replayed after an in-place change; torchlike replays them in one way, with the same results."""

    __slots__ = ()
    _flag = "view_replay"

    def __call__(self, target: Any) -> Any:
        state.view_replay = self.prev
        return super().__call__(target)


@volatile
def is_view_replay_enabled() -> bool:
    """Whether view replay was asked for in this thread."""
    return state.view_replay
