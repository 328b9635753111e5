"""Parts of PyTorch that programs import and few use: their names are classes that refuse to be called.

While this package stands in for torch, ``from torch.distributed.fsdp import FullyShardedDataParallel`` works, nothing
is an instance of that class, and calling it raises NotImplementedError with its name. The names are PyTorch's, from
``their_names.txt``; private modules have every name that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from torchlike._base.home import OURS, THEIRS
from torchlike.interop.refusing import refusing
from torchlike.interop.their_names import their_names

PLACES = tuple([
    f"torch.distributed.{part}"
    for part in ("_composable", "_shard", "_tensor", "algorithms", "checkpoint", "elastic", "fsdp", "optim",
                 "pipelining", "tensor")
])  # fmt: skip
"""The modules that stand with everything below them, where there is no module of ours."""


class Finder(MetaPathFinder, Loader):
    """Finds the modules of ``PLACES`` below this package, after all other finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = THEIRS + fullname[len(OURS) :] if fullname.startswith(f"{OURS}.") else ""
        part = next((part for part in PLACES if place == part or place.startswith(f"{part}.")), None)
        private = part is not None and any(p.startswith("_") for p in place.split("."))
        if part is None or not (private or place in their_names() or place == part):
            return None
        return ModuleSpec(fullname, Finder(), is_package=True)  # each its own loader: the alias wraps it

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        place = THEIRS + module.__name__[len(OURS) :]
        module.__doc__ = f"{place}: names alone; what they stand for is not in {OURS} yet."
        module.__dict__["__getattr__"] = refusing(module.__name__, f"not in {OURS} yet")


FINDER = Finder()
