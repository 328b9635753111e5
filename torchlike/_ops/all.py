"""Every family of operators."""

from torchlike._ops import arithmetic, cast, shape, view

__all__ = ["arithmetic", "cast", "shape", "view"]
