"""torch.fx._compatibility: a mark that PyTorch puts on its functions."""

from collections.abc import Callable
from typing import Any

from torchlike.interop.alias import missing_names

__getattr__ = missing_names(__name__)


def compatibility(is_backward_compatible: bool) -> Callable[[Any], Any]:
    """A decorator that leaves a function or class as it is."""
    return lambda fn: fn
