"""Grad modes under torch's module path."""

from torchlike._base.state import enable_grad, no_grad, set_grad_enabled

__all__ = ["enable_grad", "no_grad", "set_grad_enabled"]
