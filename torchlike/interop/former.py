"""Modules that PyTorch has moved: under their former name stands what is under the new one."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

HOME = "__home__"  # under which a module says where its names are


def former(home: ModuleType, into: dict[str, Any]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with the namespace ``into``, whose names are those of ``home``.

    >>> import torchlike as torch
    >>> torch.quantization.MinMaxObserver is torch.ao.quantization.MinMaxObserver
    True
    """
    into[HOME] = home

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {into['__name__']!r} has no attribute {name!r}", name=name)
        return getattr(home, name)

    return __getattr__


def home_of(parent: ModuleType, part: str) -> ModuleType | None:
    """The module that holds the names of a part of ``parent`` that has no file; None if there is none.

    What PyTorch has in ``modules`` and in the files of it stands in the package, too.
    """
    home = vars(parent).get(HOME)
    if home is None:
        return parent if part == "modules" or not getattr(parent, "__path__", True) else None
    inner = vars(home).get(part)
    return inner if isinstance(inner, ModuleType) and hasattr(inner, "__file__") else home
