"""Computing in the child of a fork.

XLA's threads stay behind in the parent, so a program that needs them would wait for ever. What jax is asked for in a
child is therefore run by numpy where that gives the same (``numpy_programs.py``), and by the parent otherwise: the
program travels once, as bytes of ``jax.export``, its numbers through a pipe that each fork makes. One thread of the
parent answers all its children. A process that is forked before XLA has started computes as any other.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from torchlike._base.jaxprs import jaxpr_as_fun
from torchlike._executor import compiling, immediate, kernels, numpy_programs
from torchlike._executor.compiling import aligned
from torchlike._executor.recorded import cut

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from torchlike._base.jaxprs import ClosedJaxpr

try:
    from jax._src import compiler, pjit, xla_bridge
    from jax._src.interpreters import mlir, pxla
    from jax._src.lib.mlir import ir

    _PRIMITIVE, _ = pjit.jit_p, pjit._pjit_call_impl_python
    _CACHES = (pjit._cpp_pjit_cache_fun_only, pjit._cpp_pjit_cache_explicit_attributes)
    _POOLS, _CONTEXT = [mlir.global_thread_pool], mlir.make_ir_context
    _LAST_CONTEXT = getattr(mlir, "_thread_local_context", None)  # newer versions of jax keep one for each thread
    READY = compiling.READY and hasattr(os, "register_at_fork")
    # jax's own handler only warns that what is handled here would end in a deadlock
    xla_bridge._at_fork_handler_installed = xla_bridge._at_fork_handler_installed or READY
except (ImportError, AttributeError):
    READY = False

_CODE: list = []  # of the parent's programs: to unload it would wait for the threads that it was made for
KEPT = 1024  # programs that a process keeps for its children, or as a child
Arrays = Sequence[Any]


def started() -> bool:
    """Whether XLA has threads in this process."""
    return bool(xla_bridge._backends)


def _connections() -> Any:
    """Python's module of pipes, which brings eight others: for programs that fork alone."""
    from multiprocessing import connection

    return connection


# -- the child ---------------------------------------------------------------------------------------


class _Child:
    """What runs the programs of a forked process."""

    def __init__(self, link: Connection) -> None:
        self.link, self.lock, self.parent = link, threading.Lock(), os.getppid()
        self.device = jax.local_devices(backend="cpu")[0]
        self.programs: OrderedDict[Any, Callable[[Arrays], Arrays]] = OrderedDict()

    def run(self, *args: Any, jaxpr: ClosedJaxpr, **_: Any) -> list[jax.Array]:
        """What jax calls for every jitted function."""
        program = self.programs.get(jaxpr)
        if program is None:
            program = self.programs[jaxpr] = self._program(jaxpr)
            if len(self.programs) > KEPT:
                self.programs.popitem(last=False)
        numbers = [_numbers(v, aval.dtype) for v, aval in zip(args, jaxpr.in_avals, strict=True)]
        return [self.put(x, aval) for x, aval in zip(program(numbers), jaxpr.out_avals, strict=True)]

    def put(self, x: np.ndarray, aval: Any) -> jax.Array:
        """An array of the child; XLA takes aligned memory as it is, and would have a thread copy other."""
        where = SingleDeviceSharding(self.device)
        return pxla.xc.batched_device_put(aval, where, [aligned(np.asarray(x, aval.dtype))], [self.device], False)

    def _program(self, jaxpr: ClosedJaxpr) -> Callable[[Arrays], Arrays]:
        written = None if jaxpr.effects else numpy_programs.written(jaxpr, compiled=False)
        theirs = _Theirs(self, jaxpr)
        if written is None:
            return theirs
        here = numpy_programs.HostProgram(written)

        def program(numbers: Arrays) -> Arrays:
            try:
                return here(numbers)
            except numpy_programs.Subnormal:
                return theirs(numbers)

        return program

    def ask(self, message: Any) -> Any:
        """The parent's answer."""
        with self.lock:
            try:
                self.link.send(message)
                while not self.link.poll(5):
                    if os.getppid() != self.parent:
                        raise EOFError
                return self.link.recv()
            except (EOFError, OSError):
                raise RuntimeError("the process that this one was forked from has ended: it computed for it") from None


