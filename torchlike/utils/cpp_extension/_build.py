"""Building a shared library from C++ sources, once for each content.

A library is found by its key, the hash of all that was asked for: sources, flags, compiler, version of jaxlib. Beside
it a record names the other files that the compiler has read (``#include "..."``) with their hashes: where one has
changed, the library is built anew under another name, since a process cannot load two libraries from one path.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jaxlib

from torchlike.utils.cpp_extension import _compiler

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class Request(NamedTuple):
    """What to build.

    Attributes:
        name: the extension's name. sources: the files. texts: their contents.
        cflags, ldflags, includes: what the user adds. folder: where builds are kept.
        verbose: whether to print the commands and what the compiler says. keep: whether object files stay.
    """

    name: str
    sources: tuple[Path, ...]
    texts: tuple[bytes, ...]
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    includes: tuple[str, ...]
    folder: Path
    verbose: bool
    keep: bool


def library(request: Request) -> Path:
    """The shared library of ``request``, built unless it is there.

    Raises RuntimeError where no compiler is installed, or it reports an error.
    """
    compiler = _compiler.get_cxx_compiler()
    key = _key(request, compiler)
    found = _recorded(request, key)
    if found is not None:
        return found
    with _locked(request.folder / f"{request.name}_{key}.lock"):
        return _recorded(request, key) or _built(request, compiler, key)


def _key(request: Request, compiler: str) -> str:
    parts = [request.name, request.texts, [str(s) for s in request.sources], request.cflags, request.ldflags]
    parts += [request.includes, _compiler.FLAGS, compiler, _compiler.description(compiler), jaxlib.__version__]
    parts += [_compiler.include_paths()]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _recorded(request: Request, key: str) -> Path | None:
    """The library built before, if everything that it was built from is unchanged."""
    try:
        record = json.loads((request.folder / f"{request.name}_{key}.json").read_text())
    except (OSError, ValueError):
        return None
    path = request.folder / record["library"]
    if not path.exists() or any(_digest(Path(p)) != digest for p, digest in record["read"].items()):
        return None
    return path


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``; it falls with the process that holds it."""
    if fcntl is None:
        raise NotImplementedError("C++ extensions are not supported on Windows; use Linux, macOS or WSL")
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _built(request: Request, compiler: str, key: str) -> Path:
    """Compile and link; the library and its record appear whole or not at all."""
    work = request.folder / f"{request.name}_{key}.build"
    work.mkdir(exist_ok=True)
    try:
        objects = _compiled(request, compiler, work)
        used = {p for o in objects for p in _dependencies(o.with_suffix(".d"))} - set(request.sources)
        read = {str(p): _digest(p) for p in sorted(used)}
        content = hashlib.sha256(repr((key, read)).encode()).hexdigest()[:16]
        path = request.folder / f"{request.name}_{content}.so"
        made = work / path.name
        line = [*_compiler.command(compiler), *map(str, objects), *_compiler.SHARED, "-o", str(made)]
        _run(request, [*line, *request.ldflags])
        os.replace(made, path)
    finally:
        if not request.keep:
            shutil.rmtree(work, ignore_errors=True)
    write(request.folder / f"{request.name}_{key}.json", json.dumps({"library": path.name, "read": read}))
    return path


def _compiled(request: Request, compiler: str, work: Path) -> list[Path]:
    """The object files of the sources, several compiled at a time (``MAX_JOBS`` limits how many)."""
    flags = [*_compiler.FLAGS, f"-DTORCH_EXTENSION_NAME={request.name}"]
    flags += [f"-I{folder}" for folder in request.includes]
    flags += [word for folder in _compiler.include_paths() for word in ("-isystem", folder)]
    objects = [work / f"{i}_{source.stem}.o" for i, source in enumerate(request.sources)]
    lines = [
        [*_compiler.command(compiler), "-MMD", "-MF", str(o.with_suffix(".d")), *flags, *request.cflags, "-c", str(s)]
        + ["-o", str(o)]
        for s, o in zip(request.sources, objects, strict=True)
    ]
    jobs = int(os.environ.get("MAX_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        list(pool.map(lambda line: _run(request, line), lines))
    return objects


def _dependencies(path: Path) -> list[Path]:
    """The files that a make rule written by the compiler names."""
    text = path.read_text().replace("\\\n", " ").partition(": ")[2]
    return [Path(word.replace("\\ ", " ")).absolute() for word in re.split(r"(?<!\\)\s+", text) if word]


def _run(request: Request, line: Sequence[str]) -> None:
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if request.verbose:
        print(" ".join(line), done.stdout, sep="\n", flush=True)
    if done.returncode:
        raise RuntimeError(
            f"Error building extension '{request.name}': the compiler ended with {done.returncode}:\n{done.stdout}"
            f"\nThe command was: {' '.join(line)}"
        )


def write(path: Path, text: str) -> None:
    """Write a file that other processes see whole or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def folder_of(name: str, build_directory: str | os.PathLike | None) -> Path:
    """The folder that builds of ``name`` are kept in; made unless the user names one."""
    if build_directory is not None:
        folder = Path(build_directory).absolute()
        if not folder.is_dir():
            raise FileNotFoundError(f"extension {name!r}: no folder {str(folder)!r} for build_directory; make it first")
        return folder
    root = os.environ.get("TORCH_EXTENSIONS_DIR") or _compiler.get_default_build_root()
    folder = Path(root).absolute() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
