"""The backward graph as users see it."""

from torchlike._core.node import Node

__all__ = ["Node"]
