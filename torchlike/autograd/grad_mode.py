"""Grad modes under torch's module path."""

from torchlike._base.state import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from torchlike._core.autograd.view_tracking import _force_original_view_tracking, _unsafe_preserve_version_counter

__all__ = [
    "_force_original_view_tracking",
    "_unsafe_preserve_version_counter",
    "enable_grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]