class _Theirs:
    """A program that the parent runs."""

    def __init__(self, child: _Child, jaxpr: ClosedJaxpr) -> None:
        self.child, self.jaxpr = child, jaxpr
        self.name: bytes | None = None
        self.blob = b""

    def __call__(self, numbers: Arrays) -> Arrays:
        arrays = [_sent(x) for x in numbers]
        if self.name is None:
            self.blob = _exported(self.jaxpr)
            self.name = hashlib.sha256(self.blob).digest()
        answer = self.child.ask((self.name, None, arrays))
        if answer is None:
            answer = self.child.ask((self.name, (self.blob, compiling.facts(self.jaxpr.out_avals)), arrays))
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return [_received(x) for x in answer]


def _exported(jaxpr: ClosedJaxpr) -> bytes:
    """The program for the CPU, in MLIR's bytes."""
    traced = jax.jit(jaxpr_as_fun(jaxpr), keep_unused=True).trace(*jaxpr.in_avals)
    lowering = traced.lower(lowering_platforms=("cpu",))._lowering
    asks = lowering.compile_args
    module = lowering.stablehlo()
    python = jaxpr.effects or lowering.const_args or asks["host_callbacks"] or asks["keepalive"]
    if python or not compiling.portable(module):
        raise NotImplementedError(
            "a forked process cannot run an operator that calls Python functions, nor have its parent run it: start "
            'processes with "forkserver" or "spawn" (DataLoader: multiprocessing_context="forkserver")'
        )
    return mlir.module_to_bytecode(module)


def _numbers(value: Any, dtype: Any) -> np.ndarray:
    if isinstance(value, jax.Array) and not all(d.platform == "cpu" for d in value.devices()):
        raise RuntimeError(
            f"Cannot use {next(iter(value.devices()))} in a forked process: start processes with "
            '"forkserver" or "spawn", or keep what they use on the CPU'
        )
    return np.asarray(value, dtype)


