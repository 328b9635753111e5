"""``torch._tensor``: the import path of Tensor, and what pickles of its subclasses call."""

from collections.abc import Callable
from typing import Any

from torchlike._core.autograd.fields import mark
from torchlike._core.tensor.tensor import Tensor, alias
from torchlike._utils import _set_obj_state


def _rebuild_from_type_v2(func: Callable[..., Tensor], new_type: type, args: tuple, state: Any) -> Any:
    """What ``func(*args)`` gives, as ``new_type``, with the attributes that a pickle kept."""
    made = func(*args)
    if type(made) is not new_type:
        requires_grad = made.requires_grad
        made = alias(made, new_type)
        if requires_grad:
            mark(made, True)
    if hasattr(type(made), "__setstate__"):
        made.__setstate__(state)
        return made
    return _set_obj_state(made, state)


__all__ = ["Tensor", "_rebuild_from_type_v2"]
