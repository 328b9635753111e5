"""What XLA's partitioner does with a call: how it would cut results into unequal parts, as jax's arrays cannot be cut,
and whether the last thing that it does is a reduction over devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.hlo import reduced_last
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._layouts import Placements, placements_of, sharding_for
from torchlike.distributed.tensor.placement_types import Replicate, Shard
from torchlike.random import fork_rng, get_rng_state

MOST = 1024  # calls whose results are remembered
_known: dict[Any, Any] = {}


def followed(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh) -> Sequence[Placements] | None:
    """Placements of the tensors that a call gives, one after the other; None where that cannot be told.

    The call is traced and partitioned, not run. Arguments are plain tensors, DTensors, and what can be hashed.
    """
    return _remembered(func, args, kwargs, mesh, _partitioned)


def reduced(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh) -> tuple[str, Sequence[str]] | None:
    """(reduction, axes of the mesh) of a call of one result that devices compute of their parts, and XLA then reduces.

    None for others.
    """
    return _remembered(func, args, kwargs, mesh, _reduced)


def linear(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh, which: tuple[bool, ...]) -> bool:
    """Whether a call of one result is linear in those of its tensors that ``which`` says, in all of them together."""
    return bool(_remembered(func, args, kwargs, mesh, _linear, which))


def _remembered(
    func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh, ask: Callable[..., Any], *more: Any
) -> Any:
    leaves, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_tensor)
    if any(isinstance(value_of(x), jax.core.Tracer) for x in leaves if isinstance(x, Tensor)):
        return None
    kinds = tuple(_kind(x, mesh) if isinstance(x, Tensor) else _static(x) for x in leaves)
    try:
        if (ask, more, func, tree, kinds, mesh.jax_mesh) in _known:
            return _known[ask, more, func, tree, kinds, mesh.jax_mesh]
    except TypeError:  # something that has no hash
        return None
    if len(_known) >= MOST:
        _known.clear()
    try:
        with no_grad(), fork_rng(devices=[]):
            found = ask(func, leaves, tree, kinds, mesh, *more)
    except (TypeError, ValueError, RuntimeError):  # it needs values, or is none that can be traced
        found = None
    return _known.setdefault((ask, more, func, tree, kinds, mesh.jax_mesh), found)


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


def _reduced(func: Callable[..., Any], leaves: Any, tree: Any, kinds: Any, mesh: DeviceMesh) -> Any:
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    shapes = [jax.ShapeDtypeStruct(*kinds[i][:2], sharding=kinds[i][2]) for i in at]
    before = get_rng_state().tolist()
    text = jax.jit(_replayed(func, leaves, tree)).lower(*shapes).compile().as_text() or ""
    return reduced_last(text, dict(mesh.jax_mesh.shape)) if get_rng_state().tolist() == before else None


def _linear(
    func: Callable[..., Any], leaves: Any, tree: Any, kinds: Any, mesh: DeviceMesh, which: tuple[bool, ...]
) -> bool:
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    source, call = np.random.default_rng(0), _replayed(func, leaves, tree)
    numbers = [jax.numpy.asarray(source.standard_normal(kinds[i][0]) * 8).astype(kinds[i][1]) for i in at]
    floating = [n if n.dtype.kind in "fcV" else n.astype(np.float32) for n in numbers]

    def of_some(*some: Any) -> Any:
        given = iter(some)
        return call(*[next(given) if chosen else n for n, chosen in zip(numbers, which, strict=True)])

    some = [n for n, chosen in zip(floating, which, strict=True) if chosen]
    before = get_rng_state().tolist()
    try:
        zero = of_some(*[jax.numpy.zeros_like(n) for n in some])
        transposed = jax.linear_transpose(of_some, *some)(jax.numpy.ones_like(zero))
    except Exception:  # jax says in many ways that it is not
        return False
    exact = jax.numpy.issubdtype(zero.dtype, jax.numpy.inexact) and len(transposed) == len(some)
    return exact and not zero.any() and get_rng_state().tolist() == before


def _replayed(func: Callable[..., Any], leaves: Any, tree: Any) -> Callable[..., Any]:
    """The call as a function of the values of its tensors, with one result."""
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]

    def replayed(*values: Any) -> Any:
        given = [None if isinstance(x, Tensor) else x for x in leaves]
        for i, value in zip(at, values, strict=True):
            given[i] = fresh(value)
        args, kwargs = jax.tree.unflatten(tree, given)
        (out,) = tensors_in(func(*args, **kwargs))
        return value_of(out)

    return replayed
