"""From a function to code that jax's fast call can use: traced, lowered and compiled, or loaded again.

jax has no public way to give a jitted function the executable that it shall call. What is used of jax's own modules is
imported here; where it is not what it was, ``READY`` is False and kernels are jitted as usual.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from torchlike._base.dims import demand_countable
from torchlike._base.jaxprs import jaxpr_as_fun
from torchlike._executor.pending import Array

if TYPE_CHECKING:
    from jax.core import ShapedArray

    from torchlike._base.jaxprs import ClosedJaxpr
    from torchlike._decl.typed import Indices, Value

try:
    from jax._src import compiler, sharding_impls
    from jax._src.config import trace_context
    from jax._src.core import shaped_abstractify as kind_of
    from jax._src.interpreters import mlir
    from jax._src.interpreters.pxla import JitGlobalCppCacheKeys, cc_shard_arg, shard_args
    from jax._src.interpreters.pxla import MeshExecutableFastpathData as FastCall
    from jax._src.interpreters.pxla import global_aval_to_result_handler as result_handler
    from jax._src.lib import _jax, xla_client
    from jax._src.lib.mlir import ir
    from jax._src.tree_util import dispatch_registry
    from jaxlib import lapack

    READY = hasattr(_jax, "pjit") and hasattr(jax.jit(lambda: 0), "_cache_miss")
except ImportError:
    READY = False

TRIED = "0.10."  # the versions of jax that this module is tested with; with another it is tried once in each process
COMPILED = "/jax/core/compile/backend_compile_duration"
WELL = {"xla_cpu_use_fusion_emitters": False}
QUICKLY = WELL | {"xla_backend_optimization_level": 0, "xla_cpu_parallel_codegen_split_count": 1}
CONTEXTS = 200  # programs lowered in one MLIR context, which keeps their constants
# What code may call that is not its own: by the beginning of the name.
_OWN_CALLS = ("lapack_", "mhlo.", "chlo.", "TopK", "Sharding")


class Code(NamedTuple):
    """A compiled function.

    Attributes:
        executable: jax's. skeleton: its result, with the number of the array in the place of each. outs: the kinds of
        these. kept: whether it reads each argument.
    """

    executable: Any
    skeleton: Any
    outs: tuple
    kept: tuple


@functools.cache
def host() -> jax.Device | None:
    """The device whose code this module makes; None if jax computes elsewhere, or is not as this module knows it."""
    if not READY or jax.default_backend() != "cpu":
        return None
    return _device() if jax.__version__.startswith(TRIED) or _works() else None


@functools.cache
def _device() -> jax.Device:
    return jax.local_devices(backend="cpu")[0]


def _works() -> bool:
    """Whether a small function can be compiled, kept, loaded and called."""
    try:
        one = jax.device_put(np.ones(1, np.float32), _device())
        code, _ = compiled(traced(lambda x: (x + x,), (one,)), (), {})
        (out,), _ = call(unpacked(packed(code)), [one], False)
        return usual() and out.tolist() == [2]
    except Exception:  # whatever may have become of jax's own modules
        return False


@functools.cache
def place() -> SingleDeviceSharding:
    return SingleDeviceSharding(_device())


def usual() -> bool:
    """Whether no setting of jax asks for more than computing on the one device."""
    debugging = jax.config.jax_debug_nans or jax.config.jax_debug_infs or jax.config.jax_no_execution
    return not debugging and _simple_context(trace_context())


@functools.lru_cache(64)
def _simple_context(context: tuple[Any, ...]) -> bool:
    """Whether settings that tracing depends on name neither a mesh nor another device."""
    values = [x for part in context for x in (part if isinstance(part, tuple) else (part,))]
    elsewhere = [x for x in values if isinstance(x, jax.Device) and x is not _device()]
    return not elsewhere and not any("Mesh" in type(x).__name__ and not getattr(x, "empty", False) for x in values)


@functools.cache
def _devices() -> Any:
    return xla_client.DeviceList((_device(),))


def pjit(function: Callable[..., Any], miss: Callable[..., Any], cache: Any, donated: Indices = ()) -> Any:
    """The fast call of jax.jit, which asks ``miss`` what to do for arguments that it has not seen."""
    keys = JitGlobalCppCacheKeys(donate_argnums=donated)
    name = getattr(function, "__name__", "kernel")
    return _jax.pjit(name, function, miss, (), (), keys, dispatch_registry, cc_shard_arg, cache)


def cache(capacity: int) -> Any:
    """What keeps the code of fast calls; beyond ``capacity``, that which was used longest ago is dropped."""
    return _jax.PjitFunctionCache(capacity=capacity)


# -- compiling ---------------------------------------------------------------------------------------


TOO_LARGE = "array is too big", "Maximum allowed dimension exceeded"  # what numpy says of arrays that cannot be


def traced(function: Callable[..., Any], args: Sequence[Any], donated: Indices = ()) -> Any:
    """What jax traces of ``function``, for arguments or their kinds."""
    # a function of its own: what jax keeps of it is forgotten with it
    try:
        found = jax.jit(lambda *values: function(*values), donate_argnums=donated).trace(*args)
    except ValueError as error:
        if any(text in str(error) for text in TOO_LARGE):
            raise RuntimeError(f"Storage size calculation overflowed: {error}") from error
        raise
    for equation in found.jaxpr.eqns:
        for var in equation.outvars:
            aval = var.aval  # XLA ends the process at one of too many bytes
            demand_countable(getattr(aval, "shape", ()), getattr(getattr(aval, "dtype", None), "itemsize", 1))
    return found


class Known:
    """A jaxpr with flat results, in the place of what jax traces."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        self.jaxpr, self.out_info = closed, tuple(closed.out_avals)

    def lower(self) -> Any:
        """What jax lowers the jaxpr to."""
        return jax.jit(jaxpr_as_fun(self.jaxpr)).lower(*self.jaxpr.in_avals)


