"""PyTorch's private functions, which ``torch`` has under the names that they have as aten calls."""

from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import ops


def find(name: str) -> Callable[..., Any] | None:
    """The private function of this name, or None.

    >>> import torchlike as torch
    >>> torch._addmm_activation(torch.ones(1), -torch.ones(2, 2), torch.ones(2, 1)).tolist()
    [[0.0], [0.0]]
    """
    packet = getattr(ops.aten, name, None) if name.startswith("_") else None
    if packet is None:
        return None

    def function(*args: Any, **kwargs: Any) -> Any:
        return packet(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "torch"
    return function
