"""Questions about several modes at once."""

from collections.abc import Iterable
from typing import Any

from torchlike._aten.python_dispatch import DisableTorchDispatch

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Iterable[Any]) -> bool:
    """Whether all modes are equal.

    >>> from torchlike.utils._mode_utils import all_same_mode
    >>> all_same_mode([1, 1]), all_same_mode([1, 2])
    (True, False)
    """
    first, *rest = modes
    return all(mode == first for mode in rest)


def no_dispatch() -> Any:
    """A context in which no mode and no class has a ``__torch_dispatch__``."""
    return DisableTorchDispatch()
