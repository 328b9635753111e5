"""Write torchlike/interop/their_names.txt: the public names of PyTorch, from the PyTorch that is installed.

A line is a module (or a class), a colon and its names. With it a misspelt name is told from one that torchlike lacks.
"""

import importlib
import inspect
import pkgutil
import sys
import types
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


def theirs(module: types.ModuleType, value: object) -> bool:
    """Whether a name is PyTorch's own, and not one that the module has imported from elsewhere."""
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("torch")
    if isinstance(value, type) or inspect.isroutine(value):
        home = getattr(value, "__module__", None)
        return home is None or str(home).startswith("torch")
    return type(value).__module__ not in ("typing", "__future__")


def lines() -> Iterator[str]:
    for module in sorted(modules(), key=lambda m: m.__name__):
        names = [n for n in dir(module) if not n.startswith("_") and theirs(module, getattr(module, n, None))]
        yield f"{module.__name__}: {' '.join(sorted(names))}".rstrip()
    for name in CLASSES:
        cls = getattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2])
        yield f"{name}: {' '.join(sorted(n for n in dir(cls) if not n.startswith('_')))}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text("\n".join(lines()) + "\n")
