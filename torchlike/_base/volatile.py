"""Functions that give other values from call to call, or change what they are given: compiled functions note none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

NAMES: set[str] = set()  # a method has one name under several classes


def volatile(function: F) -> F:
    """Mark ``function``: a compiled function that calls it, or another of this package of its name, runs in pieces."""
    NAMES.add(function.__name__)
    return function
