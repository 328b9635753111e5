"""Placements as shardings of jax and back, and arrays of all processes from those of one and back."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from torchlike._executor.pending import settled
from torchlike._executor.references import sharing
from torchlike._executor.spread import Abstract, laid, noted, told
from torchlike.distributed._watch import waiting, watched
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor.placement_types import Cutting, Partial, Placement, Replicate, Shard, _StridedShard

Placements = tuple[Placement, ...]


def checked(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int, function: str) -> Placements:
    """Placements, one for each dimension of a mesh (None: replicated), with dimensions counted from the front.

    Raises ValueError for another number of them, TypeError for what is none; for a dimension that the tensor has not
    RuntimeError, IndexError or AssertionError, as PyTorch does in each function.
    """
    if placements is None:
        return (Replicate(),) * mesh.ndim
    found = (placements,) if isinstance(placements, Placement) else tuple(placements)
    if len(found) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {len(found)}, "
            f"and device_mesh.ndim: {mesh.ndim}."
        )
    return tuple(_normalized(p, ndim, function) for p in found)


def _normalized(p: Any, ndim: int, function: str) -> Placement:
    if not isinstance(p, Placement):
        raise TypeError(f"{function}(): a placement must be Shard(dim), Replicate() or Partial(), got {p!r}")
    if not isinstance(p, Cutting):
        return p
    dim = p.dim + ndim if p.dim < 0 else p.dim
    if not 0 <= dim < ndim:
        raise _refused(p.dim, ndim, function)(f"Sharding dim {p.dim} greater than tensor ndim {ndim}")
    return dataclasses.replace(p, dim=dim)


def _refused(dim: int, ndim: int, function: str) -> type[Exception]:
    if function == "from_local":
        return RuntimeError
    if function == "distribute_tensor" and (dim != ndim or ndim == 0) or function == "redistribute" and dim < 0:
        return AssertionError
    return IndexError


def sharding_for(
    mesh: DeviceMesh, placements: Placements, shape: Sequence[int], function: str, strict: bool = False
) -> NamedSharding:
    """The sharding of a tensor of ``shape``; what is partial is whole, since XLA has reduced it.

    A dimension that cannot be cut into equal parts is whole too; NotImplementedError where that is ``strict``.
    """
    uneven = unequal(mesh, placements, shape)
    if uneven and strict:
        raise NotImplementedError(
            f"{function}(): dimension {uneven[0]} of the shape {list(shape)} cannot be cut into equal parts; pad it, "
            "or use Replicate()"
        )
    return NamedSharding(mesh.jax_mesh, spec_of(mesh, placements, uneven))


def spec_of(mesh: DeviceMesh, placements: Placements, but: Sequence[int] = ()) -> PartitionSpec:
    """What placements say of each dimension of a tensor; nothing of some."""
    cut = {
        dim: [a for i in order for a in mesh.axes[i]] for dim, order in cuts(mesh, placements).items() if dim not in but
    }
    entries = [tuple(cut.get(d, ())) or None for d in range(max(cut, default=-1) + 1)]
    return PartitionSpec(*[e[0] if e and len(e) == 1 else e for e in entries])


def cuts(mesh: DeviceMesh, placements: Placements) -> dict[int, list[int]]:
    """For each dimension of a tensor those of the mesh that cut it, one after the other.

    NotImplementedError for a _StridedShard that no later dimensions of the mesh make.
    """
    found: dict[int, list[int]] = {}
    for i in reversed(range(len(placements))):
        p = placements[i]
        if not isinstance(p, Cutting):
            continue
        order, at, parts = found.setdefault(p.dim, []), 0, 1
        wanted = p.split_factor if isinstance(p, _StridedShard) else 1
        while parts < wanted and at < len(order):
            parts *= mesh.shape[order[at]]
            at += 1
        if parts != wanted:
            raise NotImplementedError(
                f"DTensor: {p!r} is supported where later dimensions of the mesh cut dimension {p.dim} into "
                f"{wanted} parts, but {placements} over {mesh.shape} do not"
            )
        order.insert(at, i)
    return found


def unequal(mesh: DeviceMesh, placements: Placements, shape: Sequence[int]) -> list[int]:
    """The dimensions that placements cut into parts which are not all equal."""
    parts: dict[int, int] = {}
    for p, n in zip(placements, mesh.shape, strict=True):
        if isinstance(p, Cutting):
            parts[p.dim] = parts.get(p.dim, 1) * n
    return [dim for dim, n in parts.items() if shape[dim] % n]


def own_rows(mesh: DeviceMesh, placements: Placements, shape: Sequence[int], function: str) -> dict[int, slice]:
    """Which rows this process has of the dimensions that are not cut into equal parts: each part but the last is full.

    NotImplementedError where several dimensions of a mesh cut one of them for a process that has several devices.
    """
    found: dict[int, slice] = {}
    if alone():
        return found
    here, grid = local_mesh(mesh.jax_mesh), mesh.jax_mesh
    for dim in unequal(mesh, placements, shape):
        by = [(mesh.axes[i], mesh.shape[i]) for i in cuts(mesh, placements)[dim]]
        start, stop = 0, shape[dim]
        for axes, n in by:
            (first, last), length = _places(grid, here, axes), stop - start
            if last > first and len(by) > 1:
                raise NotImplementedError(
                    f"{function}(): dimension {dim} of the shape {list(shape)} is cut into unequal parts by several "
                    "dimensions of a mesh, of which this process has several devices; use Replicate()"
                )
            full = -(-length // n)
            start, stop = start + min(length, first * full), start + min(length, (last + 1) * full)
        found[dim] = slice(start, stop)
    return found


def _places(grid: Mesh, here: Mesh, axes: Sequence[str]) -> tuple[int, int]:
    """Where along a dimension this process's devices begin and end."""
    corner, end = here.devices.flat[0], here.devices.flat[-1]
    at = [dict(zip(grid.axis_names, np.argwhere(grid.devices == d)[0].tolist(), strict=True)) for d in (corner, end)]
    lengths = [grid.shape[a] for a in axes]
    first, last = (int(np.ravel_multi_index([a[name] for name in axes], lengths)) for a in at)
    return first, last


