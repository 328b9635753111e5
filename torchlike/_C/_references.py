"""References to tensors that do not keep them alive."""

import weakref
from typing import Any

from torchlike._core.tensor.tensor import Tensor


class _WeakTensorRef:
    """A weak reference to a tensor, which tells only whether it is still there.

    >>> import torchlike as torch
    >>> x = torch.ones(2)
    >>> ref = torch._C._WeakTensorRef(x)
    >>> ref.expired()
    False
    >>> del x
    >>> ref.expired()
    True
    """

    __slots__ = ("_ref",)

    def __init__(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"_WeakTensorRef(): a tensor expected, got {type(tensor).__name__}")
        self._ref = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._ref() is None
