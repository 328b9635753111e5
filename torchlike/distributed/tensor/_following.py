"""How XLA's partitioner would cut the results of a call, where jax's arrays cannot be cut so: into unequal parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._layouts import Placements, placements_of, sharding_for
from torchlike.distributed.tensor.placement_types import Replicate, Shard
from torchlike.random import fork_rng

MOST = 1024  # calls whose results are remembered
_known: dict[Any, Sequence[Placements] | None] = {}


def followed(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh) -> Sequence[Placements] | None:
    """Placements of the tensors that a call gives, one after the other; None where that cannot be told.

    The call is traced and partitioned, not run. Arguments are plain tensors, DTensors, and what can be hashed.
    """
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_tensor)
    if any(isinstance(value_of(x), jax.core.Tracer) for x in leaves if isinstance(x, Tensor)):
        return None
    kinds = tuple(_kind(x, mesh) if isinstance(x, Tensor) else _static(x) for x in leaves)
    try:
        if (func, tree, kinds, mesh.jax_mesh) in _known:
            return _known[func, tree, kinds, mesh.jax_mesh]
    except TypeError:  # something that has no hash
        return None
    if len(_known) >= MOST:
        _known.clear()
    try:
        with no_grad(), fork_rng(devices=[]):
            found = _partitioned(func, leaves, tree, kinds, mesh)
    except (TypeError, ValueError, RuntimeError):  # it needs values, or is none that can be traced
        found = None
    return _known.setdefault((func, tree, kinds, mesh.jax_mesh), found)


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors of lists and tuples, one after the other."""
    return [y for y in jax.tree.leaves(tree, is_leaf=_is_tensor) if _is_tensor(y)]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, Tensor)


def _static(x: Any) -> tuple[Any, ...]:
    """What tells an argument that is no tensor from others; slices have no hash before Python 3.12."""
    return (slice, _static(x.start), _static(x.stop), _static(x.step)) if isinstance(x, slice) else (type(x), x)


def _kind(t: Tensor, mesh: DeviceMesh) -> tuple[Any, ...]:
    """(shape, dtype, sharding) of an argument."""
    placements: Placements = getattr(t, "placements", (Replicate(),) * mesh.ndim)
    cut: dict[int, list[str]] = {}
    for p, axes in zip(placements, mesh.axes, strict=True):
        if isinstance(p, Shard):
            cut.setdefault(p.dim, []).extend(axes)
    entries = [tuple(cut.get(dim, ())) or None for dim in range(max(cut, default=-1) + 1)]
    return tuple(t.shape), value_of(t).dtype, NamedSharding(mesh.jax_mesh, PartitionSpec(*entries))


def _partitioned(func: Callable[..., Any], leaves: Any, tree: Any, kinds: Any, mesh: DeviceMesh) -> list[Placements]:
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    found: dict[int, Any] = {}

    def traced(*values: Any) -> Any:
        given = [None if isinstance(x, Tensor) else x for x in leaves]
        for i, value in zip(at, values, strict=True):
            given[i] = fresh(jax.lax.with_sharding_constraint(value, kinds[i][2]))
        args, kwargs = jax.tree.unflatten(tree, given)
        outs = tensors_in(func(*args, **kwargs))
        for n, y in enumerate(outs):
            found[n] = None
            jax.debug.inspect_array_sharding(value_of(y), callback=lambda sharding, n=n: found.update({n: sharding}))
        return jax.numpy.zeros(())

    whole = sharding_for(mesh, (Replicate(),) * mesh.ndim, (), "DTensor")
    shapes = [jax.ShapeDtypeStruct(*kinds[i][:2], sharding=whole) for i in at]
    jax.jit(traced).lower(*shapes).compile()
    return [placements_of(found[n], mesh) for n in sorted(found)]
