"""torch._C._functions: the classes of nodes that belong to no operator."""

from torchlike._core.autograd.node import AccumulateGrad

__all__ = ["AccumulateGrad"]
