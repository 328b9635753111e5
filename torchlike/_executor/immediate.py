"""Immediate execution: one cached, compiled kernel per operator and static arguments.

Shapes and dtypes are keys of jax.jit itself. ``meta`` tensors hold ``jax.ShapeDtypeStruct`` values;
a call that meets one infers shapes instead of computing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from torchlike._base import exhausted
from torchlike._base.bits import X64, demand_x64, narrowed
from torchlike._base.device import first, stays
from torchlike._base.state import state
from torchlike._executor import level, sparse
from torchlike._executor.compiling import READY, aligned, put_few
from torchlike._executor.kernels import jit
from torchlike._executor.pending import NUMPYS, Pending, all_settled, as_numpy, place_of, settled, trace_state_clean
from torchlike._executor.rows import Rows
from torchlike._executor.spread import layout_of

if TYPE_CHECKING:
    from torchlike._decl.derive import Kernel
    from torchlike._decl.plan import Plan
    from torchlike._decl.typed import Forward, Identity, Static, Value, Values

try:
    from jax._src.interpreters.pxla import batched_device_put
except ImportError:  # no public name is as fast
    batched_device_put = None  # type: ignore[assignment]

Abstract = jax.ShapeDtypeStruct
Tracer = jax.core.Tracer


def compiled(op: Kernel, static: Static) -> Callable[..., Any]:
    """The compiled kernel of ``op`` for ``static``, made on first use."""
    found = op.kernels.get(static)
    if found is None:
        if any([_holds_tensor(x) for x in static]):
            raise TensorInStatic(f"{op.name}(): a tensor was given where a number selects the kernel")
        function = op.forward(static)
        if op.checked is not None:
            function = _with_verdict(function, op.verdict(static))
        found = op.kernels[static] = jit(function, named(op, static), closed=op.closed, rows=_rows(op, static))
    return found


class TensorInStatic(TypeError):
    """A static argument is a tensor: its number selects the kernel, and the caller is to read it."""


def _holds_tensor(x: Any) -> bool:
    return any(map(_holds_tensor, x)) if type(x) is tuple else hasattr(type(x), "__torch_function__")


def _rows(op: Kernel, static: Static) -> Rows | None:
    """Which inputs have rows that the kernel of ``op`` treats apart."""
    if op.checked is not None or op.rows is None:
        return None
    return Rows(functools.partial(op.with_rows, static))


def named(op: Kernel, static: Static) -> Identity:
    """What tells the kernel of ``op`` for ``static`` from all others; None if that is not known."""
    identity = op.identity()
    return None if identity is None else (identity, static)


def _with_verdict(forward: Forward, verdict: Forward) -> Forward:
    return lambda *values: (forward(*values), verdict(*values))


def verified(op: Kernel | Plan, static: Static, values: Values, out: Any) -> Any:
    """The result of a checked operator; raises what its check says about concrete values."""
    result, bad = out
    if bad is None:
        return result
    if bad.__class__ is Pending:
        state.recorder.watch(bad, op, static, values)
        return result
    if not isinstance(bad, Tracer | Abstract) and (bad.__class__ is bool or as_numpy(bad)):
        error = op.examine(static, values)[1]
        raise error() if callable(error) else error
    if state.capture is not None:
        state.capture.examine(bad, op, static, values)
    return result


def run(op: Kernel, static: Static, values: Values) -> Any:
    """The result (or tuple of results) of ``op`` on ``values``; numbers may be Python numbers."""
    kernel = op.kernels.get(static) or compiled(op, static)
    recorder = state.recorder
    try:
        return kernel(*values) if recorder is None else recorder.record(kernel, values, op.name)
    except (TypeError, ValueError):
        if any(type(v) is Abstract for v in values):
            return infer(kernel, values)
        if recorder is None and any(type(v) is Pending for v in values):
            return kernel(*all_settled(values))
        if level.holds(values):
            return level.run(op, static, values)
        if sparse.holds(values):
            return sparse.LAYER.run(op, static, values)
        raise
    except exhausted.EXHAUSTED as error:
        raise exhausted.told(error) from None


def infer(kernel: Callable[..., Any], values: Values) -> Any:
    """Results on the meta device: shapes and dtypes only. What is made of one spread tensor alone lies as that does."""
    given = [v for v in values if type(v) is Abstract]
    like = given[0] if len(given) == 1 and given[0].sharding is not None else None

    def result(s: Any) -> Abstract:
        layout = like.sharding if like is not None and like.shape == s.shape else None
        return Abstract(s.shape, s.dtype, sharding=layout)

    return jax.tree.map(result, jax.eval_shape(kernel, *values))


def cast(value: Value, dtype: Any) -> Any:
    """``value`` in another dtype."""
    if type(value) is Abstract:
        return Abstract(value.shape, dtype, sharding=value.sharding)
    if type(value) is not Pending:
        return value.astype(dtype)
    recorder = state.recorder
    return settled(value).astype(dtype) if recorder is None else recorder.record(_caster(dtype), (value,), "to")


@functools.lru_cache(None)
def _caster(dtype: Any) -> Callable[..., Any]:
    return jit(lambda value: value.astype(dtype), ("to", np.dtype(dtype)))


COPIES = 4  # arrays of zeros or ones of a shape that are numpy's; then a kernel is made for them
LARGE = 1 << 20  # elements from which an accelerator makes them itself
_copies: dict = {}


def _filled(shape: Sequence[int], dtype: Any, one: bool, device: jax.Device | None = None) -> jax.Array:
    """An array of zeros or ones, on a device or where jax computes."""
    key = shape, dtype, one
    made = _copies.get(key, 0)
    made_there = device is not None and device.platform != "cpu" and math.prod(shape) > LARGE
    if made >= COPIES or made_there or len(shape) > NUMPYS or not trace_state_clean():
        if device is None:
            return _filler(*key)()
        try:
            with jax.default_device(device):
                return jax.device_put(_filler(*key)(), device)
        except (ValueError, OverflowError):
            raise too_large(shape, dtype) from None
        except exhausted.EXHAUSTED as error:
            raise exhausted.told(error) from None
    if len(_copies) > 4096:
        _copies.clear()
    _copies[key] = made + 1
    try:
        return uploaded((np.ones if one else np.zeros)(shape, dtype), device)
    except (ValueError, MemoryError):  # of more bytes than a number or the memory holds
        raise too_large(shape, dtype) from None


def too_large(shape: Sequence[int], dtype: Any) -> RuntimeError:
    """The error of a tensor that no memory, or no array, holds."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size >= 2**63:
        return RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    return RuntimeError(
        f"can't allocate memory: you tried to allocate {size} bytes for a tensor of sizes {list(shape)}"
    )


