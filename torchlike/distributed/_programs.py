"""Compiled functions with collectives: one program over the processes of a group, run as a collective is."""

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.array import ArrayImpl
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from torchlike._base.state import state
from torchlike._executor import together
from torchlike.distributed import _calls, _xla
from torchlike.distributed.distributed_c10d import ProcessGroup, group_of


class Together:
    """A function of local arrays to a list of local arrays and one number more, which is dropped.

    Each array is a part of one that all processes have. Numbers travel in one array for each dtype.
    """

    def __init__(self, function: Callable[..., Any], ranks: tuple[int, ...]) -> None:
        self.function, self.ranks = function, ranks
        self._axis = together.traced(ranks, str)
        self._mesh = Mesh(_xla.mesh_of(ranks).devices, (self._axis,))
        self._sharding = NamedSharding(self._mesh, PartitionSpec(self._axis))
        self._home = self._mesh.local_devices[0]
        self._compiled: Any = None
        self._numbers: list[bool] = []  # which results are numbers

    def __call__(self, *values: Any) -> list[jax.Array]:
        for value in values:
            if not isinstance(value, jax.Array | np.ndarray | np.generic | int | float | complex):
                raise TypeError(
                    f"a value of {type(value).__name__} cannot be an input of a program of several processes"
                )
        group = group_of(self.ranks)
        lifted = self._lifted([x if isinstance(x, jax.Array) else jnp.asarray(x) for x in values])
        if self._compiled is None:
            self._compiled = self.lower(*values).compile()  # here, since nobody waits for a compiler
        facts = ["program", *(f"{x.dtype}{list(x.shape)}" for x in lifted if x.size)]
        work = _calls.begun(group, "compiled function", facts, lambda: self._run(lifted), list)
        work.wait()
        return work.result()

    def lower(self, *values: Any) -> Any:
        """The program as jax lowers it."""
        given = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in values]
        places = _packing([x.dtype if x.ndim == 0 else None for x in given])

        def local(*arrays: jax.Array) -> tuple[jax.Array, ...]:
            *outs, anchor = self.function(*_unpacked(arrays, places))
            self._numbers = [y.ndim == 0 for y in outs]
            return (*[y.reshape(1) if y.ndim == 0 else y for y in outs], anchor.reshape(1))

        spec = PartitionSpec(self._axis)
        program = jax.shard_map(local, mesh=self._mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.jit(program).lower(*self._lifted(given))

    def _lifted(self, values: Sequence[jax.Array]) -> list[jax.Array]:
        """The arrays of all processes whose parts here are these; numbers are packed."""
        return [self._lift(x) for x in _packed(values)]

    def _lift(self, x: Any) -> jax.Array:
        if not x.is_fully_addressable or len(x.devices()) > 1 or x.devices() != {self._home}:
            x = jax.device_put(x, self._home, may_alias=False)
        aval = x.aval.update(shape=(len(self.ranks) * x.shape[0], *x.shape[1:]), weak_type=False)
        return ArrayImpl(aval, self._sharding, [x], committed=True)

    def _run(self, lifted: list[jax.Array]) -> list[jax.Array]:
        outs = self._compiled(*lifted)[:-1]
        parts = [y.addressable_shards[0].data for y in outs]
        free = self._home == jax.local_devices()[0]
        parts = [ArrayImpl(p.aval, SingleDeviceSharding(self._home), [p], committed=not free) for p in parts]
        parts = [_xla.at_home(p) for p in parts]
        found = [p for p, one in zip(parts, self._numbers, strict=True) if one]
        numbers = iter(_scalars(tuple(found)) if found else ())
        return [next(numbers) if one else p for p, one in zip(parts, self._numbers, strict=True)]


@jax.jit
def _scalars(parts: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    return tuple(part.reshape(()) for part in parts)


@functools.partial(jax.jit, static_argnums=1)
def _stacked(numbers: tuple[jax.Array, ...], order: tuple[tuple[int, ...], ...]) -> list[jax.Array]:
    return [jnp.stack([numbers[i] for i in places]) for places in order]


def _packing(kinds: Sequence[Any]) -> list[tuple[int, ...]]:
    """For each dtype of numbers their places; ``kinds``: the dtype of each number, None for an array."""
    places: dict[Any, list[int]] = {}
    for i, kind in enumerate(kinds):
        if kind is not None:
            places.setdefault(str(kind), []).append(i)
    return [tuple(found) for found in places.values()] + [tuple(i for i, kind in enumerate(kinds) if kind is None)]


def _packed(values: Sequence[jax.Array]) -> list[jax.Array]:
    *packs, arrays = _packing([x.dtype if x.ndim == 0 else None for x in values])
    numbers = [i for pack in packs for i in pack]
    where = {i: k for k, i in enumerate(numbers)}
    order = tuple(tuple(where[i] for i in pack) for pack in packs)
    stacked = _stacked(tuple(values[i] for i in numbers), order) if numbers else []
    return [*stacked, *[values[i] for i in arrays]]


def _unpacked(arrays: Sequence[jax.Array], places: Sequence[tuple[int, ...]]) -> list[jax.Array]:
    *packs, rest = places
    found: dict[int, jax.Array] = dict(zip(rest, arrays[len(packs) :], strict=True))
    for pack, array in zip(packs, arrays, strict=False):
        found.update((i, array[k]) for k, i in enumerate(pack))
    return [found[i] for i in range(len(found))]


def traced(group: ProcessGroup, kind: str, static: tuple, arrays: Sequence[Any]) -> list[Any]:
    """What :func:`_xla.launch` gives, as a part of the program that is being traced.

    The programs of ranks need not be equal, as one may have no use for what another one returns. So XLA must neither
    leave a collective out nor change their order: each one needs a number of the one before it.
    """
    if any(x.size == 0 for x in arrays):
        return _xla.beside_empty(kind, group.size(), arrays, lambda full: traced(group, kind, static, full))
    every = [tuple(arrays)] if kind != "broadcast" else [(x,) for x in arrays]
    return [y for xs in every for y in _next(group, kind, static, xs)]


def _next(group: ProcessGroup, kind: str, static: tuple, arrays: Sequence[Any]) -> Sequence[Any]:
    before = _last.get(state.capture)
    if before is not None:
        always = (before == before) | (before != before)  # true, which XLA cannot know of a number that may be NaN
        arrays = [jnp.where(always, x, jnp.zeros_like(x)) for x in arrays]
    outs = together.traced(group.ranks, lambda axis: _xla.computed(axis, kind, static, group.size(), arrays))
    outs = outs if isinstance(outs, tuple) else (outs,)
    _last[state.capture] = together.first_of(outs[0])
    return outs


_last: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # a number of a capture's latest collective


together.run_with(Together)
_calls._PART[:] = [traced]
