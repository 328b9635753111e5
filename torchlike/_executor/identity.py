"""What a kernel is called, so that other processes find it: text that needs no tracing, and is that of no other.

Note [Names of kernels]
~~~~~~~~~~~~~~~~~~~~~~~
To find a kernel by what it computes one would have to trace it, which is half of what keeping it saves. So its name is
what selects it: the operator's identity (its declaration's name, and how it was derived from that), static arguments,
kinds of the inputs; and the world it was compiled in: every source file of the package, the versions of Python, jax
and numpy, processor and flags, and the settings of ours and of jax that tracing reads. A wrong kernel could only come
of something that a kernel depends on and the name leaves out. Hence: a value that has no text of its own (a closure, a
user's function, an object) makes the kernel nameless, and it is not kept; a setting of ours that kernels read while
they are traced goes through ``settings``, which notes that it was read; an operator whose kernel a user has replaced
has no identity.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import platform
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import jaxlib
import numpy as np

from torchlike._base import dtypes
from torchlike._base.home import home
from torchlike._base.threads import cores
from torchlike._decl import settings
from torchlike._decl.derive import Kernel
from torchlike._executor.store import STORE

if TYPE_CHECKING:
    from torchlike._decl.typed import Identity

PACKAGE = "torchlike"


class Nameless(Exception):
    """Something in a kernel has no name that other processes share: the kernel is not kept."""


def spell(x: Any) -> str:
    """The text of a value that selects a kernel; raises Nameless where there is none."""
    writer = _WRITERS.get(x.__class__)
    if writer is not None:
        return writer(x)
    if isinstance(x, Kernel):
        return spell(named(x.identity()))
    if isinstance(x, np.dtype):
        return f"dtype {x.name}"
    if isinstance(x, enum.Enum):
        return f"{spell(type(x))}.{x.name}"
    if isinstance(x, type) or callable(x):
        return _spell_code(x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return f"{spell(type(x))}{_spell_all(x)}"
    raise Nameless(x)


def named(identity: Identity) -> tuple[Any, ...]:
    """An identity, which there must be."""
    if identity is None:
        raise Nameless
    return identity


def _spell_all(xs: Iterable[Any]) -> str:
    return f"({','.join([spell(x) for x in xs])})"


def _spell_code(x: Any) -> str:
    """A function or class that modules of the package, numpy or jax hold under its name."""
    if isinstance(x, functools.partial):
        return f"partial{_spell_all((x.func, x.args, x.keywords))}"
    if x.__class__ is _JITTED:  # it computes what its function does
        x = x.__wrapped__
    module, name = home(getattr(x, "__module__", None) or ""), getattr(x, "__qualname__", "")
    found = sys.modules.get(module) if module.partition(".")[0] in _SHARED else None
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None or (found is not x and getattr(found, "__wrapped__", None) is not x):
        raise Nameless(x)
    return f"{module}:{name}"


_JITTED = type(jax.jit(len))
_SHARED = frozenset({PACKAGE, "numpy", "jax", "ml_dtypes", "builtins"})
_WRITERS = {
    **dict.fromkeys((int, bool, float, complex, str, bytes, type(None), type(...)), repr),
    tuple: _spell_all,
    list: lambda x: f"list{_spell_all(x)}",
    dict: lambda x: f"dict{_spell_all(x.items())}",
    slice: lambda x: f"slice{_spell_all((x.start, x.stop, x.step))}",
    dtypes.dtype: lambda x: f"torch {x.name}",
    jax.ShapeDtypeStruct: lambda x: spell_aval(x),
}


def spell_aval(aval: Any) -> str:
    """The text of an array's kind."""
    if not all([d.__class__ is int for d in aval.shape]):
        raise Nameless(aval)
    return f"{_name(aval.dtype)}{list(aval.shape)}{'w' if aval.weak_type else ''}"


@functools.cache
def _name(dtype: Any) -> str:
    """The name of a dtype, which numpy makes anew each time, in 3 us."""
    return dtype.name


# -- the world that kernels are compiled in ----------------------------------------------------------


def environment(context: tuple[Any, ...]) -> str:
    """The text of everything beside a kernel that its code depends on: settings, sources, versions, processor."""
    return f"{_fixed()}|{_spell_settings(dtypes.get_default_dtype(), *settings.READ.items())}|{_spell_context(context)}"


@functools.lru_cache(64)
def _spell_settings(default: dtypes.dtype, *read: tuple[str, str]) -> str:
    return spell((default, read))


@functools.lru_cache(64)
def _spell_context(context: tuple[Any, ...]) -> str:
    """The settings of jax that tracing depends on."""
    plain = [x for x in context if type(x).__name__ != "AxisEnv"]
    text = repr(plain)
    if " at 0x" in text:
        raise Nameless(text)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@functools.cache
def _fixed() -> str:
    """What stays the same for a process."""
    versions = (sys.version, jax.__version__, jaxlib.__version__, np.__version__)
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "JAX_PLATFORMS", "NPROC", "OMP_NUM_THREADS")]
    parts = (*versions, *machine(), *flags, _sources())
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def machine() -> tuple[str, str, str]:
    """What compiled code depends on of the machine: its kind, its processor, how many cores it has for us."""
    return platform.machine(), _processor(), str(cores())


def _processor() -> str:
    """The first core, as Linux tells of it, without what changes from moment to moment."""
    try:
        with open("/proc/cpuinfo") as file:
            first = file.read(1 << 13).partition("\n\n")[0]
    except OSError:
        return platform.processor()
    return "\n".join(line for line in first.splitlines() if line.startswith(("model name", "flags", "Features")))


def _sources(root: str = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) -> str:
    """A digest of the package's own code, which is read only where a file has another size or time than before."""
    files = sorted(_files(root, ""))
    key = f"sources|{root}|{hashlib.blake2b(repr(files).encode(), digest_size=16).hexdigest()}"
    kept = STORE.get(key)
    if kept is None:
        found = hashlib.blake2b(digest_size=16)
        for name, *_ in files:
            with open(os.path.join(root, name), "rb") as file:
                found.update(name.encode() + b"\0" + file.read())
        kept = found.hexdigest()
        STORE.put(key, kept)
    return kept


def _files(folder: str, prefix: str) -> Iterator[tuple[Any, ...]]:
    """The name, size and times of each file of Python below a folder; nobody sets back that of its last change."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                facts = entry.stat()
                yield prefix + entry.name, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
            elif entry.is_dir():
                yield from _files(entry.path, f"{prefix}{entry.name}/")
