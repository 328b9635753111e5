"""The names of nodes that follow from those of operators."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
