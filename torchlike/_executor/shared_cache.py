"""Programs that the processes of one job share by jax's cache on disk, on CPU.

By itself jax keeps what its process 0 compiles, under a key that has that process in it: on CPU every other process
compiles each program anew, in every run. Here the key is the same for all, and of processes that come to a program at
once, one compiles it while the others wait for the file.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from torchlike._base import cache
from torchlike._executor import identity

try:
    import fcntl

    from jax._src import cache_key, compilation_cache, compiler

    _HOOKS = (
        cache_key._hash_accelerator_config, cache_key._hash_serialized_compile_options,
        compiler._cache_read, compiler._compile_and_write_cache,
    )  # fmt: skip
except (ImportError, AttributeError):  # another system, or another version of jax
    _HOOKS = ()

LOCKS = 64  # files, each of which stands for many programs
PATIENCE = 60.0  # seconds after which a program is compiled here, too


@functools.cache
def install() -> None:
    """Share programs from now on, if they are kept in a folder of ours and jax's modules are as this one knows them."""
    if not _HOOKS or not jax.__version__.startswith("0.10.") or _folder() != cache.folder():
        return
    cache_key._hash_accelerator_config = functools.partial(_hash_devices, cache_key._hash_accelerator_config)
    cache_key._hash_serialized_compile_options = functools.partial(
        _hash_options, cache_key._hash_serialized_compile_options
    )
    compiler._compile_and_write_cache = functools.partial(_once, compiler._compile_and_write_cache)


def _hash_devices(usual: Callable[..., Any], found: Any, devices: Any) -> None:
    """What of the devices a program depends on: which of the processes asks is nothing of that."""
    processes = [device.process_index for device in devices.flat]
    if any(device.platform != "cpu" for device in devices.flat):
        usual(found, devices)
    else:
        found.update(f"{devices.shape} {processes[1:] and processes} {_machine()}".encode())


@functools.cache
def _machine() -> str:
    return repr(identity.machine())


def _hash_options(usual: Callable[..., Any], found: Any, options: Any, strip_device_assignment: bool = False) -> Any:
    """Where one device computes, it does not matter which."""
    assignment = options.device_assignment
    one = assignment is not None and assignment.replica_count() * assignment.computation_count() == 1
    return usual(found, options, strip_device_assignment=strip_device_assignment or one)


def _once(
    usual: Callable[..., Any], backend: Any, computation: Any, devices: Any, options: Any, callbacks: Any, name: str,
    key: str,
) -> Any:  # fmt: skip
    """The program, compiled here or by another process that began earlier."""
    if backend.platform != "cpu" or callbacks:
        return usual(backend, computation, devices, options, callbacks, name, key)
    with _turn(key):
        found, _ = compiler._cache_read(name, key, options, backend, devices)
        if found is None:
            found = usual(backend, computation, devices, options, callbacks, name, key)
            if compiler.distributed.global_state.process_id:  # jax writes for process 0 alone
                with contextlib.suppress(Exception):
                    compilation_cache.put_executable_and_time(key, name, found, backend, 0)
    return found


def _folder() -> Path | None:
    place = jax.config.jax_compilation_cache_dir
    return place and Path(place)


@contextlib.contextmanager
def _turn(key: str) -> Iterator[None]:
    """Wait for another process that compiles this program, but not for ever."""
    number = int(hashlib.sha256(key.encode()).hexdigest(), 16) % LOCKS
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a folder that cannot be written to, or has no locks
            file = stack.enter_context((_folder() / f"turn-{number}.lock").open("w"))
            if _locked(file, time.monotonic() + PATIENCE):
                # a process that was forked meanwhile has the file open, too
                stack.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


def _locked(file: Any, end: float) -> bool:
    """Lock a file, if that is possible in time."""
    wait = 0.001
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(wait := min(2 * wait, 0.02))
