"""`python -m torchlike run SCRIPT [ARGS]`: run a PyTorch script, unmodified, on JAX; and other commands."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import NoReturn

from torchlike.interop import tracebacks
from torchlike.interop.alias import install_as_torch
from torchlike.version import TORCHLIKE

# The code, the module to run it in, and argv[0].
Script = tuple[CodeType, ModuleType, str]

USAGE = """\
usage: python -m torchlike run SCRIPT [ARGS ...]
       python -m torchlike run -m MODULE [ARGS ...]
       python -m torchlike run --nproc N [OPTIONS] SCRIPT [ARGS ...]
       python -m torchlike plan SCRIPT --mesh 16x16 [ARGS ...]
       python -m torchlike check [--json] SCRIPT_OR_FOLDER_OR_PACKAGE ...
       python -m torchlike explain NAME ...
       python -m torchlike conventions report|derive|kinks|diff ...
       python -m torchlike info
       python -m torchlike --version

run executes a program written for PyTorch with `import torch` meaning torchlike. Arguments, exit status and
tracebacks are those of `python SCRIPT` and `python -m MODULE`; frames of torchlike and jax are left out of
tracebacks unless TORCHLIKE_TRACEBACK=full. In processes that the program starts, torch is torchlike too.
With --nproc N the script runs in N processes, for torch.distributed; the options are those of torchrun, and
`run --nproc 1 --help` shows them.
plan runs a script without numbers, as if there were as many devices as the mesh has, and tells what a device holds and
which collectives its compiled functions have.
check reads sources, without running them, and lists the names of torch that torchlike lacks or means differently, with
file, line and the way out; its exit status is 1 if one is missing.
explain shows what the declaration of an operator says, such as `amax`.
conventions compares PyTorch's derivatives with JAX's; `conventions -h` says how.
"""


def main(arguments: list[str]) -> None:
    """Run the command line `arguments` (without the program's name); leaves by SystemExit on any misuse."""
    match arguments:
        case ["-h" | "--help", *_] | ["run", "-h" | "--help", *_]:
            print(USAGE, end="")
        case ["run", "-m", name, *rest]:
            run(lambda: prepare_module(name), rest)
        case ["run", script, *rest] if not script.startswith("-"):
            run(lambda: prepare_script(script), rest)
        case ["plan", *rest]:
            raise SystemExit(importlib.import_module("torchlike._command.plan").command(rest))
        case ["check", *places]:
            raise SystemExit(importlib.import_module("torchlike._command.check").main(places))
        case ["info"]:
            importlib.import_module("torchlike._command.about").main()
        case ["--version"]:
            print(f"torchlike {TORCHLIKE}")
        case ["run", option, *_] if option.startswith("--"):
            importlib.import_module("torchlike.distributed.run").main(arguments[1:])
        case ["explain", *names] if names:
            explain(names)
        case ["conventions", *rest]:
            importlib.import_module("torchlike.conventions._command").main(rest, importlib.import_module("torchlike"))
        case _:
            sys.stderr.write(USAGE)
            raise SystemExit(2)


def explain(names: list[str]) -> None:
    """Print the declarations of these operators; status 1 if one has none."""
    declarations = importlib.import_module("torchlike._decl.explain")  # which `run` has no use for
    unknown = [name for name in names if not declarations.find(name)]
    for name in names:
        for op in declarations.find(name):
            print(declarations.describe(op))
    if unknown:
        _refuse(f"torchlike declares no operator called {', '.join(unknown)}", 1)


def run(prepare: Callable[[], Script], arguments: list[str]) -> None:
    """Execute a program as `__main__`, which it stays, as its atexit functions and pickles expect."""
    install_as_torch()
    if "TORCHLIKE_SERVICE" in os.environ:  # a launcher has started this process
        importlib.import_module("torchlike.distributed.distributed_c10d").join_launched()
    sys.argv[1:] = arguments
    try:
        code, program, sys.argv[0] = prepare()
        sys.modules["__main__"] = program
        exec(code, program.__dict__)
    except BaseException:
        tracebacks.install()  # over a hook of the program's own
        raise


def prepare_script(script: str) -> Script:
    """Code, fresh `__main__` and argv[0] of a file, with its folder first on sys.path."""
    path = os.path.abspath(script)
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        _refuse(f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}", 2)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    code = compile(source, path, "exec", dont_inherit=True)
    return code, _main_module(None, path, SourceFileLoader("__main__", path)), script


def prepare_module(name: str) -> Script:
    """Code, fresh `__main__` and argv[0] of a module, or of a package's `__main__`."""
    sys.argv[0] = "-m"  # what a package's __init__ sees while it is imported
    spec, wanted, hint = _find(name), name, ""
    if spec is not None and spec.submodule_search_locations is not None:
        wanted, hint = f"{name}.__main__", f"; {name!r} is a package and cannot be directly executed"
        spec = _find(wanted)
    code = spec.loader.get_code(spec.name) if spec is not None and hasattr(spec.loader, "get_code") else None
    if spec is None or code is None:
        _refuse(f"No module named {wanted}{hint}", 1)
    program = _main_module(spec, spec.origin, spec.loader)
    return code, program, spec.origin or name


def _find(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        reason = f"{type(error).__name__}: {error}"
        _refuse(f"Error while finding module specification for {name!r} ({reason})", 1)


def _main_module(spec: ModuleSpec | None, path: str | None, loader: object) -> ModuleType:
    program = ModuleType("__main__")
    program.__dict__.update(
        __spec__=spec,
        __package__=spec.parent if spec else None,
        __loader__=loader,
        __file__=path,
        __cached__=spec.cached if spec else None,
        __annotations__={},
        __builtins__=sys.modules["builtins"],
    )
    return program


def _refuse(message: str, status: int) -> NoReturn:
    print(f"{sys.executable}: {message}", file=sys.stderr)
    raise SystemExit(status)


def command() -> None:
    """The console script `torchlike`."""
    main(sys.argv[1:])


if __name__ == "__main__":
    command()
