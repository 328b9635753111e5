"""Collectives as programs of XLA over a mesh of one device of each process: arrays to arrays."""

import functools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from torchlike._executor.spread import first_piece
from torchlike.distributed import _runtime

AXIS = "processes"


@functools.cache
def mesh_of(ranks: tuple[int, ...]) -> Mesh:
    """The mesh of the first device of each of these processes."""
    first: dict[int, jax.Device] = {}
    for device in _runtime.devices():
        first.setdefault(device.process_index, device)
    return Mesh(np.array([first[rank] for rank in ranks]), (AXIS,))


# -- what each device computes -----------------------------------------------------------------------------------------


def _as_bits(x: jax.Array) -> jax.Array:
    """Unsigned integers that stand for the same bytes, so that a sum with zeros changes nothing."""
    if x.dtype == np.bool_:
        return x.astype(jnp.uint8)
    if jnp.iscomplexobj(x):
        x = jnp.stack([x.real, x.imag], -1)
    return lax.bitcast_convert_type(x, {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}[x.dtype.itemsize])


def _of_bits(bits: jax.Array, dtype: Any) -> jax.Array:
    if np.dtype(dtype) == np.bool_:
        return bits.astype(bool)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        parts = lax.bitcast_convert_type(bits, np.zeros(0, dtype).real.dtype)
        return lax.complex(parts[..., 0], parts[..., 1])
    return lax.bitcast_convert_type(bits, dtype)