def compiled(found: Any, donated: Indices, options: Mapping[str, Any]) -> tuple[Code, bool] | None:
    """(code, whether another process may load it) of what was traced; None if only jax's own way can run it."""
    closed = found.jaxpr
    if closed.effects:
        return None
    if donated or not jax.__version__.startswith(TRIED):
        lowering = found.lower()._lowering
        module, kept = lowering.stablehlo(), lowering.compile_args["kept_var_idx"]
        if lowering.const_args or lowering.compile_args["host_callbacks"] or lowering.compile_args["keepalive"]:
            return None
    else:
        module, kept = _lowered(closed), range(len(closed.in_avals))
    if module is None:
        return None
    executable = loaded(module, options)
    arguments = tuple([i in kept for i in range(len(closed.in_avals))])
    code = Code(executable, skeleton(found), tuple(closed.out_avals), arguments)
    return code, portable(module) and plain(code.skeleton)


def skeleton(found: Any) -> Any:
    """The result of what was traced, with the number of the array in the place of each."""
    tree = jax.tree.structure(found.out_info)
    return jax.tree.unflatten(tree, range(tree.num_leaves))


_thread = threading.local()


def _context() -> Any:
    """The MLIR context of this thread: making one takes as long as the rest of lowering a small program."""
    uses = getattr(_thread, "uses", 0)
    if uses % CONTEXTS == 0:
        _thread.context = mlir.make_ir_context()
    _thread.uses = uses + 1
    return _thread.context


def _lowered(closed: ClosedJaxpr) -> Any:
    """The module of a jaxpr for one device; None if it calls back into Python."""
    context = mlir.ModuleContext(
        platforms=("cpu",), backend=_device().client, axis_context=sharding_impls.ShardingContext(num_devices=1),
        keepalives=[], channel_iterator=itertools.count(2), host_callbacks=[],
        lowering_parameters=mlir.LoweringParameters(), context=_context(),
    )  # fmt: skip
    with context.context, ir.Location.unknown(context.context):
        attributes = context.module.operation.attributes
        attributes["sym_name"] = ir.StringAttr.get("kernel")
        attributes["mhlo.num_replicas"] = attributes["mhlo.num_partitions"] = mlir.i32_attr(1)
        mlir.lower_jaxpr_to_fun(
            context, "kernel", closed, (), num_const_args=0, main_function=True, in_avals=closed.in_avals
        )
    return None if context.keepalives or context.host_callbacks else context.module


def loaded(module: Any, options: Mapping[str, Any]) -> Any:
    start = time.perf_counter()
    found = _device().client.compile_and_load(
        module, executable_devices=_devices(), compile_options=_options(tuple(options.items()))
    )
    jax.monitoring.record_event_duration_secs(COMPILED, time.perf_counter() - start)
    return found


@functools.cache
def _options(pairs: tuple[tuple[str, Any], ...]) -> Any:
    known = {name: setting for name, setting in pairs if jax.__version__.startswith(TRIED) or _known(name, setting)}
    return compiler.get_compile_options(
        num_replicas=1, num_partitions=1, device_assignment=np.array([[_device().id]]), backend=_device().client,
        env_options_overrides=known,
    )  # fmt: skip


