"""The types that signatures share; see ``torchlike._decl.typed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

# Recorded calls: (kernel, key, new inputs, results, point of the trie, number of slots behind it) each.
Calls: TypeAlias = Sequence[tuple[Any, ...]]
# From an equation of a jaxpr to the name and the parameters of a step.
Rule: TypeAlias = Callable[[Any], tuple[str, tuple[Any, ...]]]


class Settles(Protocol):
    """Who computes a value that is pending."""

    def settle(self, value: Any) -> object: ...


class HasValue(Protocol):
    """What holds a value that may be overwritten."""

    value: Any
