"""The names of 64-bit types in 32-bit mode (``JAX_ENABLE_X64=0``): the types that stand for them, with a warning."""

from typing import Any

from torchlike._base.dtypes import ALIASES, WIDE_NAMES
from torchlike._base.once import asked_for


def __getattr__(name: str) -> Any:
    if name not in WIDE_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    asked_for(f"torch.{name}")
    return ALIASES[name]