def _sent(x: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    return x.dtype.name, x.shape, x.tobytes()


def _received(parts: tuple[str, tuple[int, ...], bytes]) -> np.ndarray:
    name, shape, data = parts
    return np.frombuffer(data, np.dtype(name)).reshape(shape)


# -- the parent --------------------------------------------------------------------------------------


class _Parent:
    """Runs programs for the processes that were forked from this one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held while XLA computes here, and during a fork
        self.links: list[Connection] = []
        self.wake: tuple[Connection, Connection] | None = None
        self.programs: OrderedDict[bytes, compiling.Code] = OrderedDict()

    def adopt(self, link: Connection) -> None:
        """Answer what comes from a new child."""
        self.links.append(link)
        if self.wake is None:
            self.wake = _connections().Pipe(False)
            threading.Thread(target=self._serve, args=(self.wake[0],), daemon=True, name="torchlike-forks").start()
        else:
            self.wake[1].send_bytes(b"+")

    def _serve(self, bell: Connection) -> None:
        wait = _connections().wait
        while True:
            for link in wait([bell, *self.links]):
                if link is bell:
                    bell.recv_bytes()
                else:
                    self._answer(link)  # type: ignore[arg-type]

    def _answer(self, link: Connection) -> None:
        try:
            name, blob, arrays = link.recv()
            link.send(self._run(name, blob, arrays))
        except (EOFError, OSError):
            self.links.remove(link)
            link.close()

    def _run(self, name: bytes, blob: tuple[bytes, tuple] | None, arrays: list) -> Any:
        """The results, None where the program is not known, or what went wrong."""
        if _Fork.child is not None:
            return _Fork.child.ask((name, blob, arrays))
        try:
            with self.lock:
                if name not in self.programs:
                    if blob is None:
                        return None
                    self.programs[name] = _loaded(*blob, len(arrays))
                    if len(self.programs) > KEPT:
                        self.programs.popitem(last=False)
                results, _ = compiling.call(self.programs[name], [aligned(_received(x)) for x in arrays], False)
                return [_sent(np.asarray(x)) for x in results]
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def _loaded(blob: bytes, outs: tuple, count: int) -> compiling.Code:
    """The code of a program that takes ``count`` arrays."""
    context = mlir.make_ir_context()
    compiling.prepare(blob)
    with context, ir.Location.unknown(context):
        executable = compiling.loaded(ir.Module.parse(blob), kernels.EXACTLY)
    return compiling.Code(executable, tuple(range(len(outs))), tuple(compiling.kinds(outs)), (True,) * count)


# -- the fork ----------------------------------------------------------------------------------------


class _Fork:
    """What a fork leaves to both sides."""

    parent = _Parent()
    child: _Child | None = None
    links: tuple[Connection, Connection] | None = None

    @classmethod
    def before(cls) -> None:
        """Let XLA come to rest: a child could not wait for what it computes."""
        if not started():
            return
        cls.parent.lock.acquire()
        with contextlib.suppress(Exception):  # of computations that failed
            cut()
            jax.block_until_ready(jax.live_arrays("cpu"))
        try:
            cls.links = _connections().Pipe()
        except OSError:  # no more files
            cls.parent.lock.release()
            raise

    @classmethod
    def in_parent(cls) -> None:
        """Go on."""
        if cls.links is None:
            return
        (mine, theirs), cls.links = cls.links, None
        theirs.close()
        cls.parent.adopt(mine)
        cls.parent.lock.release()

    @classmethod
    def in_child(cls) -> None:
        """Take jax's ways to XLA away."""
        if cls.links is None:
            return
        (others, mine), cls.links = cls.links, None
        others.close()
        for link in cls.parent.links:
            link.close()
        if cls.parent.wake is not None:
            for link in cls.parent.wake:
                link.close()
        cls.parent, cls.child = _Parent(), _Child(mine)
        _take_over(cls.child)


def _take_over(child: _Child) -> None:
    _CODE.extend(child.device.client.live_executables())
    compiling.READY = False
    immediate.batched_device_put = None  # type: ignore[assignment]
    compiling.host.cache_clear()
    for cache in (*_CACHES, kernels._CACHE):
        cache.clear()
    mlir.global_thread_pool, mlir.make_ir_context = ir.ThreadPool(), _CONTEXT
    _POOLS.append(mlir.global_thread_pool)  # none is ever dropped: that would wait for the threads of another process
    if _LAST_CONTEXT is not None:
        _POOLS.append(_LAST_CONTEXT.value)
        _LAST_CONTEXT.set_local(None)
    _PRIMITIVE.def_impl(child.run)
    pjit._pjit_call_impl_python = lambda *args, **options: (child.run(*args, **options), None, None, [])
    pxla.batched_device_put = _put_aligned  # type: ignore[assignment]
    compiler.backend_compile_and_load = compiler.compile_or_get_cached = _refuse_to_compile
    if child.device is not jax.local_devices()[0]:
        jax.config.update("jax_default_device", child.device)


def _put_aligned(aval: Any, sharding: Any, xs: Any, devices: Any, committed: bool = True, **options: Any) -> Any:
    """jax's way to make arrays; its copies of memory that is not aligned would be made by threads."""
    if any(d.platform != "cpu" for d in devices):
        raise RuntimeError(f"Cannot use {devices[0]} in a forked process: keep what it makes on the CPU")
    xs = [x if isinstance(x, jax.Array) else aligned(np.asarray(x)) for x in xs]
    return pxla.xc.batched_device_put(aval, sharding, xs, list(devices), committed)


def _refuse_to_compile(*_: Any, **__: Any) -> Any:
    raise RuntimeError('XLA cannot compile in a forked process: start processes with "forkserver" or "spawn"')


def forked() -> bool:
    """Whether this process is the child of a fork of one whose XLA had started."""
    return _Fork.child is not None


if READY:
    os.register_at_fork(before=_Fork.before, after_in_parent=_Fork.in_parent, after_in_child=_Fork.in_child)
