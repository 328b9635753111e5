"""The C++ compiler: where it is, what it is called with, and what PyTorch asks about it."""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jax

FALLBACKS = ("c++", "g++", "clang++")
FLAGS = ("-O2", "-fPIC", "-std=c++17", "-fvisibility=hidden")
SHARED = ("-shared", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
_INCLUDE = Path(__file__).resolve().parents[2] / "include"


def get_cxx_compiler() -> str:
    """The command of the C++ compiler: ``$CXX``, else the first of c++, g++ and clang++ that is installed.

    Raises RuntimeError where none is, or where ``$CXX`` names none.
    """
    chosen = os.environ.get("CXX")
    if chosen:
        if shutil.which((shlex.split(chosen) or [""])[0]) is None:
            raise RuntimeError(
                f"no C++ compiler: the environment variable CXX is {chosen!r}, which is not an installed program; set "
                f"it to one, or unset it to use the first of {', '.join(FALLBACKS)} that is installed"
            )
        return chosen
    for name in FALLBACKS:
        if shutil.which(name):
            return name
    raise RuntimeError(
        f"no C++ compiler: none of {', '.join(FALLBACKS)} is installed and the environment variable CXX is not set; "
        "install one (`apt-get install g++`, `dnf install gcc-c++`, `xcode-select --install` or `conda install "
        "cxx-compiler`) or set CXX to its path"
    )


def command(compiler: str) -> list[str]:
    """The compiler's command line, which may carry flags of its own."""
    return shlex.split(compiler)


@functools.lru_cache(None)
def _described(compiler: str, path: str | None, changed: float) -> str:
    done = subprocess.run([*command(compiler), "--version"], capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def description(compiler: str) -> str:
    """What the compiler says of its version; asked once for each program."""
    path = shutil.which(command(compiler)[0])
    return _described(compiler, path, os.stat(path).st_mtime if path else 0.0)


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of headers that an extension is compiled with: this package's own, and those of XLA's FFI.

    Args:
        device_type: ``"cpu"``; anything else raises NotImplementedError.
        torch_include_dirs: False gives none of them.

    >>> from torchlike.utils.cpp_extension import include_paths
    >>> len(include_paths())
    2
    """
    demand_cpu("include_paths", device_type)
    return [str(_INCLUDE), jax.ffi.include_dir()] if torch_include_dirs else []


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: str | None = None
) -> list[str]:
    """The folders of libraries that an extension is linked with: none, since XLA hands its functions over at the call.

    Args:
        device_type: ``"cpu"``; anything else raises NotImplementedError.
        torch_include_dirs, cross_target_platform: accepted as in PyTorch, without effect.
    """
    demand_cpu("library_paths", device_type)
    return []


def demand_cpu(function: str, device_type: str) -> None:
    """Raise NotImplementedError for another device than the CPU."""
    if device_type != "cpu":
        raise NotImplementedError(
            f"{function}: C++ extensions for {device_type!r} are not supported, only for 'cpu'; write a kernel for an "
            "accelerator in Pallas (jax.experimental.pallas)"
        )


def is_ninja_available() -> bool:
    """Whether the program ninja is installed. Extensions are built without it."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise RuntimeError unless the program ninja is installed. Extensions are built without it."""
    if not is_ninja_available():
        raise RuntimeError(
            "Ninja is required to load C++ extensions by PyTorch, and is not installed (pip install ninja). The "
            "extensions of this package are built without it: leave the check out."
        )


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether ``compiler`` is an installed program: any C++17 compiler builds what XLA's FFI can load."""
    words = command(compiler)
    return bool(words) and shutil.which(words[0]) is not None


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, tuple[int, ...]]:
    """Whether ``compiler`` builds extensions that can be loaded, and its version as ints.

    XLA's FFI is an interface in C, so that any installed C++17 compiler will do. The version is (0, 0, 0) where the
    compiler does not tell it.
    """
    if not check_compiler_ok_for_platform(compiler):
        return False, (0, 0, 0)
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", description(compiler))
    return True, tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


def get_default_build_root() -> str:
    """The folder that builds are kept in unless ``TORCH_EXTENSIONS_DIR`` names one."""
    if sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(root / "torchlike_extensions")
