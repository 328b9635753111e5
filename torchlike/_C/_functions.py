"""torch._C._functions: the classes of nodes that belong to no operator."""

from torchlike._core.node import AccumulateGrad

__all__ = ["AccumulateGrad"]
