"""The names of nodes that follow from those of operators, and what PyTorch has operators for in backward."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel


def node_of_backward(kernel: Kernel) -> str:
    """The node of a backward kernel: PyTorch names that of its own operator, where one gives all gradients."""
    named = getattr(kernel.declaration, "backward", None)
    if isinstance(named, dict) and len(named) == 1:
        text = next(iter(named.values()))[0]
        text = getattr(text, "whole", text)  # a function that is this one call
        if isinstance(text, str):
            return camel(text.partition("(")[0]) + "Backward"
    return kernel.node + "Backward"


def camel(name: str) -> str:
    """An operator's name as the names of nodes write it."""
    parts = [part[:1].upper() + part[1:] for part in name.split("_")]
    return re.sub(r"\d[a-z]", lambda m: m[0].upper(), "".join(parts))


def is_composed(backward: Any) -> bool:
    """Whether PyTorch composes a derivative of operators, and has no operator for the whole."""
    if not isinstance(backward, dict):
        return backward is None
    return all([callable(text) and not hasattr(text, "whole") for text, _ in backward.values()])
