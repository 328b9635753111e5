"""Write torchlike/interop/their_names.txt: the public names of PyTorch, from the PyTorch that is installed.

A line is a module (or a class), a colon and its names. With it a misspelt name is told from one that torchlike lacks.
``name=home`` is a name that the module has imported from elsewhere, where ``home`` is what it is called at its place.
A line without a colon is a module whose names are not listed: private ones, and those that few programs see.
"""

import importlib
import inspect
import math
import pkgutil
import sys
import types
import typing
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch

PAGE = Path(__file__).resolve().parent.parent / "torchlike" / "interop" / "their_names.txt"
CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.nn.Parameter", "torch.optim.Optimizer")
SKIPPED = ("torch.testing", "torch.utils.benchmark.examples", "torch.contrib", "torch.utils.tensorboard", "torch.ao",
           "torch.distributed.elastic", "torch.onnx", "torch.quantization")  # fmt: skip


def modules() -> Iterator[types.ModuleType]:
    """All public modules that can be imported here."""
    yield torch
    for found in pkgutil.walk_packages(torch.__path__, "torch.", onerror=lambda name: None):
        private = any(part.startswith("_") for part in found.name.split("."))
        if private or found.name.startswith(SKIPPED):
            continue
        try:
            yield importlib.import_module(found.name)
        except BaseException as error:  # a package that is not installed
            print(f"{found.name}: {error!r}"[:120], file=sys.stderr)


def files() -> Iterator[str]:
    """The names of all modules that are files of Python, none of which is imported for that."""
    root = Path(torch.__path__[0])
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if all(part.isidentifier() for part in parts):
            yield ".".join(parts)


def theirs(module: types.ModuleType, value: object) -> bool:
    """Whether a name is PyTorch's own, and not one that the module has imported from elsewhere."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("torch")
    if isinstance(value, type) or inspect.isroutine(value):
        home = getattr(value, "__module__", None)
        return home is None or str(home).startswith("torch")
    return type(value).__module__ not in ("typing", "__future__")


def home(module: types.ModuleType, name: str) -> str | None:
    """Where the value of a name that a module has imported from elsewhere is at home; None for its own."""
    value = getattr(module, name, None)
    if isinstance(value, types.ModuleType):
        own = value.__name__ == f"{module.__name__}.{name}"
        return None if own else value.__name__
    if isinstance(value, bool | float):
        origin = next((m for m in (math, typing) if vars(m).get(name) is value), None)
        return None if origin is None else f"{origin.__name__}.{name}"
    if not isinstance(value, type) and not inspect.isroutine(value):
        return None
    place, path = value.__module__, value.__qualname__
    if place in (None, module.__name__) or not isinstance(path, str) or "." in path:
        return None
    found = getattr(sys.modules.get(place), path, None)
    return f"{place}.{path}" if found is value else None


def told(module: types.ModuleType, name: str) -> str:
    place = home(module, name)
    return name if place is None else f"{name}={place}"


def lines() -> Iterator[str]:
    listed = sorted(modules(), key=lambda m: m.__name__)
    yield from sorted({*files()} - {module.__name__ for module in listed})
    for module in listed:
        names = [n for n in dir(module) if not n.startswith("_") and theirs(module, getattr(module, n, None))]
        yield f"{module.__name__}: {' '.join(told(module, name) for name in sorted(names))}".rstrip()
    for name in CLASSES:
        cls = getattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2])
        yield f"{name}: {' '.join(sorted(n for n in dir(cls) if not n.startswith('_')))}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text("\n".join(lines()) + "\n")
