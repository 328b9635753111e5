"""torch._C._functions: the classes of nodes that belong to no operator, and functions that make such."""

from typing import Any

from torchlike._core.autograd.node import AccumulateGrad
from torchlike.autograd.function import Function

__all__ = ["AccumulateGrad", "UndefinedGrad"]


class _Undefined(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> None:
        return None


class UndefinedGrad:
    """The tensor itself, whose gradient goes back as None.

    >>> import torchlike as torch
    >>> torch._C._functions.UndefinedGrad()(torch.ones(1))
    tensor([1.])
    """

    def __call__(self, x: Any) -> Any:
        return _Undefined.apply(x)
