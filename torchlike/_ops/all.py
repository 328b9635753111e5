"""Every family of operators."""

from torchlike._ops import arithmetic, cast, matmul, minmax, reduce, shape, view

__all__ = ["arithmetic", "cast", "matmul", "minmax", "reduce", "shape", "view"]
