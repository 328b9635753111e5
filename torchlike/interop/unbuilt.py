"""Parts of PyTorch that programs import and few use: their names are classes that refuse to be called.

While this package stands in for torch, ``from torch.distributed.fsdp import FullyShardedDataParallel`` works, nothing
is an instance of that class, and calling it raises NotImplementedError with its name. The names are PyTorch's, from
``their_names.txt``; private modules have every name that is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from torchlike.interop.refusing import PROBES, refused_class
from torchlike.interop.their_names import is_theirs, their_names

_OURS, _THEIRS = __name__.partition(".")[0], "torch"
PLACES = tuple([
    f"torch.distributed.{part}"
    for part in ("_composable", "_functional_collectives", "_shard", "_tensor", "algorithms", "checkpoint",
                 "device_mesh", "elastic", "fsdp", "optim", "pipelining", "tensor")
])  # fmt: skip
"""The modules that stand with everything below them, where there is no module of ours."""

_made: dict[str, type] = {}


def refused(place: str, name: str) -> type:
    """The class of a name: one for each name, wherever it is imported from.

    >>> from torchlike.interop.unbuilt import refused
    >>> refused("torch.distributed.fsdp", "FullyShardedDataParallel")()
    Traceback (most recent call last):
    NotImplementedError: torch.distributed.fsdp.FullyShardedDataParallel: not in torchlike yet
    """

    if name not in _made:
        _made[name] = refused_class(f"{place}.{name}", name, place, f"not in {_OURS} yet")
    return _made[name]


def names_of(place: str) -> Callable[[str], type]:
    """A module-level ``__getattr__`` that gives PyTorch's names of a module as classes that refuse."""

    def __getattr__(name: str) -> type:
        if name.startswith("__") or name in PROBES or is_theirs(place, name) is False:
            raise AttributeError(f"module {place!r} has no attribute {name!r}", name=name, obj=sys.modules.get(place))
        return refused(place, name)

    return __getattr__


class Finder(MetaPathFinder, Loader):
    """Finds the modules of ``PLACES`` below this package, after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = _THEIRS + fullname[len(_OURS) :] if fullname.startswith(f"{_OURS}.") else ""
        part = next((part for part in PLACES if place == part or place.startswith(f"{part}.")), None)
        private = part is not None and any(p.startswith("_") for p in place.split("."))
        if part is None or not (private or place in their_names() or place == part):
            return None
        return ModuleSpec(fullname, Finder(), is_package=True)  # each its own loader: the alias wraps it

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        place = _THEIRS + module.__name__[len(_OURS) :]
        module.__doc__ = f"{place}: names alone; what they stand for is not in {_OURS} yet."
        module.__dict__["__getattr__"] = names_of(place)


FINDER = Finder()
