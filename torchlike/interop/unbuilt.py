"""Modules of PyTorch that programs import and few use: their names are classes that refuse to be called.

While this package stands in for torch, ``from torch.package import PackageExporter`` works, nothing is an instance of
that class, and calling it raises NotImplementedError with its name. Which modules PyTorch has, and which names the
public ones have, says ``their_names.txt``; private modules have every name that is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from torchlike._base.home import OURS, THEIRS
from torchlike.interop.former import HOME, home_of
from torchlike.interop.refusing import refusing
from torchlike.interop.their_names import their_modules, their_parents


def stands(place: str) -> bool:
    """Whether PyTorch has a module of this name, which then stands under the alias, built or not.

    >>> from torchlike.interop.unbuilt import stands
    >>> stands("torch.package"), stands("torch._six")
    (True, False)
    """
    return place in their_modules()


def open_up(module: ModuleType, name: str) -> None:
    """Let a file of ours that is a package in PyTorch have parts: what the file holds, and the rest refuses."""
    if not hasattr(module, "__path__") and THEIRS + name[len(OURS) :] in their_parents():
        module.__path__ = []


class Finder(MetaPathFinder, Loader):
    """Finds PyTorch's modules that are not here, after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = THEIRS + fullname[len(OURS) :] if fullname.startswith(f"{OURS}.") else ""
        if not stands(place) or callable(_beside(fullname)):  # a function would be lost under the module
            return None
        return ModuleSpec(fullname, Finder(), is_package=True)  # each its own loader: the alias wraps it

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        place = THEIRS + module.__name__[len(OURS) :]
        module.__doc__ = f"{place}: names alone; what they stand for is not in {OURS} yet."
        refused = refusing(module.__name__, f"not in {OURS} yet")
        parent, _, part = module.__name__.rpartition(".")
        home = home_of(sys.modules[parent], part)
        module.__dict__.update({HOME: home} if home else {})

        def __getattr__(name: str) -> Any:
            shared = home is not None and not name.startswith("_") and hasattr(home, name)
            return getattr(home, name) if shared else refused(name)

        module.__dict__["__getattr__"] = __getattr__


def _beside(fullname: str) -> Any:
    """What the parent of a module has under its name already."""
    parent, _, name = fullname.rpartition(".")
    return vars(sys.modules[parent]).get(name) if parent in sys.modules else None


FINDER = Finder()