def placements_of(sharding: Any, mesh: DeviceMesh) -> Placements:
    """How the dimensions of a mesh hold an array of this sharding."""
    spec = tuple(getattr(sharding, "spec", ()))
    where: dict[str, tuple[int, int]] = {}
    for dim, entry in enumerate(spec):
        for at, axis in enumerate((entry,) if isinstance(entry, str) else entry or ()):
            where[axis] = dim, at
    return tuple(_along(i, where, mesh) for i in range(mesh.ndim))


def _along(i: int, where: dict[str, tuple[int, int]], mesh: DeviceMesh) -> Placement:
    if mesh.axes[i][0] not in where:
        return Replicate()
    dim, at = where[mesh.axes[i][0]]
    later = [(j, where.get(mesh.axes[j][0])) for j in range(i + 1, mesh.ndim)]
    before = math.prod([mesh.shape[j] for j, place in later if place and place[0] == dim and place[1] < at])
    return Shard(dim) if before == 1 else _StridedShard(dim, split_factor=before)


def described(p: Placement) -> tuple[str, int] | tuple[str, int, int]:
    """A placement in a pickle; what is partial is whole there."""
    if isinstance(p, _StridedShard):
        return "strided", p.dim, p.split_factor
    return ("shard", p.dim) if isinstance(p, Shard) else ("replicate", 0)


def placed(kind: str, dim: int, split_factor: int = 1) -> Placement:
    """The placement of a pickle."""
    if kind == "strided":
        return _StridedShard(dim, split_factor=split_factor)
    return Shard(dim) if kind == "shard" else Replicate()


def alone() -> bool:
    """Whether this process has all devices: then its part of a tensor is the whole."""
    return jax.process_count() == 1


def whole(value: Any, sharding: NamedSharding) -> Any:
    """The array that lies as ``sharding`` says, of one that every process has whole."""
    if alone():
        return laid(value, sharding)
    with waiting():
        return laid(value, sharding)


