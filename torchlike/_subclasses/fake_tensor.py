"""PyTorch's fake tensors: nothing here is one."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.interop.alias import missing_names

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

__getattr__ = missing_names(__name__)

_WHY = "torchlike computes shapes with tensors on the device meta: torch.empty(2, device='meta')"


class FakeTensor(Tensor):
    """NotImplementedError when called; no tensor is an instance."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch._subclasses.FakeTensor: {_WHY}")


class FakeTensorMode:
    """NotImplementedError when called."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch._subclasses.FakeTensorMode: {_WHY}")


def is_fake(x: Any) -> bool:
    """Whether something is a fake tensor: no.

    >>> import torchlike as torch
    >>> torch._subclasses.fake_tensor.is_fake(torch.ones(2))
    False
    """
    return False
