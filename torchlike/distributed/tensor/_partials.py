"""Partial tensors over processes: the whole, which XLA has reduced, with the part of it that this process has besides.

Note [Partial]
~~~~~~~~~~~~~~
Which results are Partial follows from what they compute, not from a list. XLA's program of a call, whose last step is a
reduction over devices that have done the same before and told each other nothing, says that a process's part is the
call of its parts. A call that is linear in Partial sums, or in those and its other tensors together, is the sum of the
calls of the parts: jax's transposition knows which are. PyTorch reduces before some of these (``REDUCED``), which then
give what all have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from torchlike._base.state import no_grad, state
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.pending import settled
from torchlike._executor.spread import copy_here
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._following import linear, reduced
from torchlike.distributed.tensor._layouts import Placements, alone, processes_along
from torchlike.distributed.tensor._parts import own
from torchlike.distributed.tensor.placement_types import Partial, Replicate, Shard

REDUCED = frozenset(
    "clone contiguous cumsum diagonal lerp masked_fill mean nanmean trace tril triu where zeros_like".split()
)


class Partials(NamedTuple):
    """What a Partial tensor is made of.

    Attributes:
        placements: of them one at least is Partial. whole: what they are reduced to. part: that of this process.
    """

    placements: Placements
    whole: Any
    part: Any

    def are_of(self, value: Any) -> bool:
        """Whether they are parts of this value: nothing has changed it since."""
        return settled(value) is self.whole

    def reduced(self) -> Placements:
        """How the whole lies, and the gradient of a part."""
        return whole_of(self.placements)


def whole_of(placements: Placements) -> Placements:
    """How a tensor lies that has been reduced."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def with_parts(t: Any, placements: Placements, part: Any) -> Any:
    """``t`` as one that is Partial, if placements say so and there are other processes."""
    if not alone() and any(isinstance(p, Partial) for p in placements):
        t._parts = Partials(placements, settled(value_of(t)), settled(part))
    return t


def share(value: Any, mesh: DeviceMesh, placements: Placements) -> Any:
    """This process's part of what is ``value`` once it is reduced; see :func:`as_partial`."""
    if alone():
        return value
    for at, n, p in zip(mesh.get_coordinate() or (), mesh.shape, placements, strict=False):
        if isinstance(p, Partial) and p.reduce_op in ("sum", "product"):
            if p.reduce_op == "sum" and jax.numpy.issubdtype(value.dtype, jax.numpy.inexact):
                value = value / n
            elif at:
                value = jax.numpy.full_like(value, 0 if p.reduce_op == "sum" else 1)
    return value


def has_parts(t: Any) -> bool:
    """Whether a tensor is, or was, Partial."""
    return getattr(t, "_parts", None) is not None


def lying(tensors: Sequence[Any], mesh: DeviceMesh) -> list[Placements]:
    """The placements of tensors; plain ones are whole."""
    return [t.placements if hasattr(t, "_device_mesh") else (Replicate(),) * mesh.ndim for t in tensors]


def keep_part(
    result: Any, func: Any, args: Any, kwargs: Any, given: Sequence[Any], before: list[Placements] | None
) -> None:
    """Let a result that is Partial, see Note [Partial], have this process's part.

    ``before``: the placements of the tensors of the call before it, if one may have been Partial.
    """
    value = value_of(result)
    if state.capture is not None or not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return
    mesh, held = result._device_mesh, result.placements
    changed = [i for i, t in enumerate(given) if t is result]
    if changed and (before is None or before[changed[0]] == held):
        return
    lie = lying(given, mesh) if before is None else before
    cut, sums = ({i for ps in lie for i, p in enumerate(ps) if isinstance(p, kind)} for kind in (Shard, Partial))
    if sums and not cut:
        if getattr(func, "__name__", "") in REDUCED:
            return
        found = _of_sums(func, args, kwargs, mesh, lie, sums)
    elif not changed and any(isinstance(held[i], Replicate) and mesh.shape[i] > 1 for i in cut - sums):
        found = _of_cut(func, args, kwargs, mesh)
    else:
        return
    if found is not None:
        kind, dims, args, kwargs = found
        with no_grad():
            part = func(*args, **kwargs)
        if (part.shape, part.dtype) == (result.shape, result.dtype):
            placements = tuple(Partial(kind) if i in dims else p for i, p in enumerate(held))
            with_parts(result, placements, value_of(part))


def _of_cut(func: Any, args: Any, kwargs: Any, mesh: DeviceMesh) -> tuple[str, set[int], Any, Any] | None:
    """(reduction, dimensions of the mesh, arguments for this process's part) of a call of tensors that are cut."""
    kind, over = reduced(func, args, kwargs, mesh) or ("", ())
    dims = {i for i, axes in enumerate(mesh.axes) if {*axes} <= {*over} and processes_along(mesh, i) == mesh.shape[i]}
    if not dims or sum(len(mesh.axes[i]) for i in dims) < len({*over}):
        return None
    return kind, dims, *_mapped(lambda t: own(value_of(t), mesh, t._cut), args, kwargs)


def _of_sums(
    func: Any, args: Any, kwargs: Any, mesh: DeviceMesh, lie: Sequence[Placements], dims: set[int]
) -> tuple[str, set[int], Any, Any] | None:
    """As :func:`_of_cut`, of a call of sums and tensors that are whole."""
    wanted = tuple(Partial() if i in dims else Replicate() for i in range(mesh.ndim))
    partial = tuple(ps == wanted for ps in lie)
    if not all(p or ps == whole_of(ps) for p, ps in zip(partial, lie, strict=True)):
        return None
    for which in dict.fromkeys([partial, (True,) * len(lie)]):
        if linear(func, args, kwargs, mesh, which):
            alone_, every = iter(partial), iter(which)

            def part(t: Any, alone_: Any = alone_, every: Any = every) -> Any:
                is_partial, counts = next(alone_), next(every)
                value = t._parts.part if is_partial else copy_here(value_of(t))
                return share(value, mesh, wanted) if counts and not is_partial else value

            return "sum", dims, *_mapped(part, args, kwargs, plain=True)
    return None


def _mapped(f: Any, args: Any, kwargs: Any, plain: bool = False) -> Any:
    """Arguments with ``f(t)`` in the place of each DTensor ``t``; of plain tensors too, if ``plain``."""

    def mapped(x: Any) -> Any:
        return fresh(f(x)) if isinstance(x, Tensor) and (plain or hasattr(x, "_device_mesh")) else x

    return jax.tree.map(mapped, (args, kwargs), is_leaf=lambda x: isinstance(x, Tensor))
