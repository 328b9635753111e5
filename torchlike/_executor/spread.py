"""Values spread over several devices: which are, and how a value is laid out as another one.

Layout is the array's sharding, which XLA's partitioner carries through kernels. It lets go of it where a result is
not made of the old value, as in ``fill_`` or a gradient; what replaces a spread value is laid out as that was.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from torchlike._executor.pending import Array, Pending, settled
from torchlike._executor.references import sharing

if TYPE_CHECKING:
    from torchlike._decl.typed import Value

Abstract = jax.ShapeDtypeStruct
# Not empty once a value was spread in this process: before, nobody asks.
USED: list[bool] = []
# Not empty once a value lay over several processes.
SPANNING: list[bool] = []
_before_spanning: list[Callable[[], None]] = []
_watchers: list[Callable[[Any, tuple[Any, ...]], None]] = []


def noted(sharding: Sharding) -> None:
    """From now on somebody asks: a value is spread so, or about to be."""
    USED[:] = [True]
    if not SPANNING and not sharding.is_fully_addressable:
        for call in _before_spanning:
            call()
        SPANNING[:] = [True]


def before_spanning(call: Callable[[], None]) -> None:
    """Call ``call()`` before the first value over several processes is made."""
    _before_spanning.append(call)


def watch_with(watcher: Callable[[Any, tuple[Any, ...]], None], wanted: bool) -> None:
    """Tell ``watcher`` of each (program, arguments) that is about to run over several devices, or no longer."""
    (_watchers.append if wanted else _watchers.remove)(watcher)


def layout_of(value: Value) -> Sharding | None:
    """How a value is spread over several devices; None if it is not, or a tracer."""
    if value.__class__ is not Array and value.__class__ is not Pending and value.__class__ is not Abstract:
        return None
    sharding = value.sharding
    return sharding if sharding is not None and sharding.num_devices > 1 else None


def on_several_devices(error: Exception) -> bool:
    """Whether jax refuses to compute with arrays that are on different devices."""
    return isinstance(error, ValueError) and "incompatible devices" in str(error)


def beside(values: Sequence[Any], layout: Any = None) -> Sequence[Any]:
    """Leaves of a call; where some are spread over devices, what is whole on one of these is on all of them.

    layout: of what the call computes, where none is spread.
    """
    layout = next((found for v in values if (found := layout_of(v)) is not None), layout)
    if not isinstance(layout, NamedSharding):
        return values
    whole = NamedSharding(layout.mesh, PartitionSpec())
    one = [v.__class__ is Array and layout_of(v) is None and v.devices() <= layout.device_set for v in values]
    return [laid(v, whole) if alone else v for v, alone in zip(values, one, strict=True)]


def as_before(old: Value, new: Value) -> Any:
    """``new``, which takes the place of ``old`` or is made after it, laid out as that is."""
    sharding = layout_of(old)
    return new if sharding is None or new.shape != old.shape else laid(new, sharding)


def laid(value: Value, sharding: Sharding) -> Any:
    """``value`` laid out over devices; in a trace a constraint, which becomes part of the program."""
    value = settled(value)
    if isinstance(value, jax.core.Tracer):
        return jax.lax.with_sharding_constraint(value, sharding)
    noted(sharding)
    if value.__class__ is Abstract:
        return Abstract(value.shape, value.dtype, sharding=sharding)
    if value.__class__ is not Array or value.sharding == sharding:
        return value
    if value.sharding.is_equivalent_to(sharding, value.ndim) and value.committed:
        return value
    if _watchers and layout_of(value) is not None:
        told(_mover(sharding), value)
    if sharding.is_fully_addressable or not value.is_fully_addressable:
        new = jax.device_put(value, sharding)
    else:
        new = jax.make_array_from_callback(value.shape, sharding, lambda index: value[index])
    alike = sharding.shard_shape(value.shape) == value.sharding.shard_shape(value.shape)
    return sharing(new, value) if alike else new


def named(value: Value, sharding: Sharding) -> Any:
    """``value``, which lies as ``sharding`` says, with the axes of length 1 that it names, which cut nothing."""
    if value.__class__ is not Array or value.sharding == sharding:
        return value
    pieces = [piece.data for piece in value.addressable_shards]
    return sharing(jax.make_array_from_single_device_arrays(value.shape, sharding, pieces), value)


def in_order(array: Value) -> Any:
    """An array of one device as XLA lays it out by itself; ``jax.device_put`` may give it what no kernel asks for."""
    if array.__class__ is not Array or array.ndim < 2 or array.sharding.num_devices > 1:
        return array
    layout, order = array.format.layout, tuple(range(array.ndim))
    if layout is None or layout.major_to_minor == order:
        return array
    return jax.device_put(array, Format(Layout(order), array.sharding))


def told(program: Callable[..., Any], *values: Any) -> Any:
    """The program, after those who watch know that it will run."""
    for watch in _watchers:
        watch(program, values)
    return program


@functools.cache
def _mover(sharding: Sharding) -> Callable[..., Any]:
    """The program that jax runs to lay a spread array out otherwise."""
    return jax.jit(lambda x: x, out_shardings=sharding)


def copy_here(value: Value) -> Any:
    """A value that all processes have whole, as an array of this one; others as they are."""
    sharding = layout_of(value)
    if sharding is None or sharding.is_fully_addressable or not sharding.is_fully_replicated:
        return value
    return first_piece(settled(value))


def first_piece(array: jax.Array) -> jax.Array:
    """What this process's first device has of an array, as one like any other: on that device, and bound to none."""
    piece = array.addressable_shards[0].data
    (home,) = piece.devices()
    new = Array(piece.aval, SingleDeviceSharding(home), [piece], committed=home != jax.local_devices()[0])
    return sharing(new, array)


def constrained(run: Callable[..., Any], layouts: dict[int, Sharding]) -> Callable[..., Any]:
    """``run``, whose results of these numbers are laid out so."""
    if not layouts:
        return run

    @functools.wraps(run)
    def laid_out(*values: Any) -> Any:
        outs = [*run(*values)]
        for k, sharding in layouts.items():
            outs[k] = jax.lax.with_sharding_constraint(outs[k], sharding)
        return outs

    return laid_out