@functools.lru_cache(4096)
def _filler(shape: Sequence[int], dtype: Any, one: bool) -> Callable[..., Any]:
    make = jnp.ones if one else jnp.zeros
    return jit(lambda: make(shape, dtype), ("filler", shape, np.dtype(dtype), one))


def zeros(shape: Sequence[int], dtype: Any, device: jax.Device | None = None) -> jax.Array:
    """An array of zeros."""
    return _filled(shape, dtype, False, device)


def ones(shape: Sequence[int], dtype: Any, device: jax.Device | None = None) -> jax.Array:
    """An array of ones."""
    return _filled(shape, dtype, True, device)


def uploaded(array: Any, device: jax.Device | None = None) -> jax.Array:
    """A numpy array as a jax array that shares no memory with it.

    ``jax.numpy.array`` would compile a program for each shape and dtype, and ``jax.device_put`` takes 30 us.
    """
    wide = jax.config.jax_enable_x64
    if not (X64 and wide):
        demand_x64(wide)
        array = narrowed(array)
    if not trace_state_clean():
        array = jnp.array(array)
        return array if device is None else jax.device_put(array, device)
    few = wide and array.nbytes <= _FEW_BYTES and READY and batched_device_put is not None  # None after a fork
    if few and (to := device or _usual_device()) is not None:
        return put_few(array, _aval(array.shape, array.dtype), *_placed(to), device is not None)
    return adopted(aligned(array), device, wide)