@functools.cache
def _known(name: str, setting: Any) -> bool:
    """Whether this XLA has an option."""
    try:
        jax.jit(lambda: np.float32(0), compiler_options={name: setting}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def portable(module: Any) -> bool:
    """Whether a module calls nothing that another process might lack."""
    calls = []

    def look(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            calls.append(ir.StringAttr(operation.attributes["call_target_name"]).value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return all(name.startswith(_OWN_CALLS) for name in calls)


def plain(x: Any) -> bool:
    """Whether a skeleton is made of what marshal keeps."""
    if x.__class__ in (tuple, list):
        return all(map(plain, x))
    return x is None or x.__class__ is int or (x.__class__ is dict and all(map(plain, x.values())))


# -- keeping and loading -----------------------------------------------------------------------------


def facts(outs: Iterable[Any]) -> tuple[Any, ...]:
    """The kinds of arrays, as values that can be kept."""
    return tuple([(a.dtype.name, tuple(a.shape), bool(a.weak_type)) for a in outs])


def kinds(kept: Iterable[Any]) -> tuple[ShapedArray, ...]:
    """The kinds of arrays from :func:`facts`."""
    return tuple([_shaped(*facts) for facts in kept])


@functools.lru_cache(4096)
def _shaped(name: str, shape: tuple[int, ...], weak: bool) -> ShapedArray:
    return jax.core.ShapedArray(shape, np.dtype(name), weak_type=weak)


def kind(value: Value) -> ShapedArray:
    """The kind of an argument, as jax.jit sees it."""
    return value.aval if value.__class__ is Array else kind_of(value)


def struct(aval: ShapedArray) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array's kind, as jax tells them of what is not there."""
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def packed(code: Any) -> tuple[Any, ...]:
    """A compiled function as values that can be kept."""
    return code.skeleton, facts(code.outs), code.kept, _device().client.serialize_executable(code.executable)


def unpacked(value: tuple[Any, ...]) -> Code:
    """The compiled function of :func:`packed`."""
    skeleton, outs, kept, binary = value
    prepare(binary)
    executable = _device().client.deserialize_executable(
        binary,
        executable_devices=_devices(),
        compile_options=_options(()),  # another process had another device
    )
    return Code(executable, skeleton, kinds(outs), kept)


def prepare(binary: bytes) -> None:
    """See to it that what a program calls is there, as lowering does otherwise."""
    if b"lapack_" in binary:
        lapack._lapack.initialize()


_ALIGNMENT = 64  # bytes; what begins at a multiple of it, XLA takes as it is on CPU


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy of a numpy array that XLA need not copy again."""
    memory = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def put(results: Sequence[np.ndarray], outs: Sequence[ShapedArray], committed: bool) -> list[jax.Array]:
    """Arrays of the given kinds that have the numbers of numpy's; they share no memory with these."""
    found, here, devices, copied = [], place(), [_device()], xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
    for x, aval in zip(results, outs, strict=True):
        if x.shape != aval.shape or x.dtype != aval.dtype:
            raise AssertionError(f"a kernel gave {x.dtype}{x.shape} for {aval}")
        given = x if x.flags.c_contiguous else np.ascontiguousarray(x).reshape(x.shape)
        found.append(xla_client.batched_device_put(aval, here, [given], devices, committed, False, copied))
    return found


def put_few(array: np.ndarray, aval: ShapedArray, to: Any, devices: list[jax.Device], committed: bool) -> jax.Array:
    """The array, of few bytes, on the one device of ``devices``; it shares no memory with it."""
    given = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    copied = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
    return xla_client.batched_device_put(aval, to, [given], devices, committed, False, copied)


# -- calling -----------------------------------------------------------------------------------------


def call(code: Code, leaves: Sequence[Any], committed: bool) -> tuple[Any, Any]:
    """(results, what jax's fast call needs to make the same call again)."""
    leaves = [v for v, kept in zip(leaves, code.kept, strict=True) if kept]
    here, n = place(), len(leaves)
    buffers = shard_args([here] * n, [None] * n, [xla_client.ArrayCopySemantics.REUSE_INPUT] * n, leaves)
    results = code.executable.execute_sharded(buffers)
    arrays = results.consume_with_handlers([result_handler(a, here, committed) for a in code.outs])
    tree = jax.tree.structure(code.skeleton)
    out = jax.tree.unflatten(tree, arrays)
    _, fast_tree = dispatch_registry.flatten(out, None)
    many = len(arrays)
    fast = FastCall(
        code.executable, fast_tree, [here] * n, [here] * many, list(code.outs), [committed] * many, list(code.kept),
        [None] * n, [],
    )  # fmt: skip
    return out, fast
