"""Settings of jax that torchlike needs, made once at import unless the user has decided otherwise."""

import ctypes
import functools
import gc
import logging
import os
import sys
import tempfile
from pathlib import Path

from torchlike._base import bits, cache


class _Paused:
    """No collection of garbage inside, which imports do not make; what was made meanwhile counts as old.

    Collecting takes a seventh of the time of importing jax, and as long as importing this package.
    """

    def __enter__(self):
        self.was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error):
        if not self.was_on:
            return
        if not gc.get_freeze_count():  # else they are the user's, to whom they stay frozen
            gc.freeze()
            gc.unfreeze()
        gc.enable()


PAUSED = _Paused()
with PAUSED:
    import jax
    from jax._src import compilation_cache

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # of <malloc.h>


def enable_x64():
    """PyTorch has int64 and float64; so does jax, when asked. ``JAX_ENABLE_X64=0`` is respected."""
    if bits.X64:
        jax.config.update("jax_enable_x64", True)
    else:
        bits.silence_jax()


def _of_interest(record):
    return record.levelno > logging.INFO or not str(record.msg).startswith("Unable to initialize backend")


def quieten_search():
    """A program that logs at INFO is not told of accelerators that jax has looked for in vain."""
    logging.getLogger("jax._src.xla_bridge").addFilter(_of_interest)


def enable_cache():
    """Keep compiled programs on disk, so that a second process starts warm."""
    folder = cache.folder()
    if folder is None or jax.config.jax_compilation_cache_dir:
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if hasattr(compilation_cache, "get_file_cache"):  # jax's own; a version without it keeps to its own ways
        compilation_cache.get_file_cache = _whole_entries(compilation_cache.get_file_cache, str(folder))


def _whole_entries(open_cache, folder):
    """``open_cache`` with entries of one folder that appear whole.

    jax writes an entry where it is read, and other threads and processes find a part of it: a warning, and for ever
    if the writer was killed. Where the user limits the cache, jax locks it instead.
    """

    def open_whole(path):
        found = open_cache(path)
        if path == folder and found is not None and not getattr(found[0], "eviction_enabled", True):
            found[0].put = functools.partial(_put_whole, type(found[0]), Path(path))
        return found

    return open_whole


def _put_whole(kind, folder, key, value):
    """Write an entry beside the others and move it in, also over one that could not be read."""
    with tempfile.TemporaryDirectory(prefix="writing-", dir=folder) as beside:
        kind(beside, max_size=-1).put(key, value)
        for file in Path(beside).iterdir():
            file.replace(folder / file.name)


def keep_memory():
    """Let the C library keep freed memory for the next call instead of giving it back to the system.

    On the CPU XLA allocates the temporaries of a program anew in every call. Above 128 KiB glibc maps fresh pages
    each time, and a step of a small transformer then spends a third of its time on page faults. The settings are
    those of mallopt(3), for the whole process; ``TORCHLIKE_MALLOC=0`` leaves them alone, as does a user's own choice;
    docs/porting.md has what they save.
    """
    if sys.platform != "linux" or os.environ.get("TORCHLIKE_MALLOC", "1").lower() in ("0", "off", "false"):
        return
    if any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 1 << 30)
        mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
        mallopt(_M_TOP_PAD, 1 << 28)


enable_x64()
quieten_search()
enable_cache()
keep_memory()