_FEW_BYTES = 1 << 14  # up to here memory that XLA would share takes longer to find than XLA takes to copy


def _usual_device() -> jax.Device | None:
    """The device of arrays that may go anywhere, or None where jax is told of something else than a device."""
    found = jax.config.jax_default_device or first()
    return found if isinstance(found, jax.Device) else None


@functools.cache
def _placed(device: jax.Device) -> tuple[SingleDeviceSharding, list[jax.Device]]:
    return SingleDeviceSharding(device), [device]


def put_beside(array: np.ndarray, like: Any) -> jax.Array:
    """As :func:`uploaded`, where ``like``, an array or what stands for one, lies; while jax traces too."""
    place, committed = like.sharding, like._committed
    if batched_device_put is None or not (X64 and jax.config.jax_enable_x64):
        with jax.ensure_compile_time_eval():
            return uploaded(array, next(iter(place.device_set)) if committed else None)
    aval = _aval(array.shape, array.dtype)
    if READY and array.nbytes <= _FEW_BYTES and place.__class__ is SingleDeviceSharding:
        return put_few(array, aval, place, [place._device], committed)
    return batched_device_put(aval, place, [aligned(array)], list(place.device_set), committed=committed)


@functools.lru_cache(4096)
def _aval(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return jax.core.ShapedArray(shape, dtype)


def adopted(array: np.ndarray, device: jax.Device | None = None, wide: bool = True) -> jax.Array:
    """A numpy array as a jax array, which shares its memory where that begins at a multiple of 64 bytes."""
    place = place_of(()) if device is None else SingleDeviceSharding(device)
    if batched_device_put is None or place is None or not wide:
        return jax.device_put(array, device)
    aval = jax.core.ShapedArray(array.shape, array.dtype)
    return batched_device_put(aval, place, [array], list(place.device_set), committed=device is not None)


def full(shape: tuple[int, ...], number: Any, dtype: Any, like: Value = None) -> Any:
    """An array of one number, without a kernel, laid out as ``like`` where that is of its shape and spread.

    No device ever has more of it than its own part, and where ``like`` is a shape alone this is one too.
    """
    sharding = layout_of(like) if like is not None and like.shape == shape else None
    if like.__class__ is Abstract:
        return Abstract(shape, dtype, sharding=sharding)
    if sharding is None:
        return jnp.full(shape, number, dtype) if len(shape) > NUMPYS else uploaded(np.full(shape, number, dtype))
    part = np.full(sharding.shard_shape(shape), number, dtype)
    return jax.make_array_from_callback(shape, sharding, lambda index: part)


def where(values: Iterable[Any]) -> jax.Device | None:
    """The device of the first array of these, for a new one beside them; None where that may go anywhere."""
    if stays():
        for v in values:
            if isinstance(v, jax.Array | Pending) and not isinstance(v, Tracer) and len(found := v.devices()) == 1:
                return next(iter(found))
    return None


def zeros_beside(shape: Sequence[int], dtype: Any, values: Iterable[Any]) -> jax.Array:
    """An array of zeros where other values are."""
    return _filled(shape, dtype, False, where(values))


_ones: dict = {}
SHARED: set = set()  # the ids of these arrays, which are never forgotten


def own(array: Any) -> Any:
    """The array, or another in the place of one that is shared: a user's program may donate what it is given."""
    return _filled(array.shape, array.dtype, True, where((array,))) if id(array) in SHARED else array


def one(shape: Sequence[int], dtype: Any, device: jax.Device | None = None) -> jax.Array:
    """The array of ones of a shape with one element; made once, since arrays never change."""
    found = _ones.get((shape, dtype, device))
    if found is None or state.capture is not None:  # a program must not take a shared array for that of a tensor
        found = ones(shape, dtype, device)
        if state.capture is None and not isinstance(found, jax.core.Tracer):
            _ones[shape, dtype, device] = found
            SHARED.add(id(found))
    return found
