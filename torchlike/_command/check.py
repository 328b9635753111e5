"""`python -m torchlike check`: which names of torch in a program torchlike lacks, or means differently."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from torchlike._command.sources import files, uses
from torchlike.interop.alias import from_home
from torchlike.interop.refusing import is_refused
from torchlike.interop.their_names import is_theirs
from torchlike.interop.unbuilt import stands

_OURS = __name__.partition(".")[0]
MISSING, UNKNOWN, REFUSES, DIFFERS = "missing", "unknown", "refuses", "differs"

WAYS_OUT = {  # the longest prefix counts
    "torch.distributed": "torchlike does not have this part of it yet; one process can drive all devices",
    "torch.cuda.CUDAGraph": "torch.compile makes one program of a step",
    "torch.quantization": "quantized types are not there; keep float32 or bfloat16",
    "torch.ao": "quantized types are not there; keep float32 or bfloat16",
    "torch.onnx": "torchlike.export writes StableHLO",
    "torch._C": "a private name of PyTorch's; ask for the public one",
    "torch._inductor": "XLA compiles; leave options of PyTorch's compiler away",
    "torch.utils.cpp_extension": "write the kernel for XLA: docs/extensions_cpp.md",
    "torch.xpu": "jax does not work on Intel's GPUs",
    "torch.mps": "torchlike does not use Apple's GPUs",
}
DIFFERENT = {  # what is there, and means something else than in PyTorch
    "torch.set_num_threads": "accepted and ignored: XLA chooses the number of threads",
    "torch.backends.cudnn.benchmark": "accepted and ignored: XLA chooses its algorithms",
    "torch.backends.cudnn.deterministic": "accepted and ignored: set --xla_gpu_deterministic_ops in XLA_FLAGS",
    "torch.cuda.empty_cache": "does nothing: XLA manages device memory",
    "torch.cuda.Stream": "there is one stream; waiting waits for all that was launched",
    "torch.multiprocessing.set_sharing_strategy": "tensors are copied to other processes in any case",
}


class Finding(NamedTuple):
    """A name at a line of a file: of which kind the trouble is, and what to do."""

    file: str
    line: int
    name: str
    kind: str
    way_out: str


def main(arguments: list[str]) -> int:
    """Check what the arguments name, print the findings; 1 if a name is missing, 2 for misuse, else 0."""
    as_json = "--json" in arguments
    places = [argument for argument in arguments if argument != "--json"]
    if not places or any(place.startswith("-") for place in places):
        print("usage: python -m torchlike check [--json] SCRIPT_OR_FOLDER_OR_PACKAGE ...")
        return 2
    found: list[Finding] = []
    for place in places:
        path = _place(place)
        if path is None:
            print(f"torchlike check: there is no file, folder or package {place!r}")
            return 2
        found += check(path)
    if as_json:
        print(json.dumps([finding._asdict() for finding in found], indent=1))
    else:
        for finding in found:
            print(f"{finding.file}:{finding.line}: {finding.name}: {finding.kind}: {finding.way_out}")
        print(_summary(found))
    return 1 if any(finding.kind in (MISSING, UNKNOWN) for finding in found) else 0


def _summary(found: list[Finding]) -> str:
    counts = {kind: len({f.name for f in found if f.kind == kind}) for kind in (MISSING, UNKNOWN, REFUSES, DIFFERS)}
    parts = [f"{count} {kind}" for kind, count in counts.items() if count]
    return f"torchlike check: names of torch: {', '.join(parts) or 'all are there'}"


def _place(text: str) -> Path | None:
    if Path(text).exists():
        return Path(text)
    try:
        spec = importlib.util.find_spec(text)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return Path(spec.submodule_search_locations[0]) if spec.submodule_search_locations else Path(spec.origin)


def check(place: Path) -> list[Finding]:
    """The findings in a file or the files of a folder, in their order."""
    found = []
    for path in files(place):
        try:
            used = uses(path.read_text(encoding="utf-8"), str(path))
        except (SyntaxError, UnicodeDecodeError) as error:
            found.append(Finding(str(path), getattr(error, "lineno", 0) or 0, "", REFUSES, f"cannot be read: {error}"))
            continue
        for use in used:
            trouble = _trouble(use.name)
            if trouble is not None and not (use.asked and trouble[0] != DIFFERS):
                found.append(Finding(str(path), use.line, *trouble[1:2], trouble[0], trouble[2]))
    return found


@functools.cache
def _trouble(name: str) -> tuple[str, str, str] | None:
    """What is wrong with a name: (kind, the part of it that is concerned, way out)."""
    module, *parts = name.split(".")
    while module == "torch" and parts[:1] == ["torch"]:
        del parts[0]  # torch.torch is torch
    path = _OURS if module == "torch" else f"{_OURS}.{module}"
    value: Any = importlib.import_module(path)
    seen = module
    for part in parts:
        inner = _member(value, path, part)
        if inner is _ABSENT and inspect.ismodule(value) and is_theirs(seen, part):
            inner = _elsewhere(seen, part)
            if inspect.ismodule(inner) and inner.__name__.partition(".")[0] == _OURS:
                value, path, seen = inner, inner.__name__, f"torch{inner.__name__[len(_OURS) :]}"
                continue
        if inner is _ABSENT:
            if not (inspect.ismodule(value) or inspect.isclass(value)):
                return None  # a field of a value, which only a run would show
            place = seen
            seen = f"{seen}.{part}"
            if stands(seen):
                return REFUSES, seen, "it can be imported; what is in it raises NotImplementedError when it is used"
            known = is_theirs(place, part)
            return UNKNOWN if known is False else MISSING, seen, _way_out(seen, known)
        seen, path, value = f"{seen}.{part}", f"{path}.{part}", inner
        if seen in DIFFERENT:
            return DIFFERS, seen, DIFFERENT[seen]
    if (inspect.isroutine(value) or isinstance(value, type)) and (value.__doc__ or "").startswith(
        "NotImplementedError"
    ):
        return REFUSES, seen, " ".join(value.__doc__.split())
    return None


_ABSENT: Any = object()


def _elsewhere(place: str, name: str) -> Any:
    """What PyTorch's module has imported from another one, as programs find it; _ABSENT where it would refuse."""
    found = from_home(place, name)
    return _ABSENT if is_refused(found) else found


def _member(value: Any, path: str, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(value, name)
        except AttributeError:
            pass
        except Exception:  # it is there, and asks for something that this machine lacks
            return None
        if inspect.ismodule(value):
            try:
                return importlib.import_module(f"{path}.{name}")
            except ImportError:
                pass
    return _ABSENT


def _way_out(name: str, known: bool | None) -> str:
    if known is False:
        return "PyTorch 2.13 has no such name"
    best = max(
        (prefix for prefix in WAYS_OUT if name == prefix or name.startswith(prefix + ".")), key=len, default=None
    )
    return WAYS_OUT[best] if best else "torchlike does not have it yet"
