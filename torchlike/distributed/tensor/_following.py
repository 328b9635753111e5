"""What XLA's partitioner does with a call: how it would cut results into unequal parts, as jax's arrays cannot be cut,
and whether the last thing that it does is a reduction over devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.hlo import reduced_last
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._layouts import Placements, placements_of, sharding_for, spec_of
from torchlike.distributed.tensor.placement_types import Partial, Replicate, _NormPartial
from torchlike.random import fork_rng, get_rng_state

MOST = 1024  # calls whose results are remembered
_known: dict[Any, Any] = {}


def followed(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh) -> Sequence[Placements] | None:
    """Placements of the tensors that a call gives, one after the other; None where that cannot be told.

    The call is traced and partitioned, not run. Arguments are plain tensors, DTensors, and what can be hashed.
    """
    return remembered(func, args, kwargs, mesh, _partitioned)


def reduced(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh) -> tuple[Partial, Sequence[str]] | None:
    """(reduction, axes of the mesh) of a call of one result that devices compute of their parts, and XLA then reduces.

    None for others.
    """
    return remembered(func, args, kwargs, mesh, _reduced)


def linear(func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh, which: tuple[bool, ...]) -> str:
    """ "linear" for a call that is so in those of its tensors that ``which`` says, in all of them together; "chosen"
    where its results have numbers of these tensors and no others; "" for others.
    """
    return remembered(func, args, kwargs, mesh, _linear, which) or ""


def remembered(
    func: Callable[..., Any], args: Any, kwargs: Any, mesh: DeviceMesh, ask: Callable[..., Any], *more: Any
) -> Any:
    """What ``ask(func, leaves, tree, kinds, mesh, *more)`` gave for a call of this kind; None if it raised."""
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
    return tuple(t.shape), value_of(t).dtype, NamedSharding(mesh.jax_mesh, spec_of(mesh, placements))


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
    before, call = get_rng_state().tolist(), replayed(func, leaves, tree)

    def only(*values: Any) -> Any:
        (out,) = call(*values)
        return out

    text = jax.jit(only).lower(*shapes).compile().as_text() or ""
    found = reduced_last(text, dict(mesh.jax_mesh.shape)) if get_rng_state().tolist() == before else None
    if found is None:
        return None
    kind, over, more = found
    partial = Partial(kind)
    if more:
        given = [x for x in leaves if type(x) in (int, float) and x > 0]
        partial = _of_parts(only, [kinds[i] for i in at], over, mesh.jax_mesh, given)
    return None if partial is None else (partial, over)


def _of_parts(
    call: Callable[..., Any], kinds: Sequence[Any], over: Sequence[str], mesh: Mesh, given: list[float]
) -> Partial | None:
    """How results of parts make that of the whole, found by numbers; norms of an order that is ``given``, or of 2."""
    numbers = _numbers(kinds)
    entries = [entry for _, _, sharding in kinds for entry in sharding.spec]
    cut = {a for e in entries for a in ((e,) if isinstance(e, str) else e or ()) if mesh.shape[a] > 1}
    if not cut <= {*over}:
        return None
    pieces = [s.devices_indices_map(n.shape) for n, (_, _, s) in zip(numbers, kinds, strict=True)]
    distinct = {tuple(str(p[d]) for p in pieces): d for d in mesh.devices.flat}
    parts = np.stack([
        np.asarray(call(*[n[p[d]] for n, p in zip(numbers, pieces, strict=True)]), np.complex128)
        for d in distinct.values()
    ])  # fmt: skip
    whole = np.asarray(call(*numbers))
    near, wanted = 1e-4 if whole.dtype.itemsize >= 4 else 2e-2, whole.astype(np.complex128)

    def same(made: Any) -> bool:
        return bool(wanted.any()) and made.shape == wanted.shape and np.allclose(made, wanted, near, near / 100)

    for op, made in (("avg", parts.mean(0)), ("sum", parts.sum(0))):
        if same(made):
            return Partial(op)
    return next((_NormPartial(norm_type=p) for p in [2, *given] if same((abs(parts) ** p).sum(0) ** (1 / p))), None)


def _numbers(kinds: Sequence[Any]) -> list[Any]:
    """Numbers for tensors: small ones where they may be indices."""
    source, found = np.random.default_rng(0), []
    for shape, dtype, _ in kinds:
        new = source.integers(0, 2, shape) if dtype.kind in "iub" else source.standard_normal(shape) * 8
        found.append(jax.numpy.asarray(new.astype(dtype)))
    return found


def _linear(
    func: Callable[..., Any], leaves: Any, tree: Any, kinds: Any, mesh: DeviceMesh, which: tuple[bool, ...]
) -> str:
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    call, numbers = replayed(func, leaves, tree), _numbers([kinds[i] for i in at])
    some = [np.asarray(n) for n, c in zip(numbers, which, strict=True) if c]
    some = [n if n.dtype.kind in "fcV" else n.astype(np.float32) for n in some]

    def of_some(*some: Any) -> Any:
        given = iter(some)
        return call(*[next(given) if chosen else n for n, chosen in zip(numbers, which, strict=True)])

    def tried(nothing: Any, some: Any) -> Any:
        zeros = of_some(*nothing)
        return zeros, jax.linear_transpose(of_some, *some)([jax.numpy.ones_like(z) for z in zeros]), of_some(*some)

    before = get_rng_state().tolist()
    try:
        zeros, transposed, outs = jax.device_get(jax.jit(tried)([np.zeros_like(n) for n in some], some))
    except Exception:  # jax says in many ways that it is not
        return ""
    exact = all(jax.numpy.issubdtype(z.dtype, jax.numpy.inexact) and not (z != 0).any() for z in zeros)
    if not exact or not any((t != 0).any() for t in transposed) or get_rng_state().tolist() != before:
        return ""
    whole = np.concatenate([np.asarray(n, np.complex128).ravel() for n in some])
    chosen = all(which) and all(np.isin(np.asarray(y, np.complex128), whole).all() for y in outs)
    return "chosen" if chosen else "linear"


def replayed(func: Callable[..., Any], leaves: Any, tree: Any) -> Callable[..., Any]:
    """The call as a function of the values of its tensors, which gives those of its results."""
    at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]

    def replayed(*values: Any) -> Any:
        given = [None if isinstance(x, Tensor) else x for x in leaves]
        for i, value in zip(at, values, strict=True):
            given[i] = fresh(value)
        args, kwargs = jax.tree.unflatten(tree, given)
        return [value_of(out) for out in tensors_in(func(*args, **kwargs))]

    return replayed
