"""Placements along dimensions of a mesh that are one device long, which jax's arrays do not keep: names alone.

A DTensor has them as an attribute. Those of results are what jax's rules for sharded types say of the call, traced for
a mesh that is longer there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.interpreters.partial_eval import dce_jaxpr
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._following import remembered, replayed, tensors_in
from torchlike.distributed.tensor._layouts import Placements
from torchlike.distributed.tensor.placement_types import Cutting, Partial, Replicate, Shard


def named(t: Any, found: Placements) -> Placements:
    """``found`` with the names that a tensor has along dimensions of length 1."""
    names = t._named
    if names is None:
        return found
    kept = (n == 1 and not isinstance(p, Partial) and not (isinstance(p, Cutting) and p.dim >= t.ndim)
            for n, p in zip(t._device_mesh.shape, names, strict=True))  # fmt: skip
    return tuple(p if keep else held for keep, p, held in zip(kept, names, found, strict=True))


def name(t: Any, placements: Placements) -> Any:
    """``t``, which lies as placements say."""
    t._named = placements if 1 in t._device_mesh.shape else None
    return t


def name_results(result: Any, func: Callable[..., Any], args: Any, kwargs: Any, given: Sequence[Any]) -> None:
    """Name the new results of a call of which an argument is cut along a dimension of length 1."""
    cut = [t for t in given if getattr(t, "_named", None) and _is_cut(t)]
    new = [y for y in tensors_in(result) if hasattr(y, "_device_mesh")]
    if not cut or all(any(y is t for t in given) for y in new):
        return
    mesh = cut[0]._device_mesh
    found = remembered(func, args, kwargs, mesh, _propagated)
    for i, y in enumerate(new):
        if not any(y is t for t in given):
            ruled = found is not None and len(found) == len(new)
            names = found[i] if ruled else None
            if names is None:  # as an argument of its shape; without a rule that may be another one turned around
                alike = [t._named for t in cut if t.shape == y.shape and (ruled or len({*y.shape}) == y.ndim)]
                names = alike[0] if alike else (Replicate(),) * mesh.ndim
            name(y, names)


def _is_cut(t: Any) -> bool:
    return any(n == 1 and isinstance(p, Cutting) for n, p in zip(t._device_mesh.shape, t._named, strict=True))


def _propagated(
    func: Callable[..., Any], leaves: Any, tree: Any, kinds: Any, mesh: DeviceMesh
) -> list[Placements | None] | None:
    """For each result its names; None for one that depends on no argument, and for all where jax has no rule."""
    axes = [axes[0] if n == 1 else None for axes, n in zip(mesh.axes, mesh.shape, strict=True)]
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    specs = [_kept(kinds[i][2].spec, axes) for i in at]
    lengths = [kinds[i][0][dim] for i, spec in zip(at, specs, strict=True) for dim, axis in enumerate(spec) if axis]
    length = next((k for k in (2, 3, 5, 7, 11) if math.gcd(*lengths) % k == 0), None)
    several = any(isinstance(axis, tuple) for spec in specs for axis in spec)
    if length is None or several:
        return None
    used = [a for a in axes if a is not None]
    wide = AbstractMesh((length,) * len(used), tuple(used), axis_types=(AxisType.Explicit,) * len(used))
    shapes = [
        jax.ShapeDtypeStruct(*kinds[i][:2], sharding=NamedSharding(wide, PartitionSpec(*spec)))
        for i, spec in zip(at, specs, strict=True)
    ]
    try:
        with jax.sharding.use_abstract_mesh(wide):
            closed = jax.make_jaxpr(replayed(func, leaves, tree))(*shapes)
    except Exception:  # jax says in many ways that it has no rule
        return None
    return [_names(closed.jaxpr, n, axes) for n in range(len(closed.jaxpr.outvars))]


def _kept(spec: Sequence[Any], axes: Sequence[str | None]) -> list[Any]:
    """A spec with these axes of a mesh alone."""
    entries = [[a for a in ((e,) if isinstance(e, str) else e or ()) if a in axes] for e in spec]
    return [None if not e else e[0] if len(e) == 1 else tuple(e) for e in entries]


def _names(jaxpr: Any, n: int, axes: Sequence[str | None]) -> Placements | None:
    out = jaxpr.outvars[n]
    _, read = dce_jaxpr(jaxpr, [i == n for i in range(len(jaxpr.outvars))])
    if not any(read):
        return None
    spec = tuple(out.aval.sharding.spec)
    dims = {a: dim for dim, e in enumerate(spec) for a in ((e,) if isinstance(e, str) else e or ())}
    return tuple(Shard(dims[a]) if a in dims else Replicate() for a in axes)
