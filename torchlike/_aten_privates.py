"""Private functions that PyTorch has in ``torch`` for the aten calls of their names (``root_names.ATEN_PRIVATES``)."""

from collections.abc import Callable
from typing import Any

from torchlike._aten.packets import ops
from torchlike.interop.root_names import ATEN_PRIVATES


def __getattr__(name: str) -> Callable[..., Any]:
    """The private function of this name.

    >>> import torchlike as torch
    >>> torch._addmm_activation(torch.ones(1), -torch.ones(2, 2), torch.ones(2, 1)).tolist()
    [[0.0], [0.0]]
    """
    if name not in ATEN_PRIVATES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    packet = getattr(ops.aten, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return packet(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "torch"
    return function