def joined(
    value: Any, mesh: DeviceMesh, placements: Placements, function: str, out: NamedSharding | None = None,
    shape: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """The array of all processes whose part here is ``value``; what is partial is reduced over the processes.

    ``out``: how it is to lie after a reduction. ``shape``: of the whole, where parts are not all equal.
    """
    value = settled(value)
    if alone():
        _checked_op({p.reduce_op for p in placements if isinstance(p, Partial)}, function)
        return laid(value, out or sharding_for(mesh, placements, value.shape, function))
    if isinstance(value, jax.core.Tracer):
        raise NotImplementedError(
            f"{function}(): parts of several processes cannot be brought together in a compiled program; compile what "
            "computes with the part, or use whole DTensors"
        )
    with waiting():
        if shape is None or not unequal(mesh, placements, shape):
            found = _joined(value, mesh, placements, function, out)
        else:
            found = _of_unequal(value, mesh, placements, function, tuple(shape))
    watched(found)
    return found


def _of_unequal(value: Any, mesh: DeviceMesh, placements: Placements, function: str, shape: tuple[int, ...]) -> Any:
    """Parts that are filled up to the length of the first; what follows the whole is cut off again."""
    if any(isinstance(p, Partial) for p in placements):
        raise NotImplementedError(f"{function}(): parts that are not equal beside Partial ones are not supported")
    here, padding = local_mesh(mesh.jax_mesh), [(0, 0)] * value.ndim
    for dim in unequal(mesh, placements, shape):
        by = [(mesh.axes[i], mesh.shape[i]) for i in cuts(mesh, placements)[dim]]
        if len(by) > 1:
            raise NotImplementedError(
                f"{function}(): several dimensions of a mesh cut dimension {dim} of the shape {list(shape)} into "
                "parts that are not equal; bring it together along one of them first"
            )
        (axes, n), rows = by[0], value.shape[dim]
        first, last = _places(mesh.jax_mesh, here, axes)
        full = -(-shape[dim] // n)
        if rows != min(shape[dim], (last + 1) * full) - min(shape[dim], first * full):
            raise RuntimeError(
                f"{function}(): this process's part has {rows} rows in dimension {dim}, which is not its part of "
                f"{shape[dim]} rows"
            )
        padding[dim] = (0, full * (last - first + 1) - rows)
    whole = _joined(jax.numpy.pad(value, padding), mesh, placements, function, None)
    return told(_cut_off(shape, sharding_for(mesh, placements, shape, function)), whole)(whole)


@functools.cache
def _cut_off(shape: tuple[int, ...], sharding: NamedSharding) -> Any:
    return jax.jit(lambda x: x[tuple(slice(n) for n in shape)], out_shardings=sharding)


def _joined(value: Any, mesh: DeviceMesh, placements: Placements, function: str, out: NamedSharding | None) -> Any:
    here = local_mesh(mesh.jax_mesh)
    partial = [i for i, p in enumerate(placements) if isinstance(p, Partial)]
    ops = {p.reduce_op for p in placements if isinstance(p, Partial)}
    op = _checked_op(ops, function)
    shape = list(value.shape)
    for p, axes in zip(placements, mesh.axes, strict=True):
        if isinstance(p, Cutting):
            shape[p.dim] *= _processes(mesh.jax_mesh, here, axes)
    kept = tuple(Replicate() if i in partial else p for i, p in enumerate(placements))
    sharding = sharding_for(mesh, kept, shape, function)
    if value.__class__ is Abstract:
        return Abstract(tuple(shape), value.dtype, sharding=out or sharding)
    lead = [a for i in partial for a in mesh.axes[i]]
    spec = PartitionSpec(*([tuple(lead)] if partial else []), *sharding.spec)
    if partial:  # each device has a copy of what its process has
        own = math.prod([here.shape[a] for a in lead])
        if op == "avg" and value.dtype.kind in "iub":
            raise RuntimeError(
                f'{function}(): an average of {value.dtype} numbers can\'t be cast back; use Partial("sum")'
            )
        copy = jax.numpy.ones_like(value) if op == "product" else value
        value = jax.numpy.stack([value, *[copy] * (own - 1)])
        shape = [own * _processes(mesh.jax_mesh, here, lead), *shape]
    part = sharing(jax.device_put(value, NamedSharding(here, spec)), value)
    whole = _over_all(part, tuple(shape), NamedSharding(mesh.jax_mesh, spec))
    if not partial:
        return whole
    if sharding.mesh.devices.flat[0].platform == "cpu":
        # XLA begins a program on its devices in turn: one whose argument waits, beside others that are within the
        # sum already, may find no place among the programs that wait on it, and the sum never ends.
        jax.block_until_ready(whole)
    return told(_reduction(op, out or sharding, own if op == "sum" else 1), whole)(whole)


def _over_all(part: Any, shape: tuple[int, ...], sharding: NamedSharding) -> Any:
    """The array of all processes, of ``shape``, whose part here lies over this process's devices as the whole does."""
    noted(sharding)
    pieces = {piece.device: piece.data for piece in part.addressable_shards}
    here = [d for d in sharding.mesh.devices.flat if d in pieces]
    return sharing(jax.make_array_from_single_device_arrays(shape, sharding, [pieces[d] for d in here]), part)


@functools.cache
def local_mesh(mesh: Mesh) -> Mesh:
    """The part of a mesh that this process has. NotImplementedError where that is no block of it."""
    mine = np.vectorize(lambda d: d.process_index == jax.process_index(), otypes=[bool])(mesh.devices)
    block = mesh.devices[np.ix_(*[sorted({*places}) for places in np.nonzero(mine)])]
    if block.size != mine.sum():
        raise NotImplementedError(f"DTensor: the devices of a process must be a block of the mesh {dict(mesh.shape)}")
    return Mesh(block, mesh.axis_names)


def _processes(mesh: Mesh, here: Mesh, axes: Sequence[str]) -> int:
    """Of how many processes' parts a dimension consists that these axes cut."""
    return math.prod([mesh.shape[a] // here.shape[a] for a in axes])


def processes_of(mesh: DeviceMesh) -> int:
    """How many processes there are along the dimensions of a mesh; 1 where one has all devices."""
    grid = mesh.jax_mesh
    return 1 if alone() else _processes(grid, local_mesh(grid), [a for axes in mesh.axes for a in axes])


def processes_along(mesh: DeviceMesh, dim: int) -> int:
    """How many processes there are along a dimension of a mesh."""
    grid = mesh.jax_mesh
    return 1 if alone() else _processes(grid, local_mesh(grid), mesh.axes[dim])


_REDUCTIONS = {
    "sum": jax.numpy.sum,
    "avg": jax.numpy.mean,
    "max": jax.numpy.max,
    "min": jax.numpy.min,
    "product": jax.numpy.prod,
}


def _checked_op(ops: set[str], function: str) -> str:
    if len(ops) > 1 or not ops <= {*_REDUCTIONS}:
        raise NotImplementedError(
            f"{function}(): Partial reductions are one of {', '.join(_REDUCTIONS)}, got {sorted(ops)}"
        )
    return next(iter(ops), "sum")


@functools.cache
def _reduction(op: str, sharding: NamedSharding, copies: int) -> Any:
    """The compiled reduction over the first dimension, a slice of which each device has; sums count ``copies`` once."""
    found = _REDUCTIONS[op]

    def reduced(x: Any) -> Any:
        y = found(x, 0)
        return (y if copies == 1 else y // copies if y.dtype.kind in "iu" else y / copies).astype(x.dtype)

    return jax.jit(reduced, out_shardings=sharding)


def own_part(value: Any) -> Any:
    """This process's part of an array of all, over its devices; in one process the array itself."""
    value = settled(value)
    if alone():
        return value
    if value.__class__ is Abstract:
        return _abstract_part(value)
    if not isinstance(value, jax.core.Tracer) and value.is_fully_addressable:
        return value
    if isinstance(value, jax.core.Tracer):
        raise NotImplementedError("to_local(): a compiled program of several processes has no parts of its own")
    watched(value)
    parts = value.addressable_shards
    if len(parts) == 1:
        return sharing(parts[0].data, value)
    sharding = value.sharding
    if not isinstance(sharding, NamedSharding):
        raise NotImplementedError(f"to_local(): this process has no part of a tensor that lies as {sharding}")
    shape, own = _part_of(value.shape, sharding)
    pieces = {piece.device: piece.data for piece in parts}
    new = jax.make_array_from_single_device_arrays(shape, own, [pieces[d] for d in own.mesh.devices.flat])
    return sharing(new, value)


def _part_of(shape: Sequence[int], sharding: Any) -> tuple[tuple[int, ...], Any]:
    """The shape of this process's part, and how it lies over its devices."""
    mesh, part = sharding.mesh, [*shape]
    here = local_mesh(mesh)
    for dim, entry in enumerate(sharding.spec):
        part[dim] //= _processes(mesh, here, (entry,) if isinstance(entry, str) else entry or ())
    return tuple(part), NamedSharding(here, sharding.spec)


def _abstract_part(value: Any) -> Any:
    """This process's part of a tensor on 'meta'."""
    if not isinstance(value.sharding, NamedSharding):
        return value
    shape, own = _part_of(value.shape, value.sharding)
    return Abstract(shape, value.dtype, sharding=own if own.mesh.size > 1 else None)