def _exactly(move: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    """What a collective that only moves makes of ``x``; those of jax know fewer dtypes."""
    return _of_bits(move(_as_bits(x)), x.dtype)


def _of_everybody(axis: str, x: jax.Array) -> jax.Array:
    return _exactly(lambda bits: lax.all_gather(bits, axis), x)


def _reduced(axis: str, op: str, size: int, x: jax.Array) -> jax.Array:
    """The reduction of the ``x`` of all."""
    if x.dtype == bool:
        if op == "BXOR":
            return jnp.sum(_of_everybody(axis, x), 0) % 2 == 1
        reduce = lax.pmax if op in ("SUM", "MAX", "BOR") else lax.pmin
        return reduce(x.astype(jnp.int32), axis).astype(bool)
    match op:
        case "SUM":
            return lax.psum(x, axis)
        case "AVG":
            return (lax.psum(x, axis) / size).astype(x.dtype)
        case "MIN":
            return lax.pmin(x, axis)
        case "MAX":
            return lax.pmax(x, axis)
    return _folded(op, _of_everybody(axis, x))


def _folded(op: str, stacked: jax.Array) -> jax.Array:
    """A reduction over the first dimension of what was brought together."""
    if stacked.dtype == bool:
        stacked = stacked.astype(jnp.uint8)
        return _folded({"SUM": "MAX", "PRODUCT": "MIN"}.get(op, op), stacked).astype(bool)
    functions: dict[str, Callable] = {
        "SUM": jnp.add, "AVG": jnp.add, "PRODUCT": jnp.multiply, "MIN": jnp.minimum, "MAX": jnp.maximum,
        "BAND": jnp.bitwise_and, "BOR": jnp.bitwise_or, "BXOR": jnp.bitwise_xor,
    }  # fmt: skip
    whole = functools.reduce(functions[op], list(stacked))
    return (whole / len(stacked)).astype(stacked.dtype) if op == "AVG" else whole


def _broadcast(axis: str, root: int, x: jax.Array) -> jax.Array:
    return _exactly(lambda bits: lax.psum(jnp.where(lax.axis_index(axis) == root, bits, 0), axis), x)


def _exchanged(axis: str, x: jax.Array) -> jax.Array:
    """``x[i]`` to process i; what comes stands in the same order."""
    return _exactly(lambda bits: lax.all_to_all(bits, axis, 0, 0), x)


def _addends(axis: str, size: int, x: jax.Array) -> jax.Array:
    """What makes the sum of the ``x`` of all with this one's: the other one's, or of more than two processes the sum.

    XLA runs a program that only moves in the thread that launches it, and others behind all that its pool has to do.
    """
    if size == 2:
        return lax.ppermute(x, axis, [(0, 1), (1, 0)])
    return lax.psum(x, axis)


def _bucket(axis: str, op: str, size: int, *xs: jax.Array) -> tuple[jax.Array, ...]:
    """The reduction of several arrays of one dtype as one collective."""
    flat = _reduced(axis, op, size, jnp.concatenate([x.reshape(-1) for x in xs]))
    ends = np.cumsum([x.size for x in xs])[:-1].tolist()
    return tuple(part.reshape(x.shape) for part, x in zip(jnp.split(flat, ends), xs, strict=True))


_KINDS: dict[str, Callable[..., Any]] = {
    "reduce": _reduced,
    "bucket": _bucket,
    "addends": _addends,
    "broadcast": lambda axis, root, size, *xs: tuple(_broadcast(axis, root, x) for x in xs),
    "gather": lambda axis, size, x: _of_everybody(axis, x),
    "exchange": lambda axis, size, x: _exchanged(axis, x),
    "scatter_reduce": lambda axis, op, size, x: _folded(op, _exchanged(axis, x)),
}


def computed(axis: str, kind: str, static: tuple, size: int, xs: Sequence[Any]) -> Any:
    """What each of ``size`` devices along an axis computes; see :func:`launch`."""
    return _KINDS[kind](axis, *static, size, *xs)


@functools.cache
def _program(kind: str, ranks: tuple[int, ...], static: tuple, count: int, alone: tuple[bool, ...]) -> Callable:
    """The compiled collective. ``alone``: which inputs are numbers, which travel as arrays of one element."""

    def local(*xs: jax.Array) -> Any:
        xs = tuple(x.reshape(()) if one else x for x, one in zip(xs, alone, strict=True))
        outs = computed(AXIS, kind, static, len(ranks), xs)
        return jax.tree.map(lambda y: y.reshape(1) if y.ndim == 0 else y, outs)

    spec = PartitionSpec(AXIS)
    local.__name__ = f"{kind}_of_{count}"
    return jax.jit(jax.shard_map(local, mesh=mesh_of(ranks), in_specs=(spec,) * count, out_specs=spec, check_vma=False))


def launch(kind: str, ranks: tuple[int, ...], static: tuple, xs: Sequence[Any]) -> list[jax.Array]:
    """Run a collective; gives this process's results.

    Args:
        kind: "reduce" (op), "bucket" (op), "addends" (for one array: those whose sum is that of all), "broadcast"
            (root), "gather" (a new first dimension), "exchange" and "scatter_reduce" (op), which take a first dimension
            of the number of processes.
        ranks: the processes, of which this is one. static: what stands in parentheses above.
    """
    if len(ranks) == 1:
        return [trivial(kind, 1, x) for x in xs]
    if any(x.size == 0 for x in xs):
        return beside_empty(kind, len(ranks), xs, lambda full: launch(kind, ranks, static, full))
    sharding = NamedSharding(mesh_of(ranks), PartitionSpec(AXIS))
    whole = [_lifted(x, len(ranks), sharding) for x in xs]
    alone = tuple(x.ndim == 0 for x in xs)
    if kind == "addends":
        jax.block_until_ready(whole)  # where XLA has to wait it lets the pool run the program
    outs = _program(kind, ranks, static, len(xs), alone)(*whole)
    outs = list(outs) if isinstance(outs, tuple) else [outs]
    outs = [at_home(first_piece(y)) for y in outs]
    if kind == "addends" and len(ranks) == 2:
        (x,), home = xs, outs[0].devices()
        outs.insert(0, x if x.devices() == home else jax.device_put(x, *home))
    if kind in ("reduce", "bucket", "broadcast"):
        outs = [y.reshape(()) if one else y for y, one in zip(outs, alone, strict=True)]
    return outs


def at_home(piece: jax.Array) -> jax.Array:
    """What came, where this process computes."""
    if _runtime.connection.apart is None:
        return piece
    return first_piece(jax.device_put(piece, jax.local_devices()[0], may_alias=False))


def trivial(kind: str, size: int, x: Any) -> jax.Array:
    """The result where there is nothing to bring together: of one process, or without elements."""
    match kind:
        case "gather":
            return jnp.broadcast_to(x, (size, *x.shape))
        case "scatter_reduce":
            return x[0]
    return x


def alone(kind: str, rank: int, size: int, xs: Sequence[Any]) -> list[Any]:
    """What a process of a group that there is only in its mind gets: as if the others had given what it gives."""
    return [x[rank] if kind == "scatter_reduce" else trivial(kind, size, x) for x in xs]


def beside_empty(
    kind: str, size: int, xs: Sequence[Any], run: Callable[[Sequence[Any]], Sequence[Any]]
) -> list[jax.Array]:
    """The results of arrays some of which are empty: ``run`` of the others, and :func:`trivial`."""
    full = [i for i, x in enumerate(xs) if x.size]
    outs = [trivial(kind, size, x) for x in xs]
    for i, y in zip(full, run([xs[i] for i in full]) if full else (), strict=True):
        outs[i] = y
    return outs


def _lifted(x: Any, size: int, sharding: NamedSharding) -> jax.Array:
    """The array of all processes whose part here is ``x``."""
    home = sharding.mesh.local_devices[0]
    x = x.reshape(1) if x.ndim == 0 else x
    if not isinstance(x, jax.Array) or x.devices() != {home}:
        x = jax.device_put(x, home, may_alias=False)  # the other may be overwritten meanwhile
    shape = (size * x.shape[0], *x.shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, [x])


# -- what this thread has launched -------------------------------------------------------------------------------------


def launched() -> list[jax.Array]:
    """Arrays that are here once all programs are done which this thread has launched on devices of this process.

    XLA runs the programs of a thread in their order: those of one device, and those of several.
    """
    return [program(value) for program, value in _fences()]


@functools.cache
def _fences() -> list[tuple[Any, jax.Array]]:
    devices = jax.local_devices()
    mesh = Mesh(np.array(devices), (AXIS,))
    places: list[Any] = [SingleDeviceSharding(d) for d in devices]
    places += [NamedSharding(mesh, PartitionSpec(AXIS))] * (len(devices) > 1)
    values = [jax.device_put(np.zeros(len(place.device_set)), place) for place in places]
    return [(jax.jit(jnp.negative).lower(value).compile(), value) for value in values]


# -- waiting with an end -----------------------------------------------------------------------------------------------


class Arrival:
    """A collective that begins and ends in a thread of its own: XLA may wait for the others in both, without an end.

    There ``finish`` takes what came, so that whoever does not wait has it too: its value is the ``result``. An
    ``error`` is the transport's unless it ``timed_out``, of ``finish``.
    """

    def __init__(self, begin: Callable[[], list[jax.Array]], finish: Callable[[list[jax.Array]], Any] = list) -> None:
        self._begin, self._finish = begin, finish
        self._here = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None
        self.timed_out = False
        _line.put(self)

    def is_here(self) -> bool:
        """Whether nothing is awaited."""
        return self._here.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Whether it is here within some seconds (None: as long as it takes); ``error`` is then what went wrong."""
        return self._here.wait(seconds)

    def run(self) -> None:
        """Wait for ever."""
        try:
            arrays = [array.block_until_ready() for array in self._begin()]
            self.timed_out = True
            self.result = self._finish(arrays)
        except Exception as error:
            self.error = error
        del self._begin, self._finish
        self._here.set()


class _Line:
    """A thread that runs one collective after the other, in the order in which they were called."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
        self._lock, self._started = threading.Lock(), False

    def put(self, arrival: Arrival) -> None:
        with self._lock:
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True, name="torchlike-collectives").start()
        self._waiting.put(arrival)

    def _run(self) -> None:
        while True:
            self._waiting.get().run()


_line = _Line()
