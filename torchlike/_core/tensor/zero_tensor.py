"""Tensors of ``torch._efficientzerotensor()``: zeros that say so until they are changed."""

from typing import Any

from torchlike._core.tensor.mutation import extras_of
from torchlike._core.tensor.tensor import Tensor


def marked(t: Tensor) -> Tensor:
    """``t``, whose numbers are 0, as a zero tensor."""
    extras_of(t)["zero"] = getattr(t._vc, "version", 0)
    return t


def is_zero(t: Any) -> bool:
    """Whether ``t`` was made as a zero tensor and is what it was."""
    return isinstance(t, Tensor) and t._is_zerotensor()
