"""Handles of hooks, under torch's module path."""

from torchlike._core.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
