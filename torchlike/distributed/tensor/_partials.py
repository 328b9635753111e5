"""Partial tensors over processes: the whole, which XLA has reduced, with the part of it that this process has besides.

Note [Partial]
~~~~~~~~~~~~~~
Which results are Partial follows from what they compute, not from a list. XLA's program of a call, whose last step is a
reduction over devices that have done the same before and told each other nothing, says that a process's part is the
call of its parts; where devices then do something to the reduced numbers, as in means and norms, numbers tell how the
results of parts make the whole. A call that is linear in Partial sums or means, or in those and its other tensors
together, is that of the calls of the parts: jax's transposition knows which are. One that only moves numbers keeps any
reduction. PyTorch reduces before some of these (``REDUCED``), which then give what all have.

A compiled function has the whole alone, and layouts of what it makes are not known while it is traced. What it gives
may be Partial in PyTorch if it depends on a DTensor and lies whole in a dimension of the mesh: its part is refused, by
name, until ``redistribute`` has said how it lies. So is that of what was Partial before such a function changed it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax

from torchlike._base.state import no_grad, state
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.pending import settled
from torchlike._executor.spread import copy_here
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._following import linear, reduced, tensors_in
from torchlike.distributed.tensor._layouts import Placements, alone, processes_along
from torchlike.distributed.tensor._parts import own
from torchlike.distributed.tensor.placement_types import Partial, Replicate, Shard

REDUCED = frozenset(
    "_foreach_lerp addcdiv addcmul clone contiguous conv1d conv2d conv3d cumsum diag diag_embed diagflat diagonal lerp "
    "masked_fill repeat_interleave scatter trace tril triu vdot where".split()
)
_OTHER_MEAN = {"sum": "mean", "avg": "sum"}  # which is a sum, or a mean, of another kind
MAYBE, WHOLE = "maybe Partial", "whole"  # of what a program makes: see Note [Partial]
MOST = 3  # tensors beside those that are Partial, of which all combinations are tried


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
    """Whether a tensor is, or was, Partial, or may be so."""
    return getattr(t, "_parts", None) is not None or getattr(t, "_made", None) == MAYBE


def demand_known(t: Any, name: str) -> None:
    """NotImplementedError for what may be Partial in PyTorch, of which a program has made the whole alone."""
    if _is_stale(t) or t._made == MAYBE and _is_whole(t):
        raise NotImplementedError(
            f"{name}(): this DTensor is the result of a compiled function, where sums over devices are reduced at "
            "once; it may be Partial in PyTorch, and its part is not known. Use full_tensor(), or "
            "redistribute(placements=...) within the function or after it"
        )


def _is_whole(t: Any) -> bool:
    """Whether a tensor is whole over several processes of a dimension of its mesh."""
    mesh = t._device_mesh
    return not alone() and any(
        isinstance(p, Replicate) and processes_along(mesh, i) > 1 for i, p in enumerate(t.placements)
    )


def lying(tensors: Sequence[Any], mesh: DeviceMesh) -> list[Placements]:
    """The placements of tensors; plain ones are whole."""
    return [t.placements if hasattr(t, "_device_mesh") else (Replicate(),) * mesh.ndim for t in tensors]


def keep_part(
    result: Any, func: Any, args: Any, kwargs: Any, given: Sequence[Any], before: list[Placements] | None
) -> None:
    """Let results that are Partial, see Note [Partial], have this process's parts.

    ``before``: the placements of the tensors of the call before it, if one may have been Partial.
    """
    outs = [y for y in tensors_in(result) if hasattr(y, "_device_mesh")]
    if not outs:
        return
    changed = [i for i, t in enumerate(given) if any(t is y for y in outs)]
    if state.capture is not None or any(_is_doubtful(t) for i, t in enumerate(given) if i not in changed):
        return _keep_doubt(outs, given)
    if not all(_is_array(value_of(y)) for y in outs):
        return
    found = _partial(func, args, kwargs, given, outs, changed, before)
    if found is not None:
        kind, dims, args, kwargs = found
        with no_grad():
            parts = tensors_in(func(*args, **kwargs))
        for y, part in zip(outs, parts, strict=True):
            if (part.shape, part.dtype) == (y.shape, y.dtype):
                with_parts(y, tuple(kind if i in dims else p for i, p in enumerate(y.placements)), value_of(part))
    for i in changed if before is not None else ():
        if given[i]._parts is not None and any(isinstance(p, Partial) for p in before[i]) and _is_stale(given[i]):
            given[i]._parts = None  # it is reduced now


def _partial(
    func: Any, args: Any, kwargs: Any, given: Sequence[Any], outs: Sequence[Any], changed: list[int], before: Any
) -> tuple[Partial, set[int], Any, Any] | None:
    """(reduction, dimensions of the mesh, arguments for this process's part) of a call whose results are Partial."""
    mesh = outs[0]._device_mesh
    lie = lying(given, mesh) if before is None else before
    cut, sums = ({i for ps in lie for i, p in enumerate(ps) if isinstance(p, kind)} for kind in (Shard, Partial))
    if changed and (len(outs) > 1 or before is None or not any(isinstance(p, Partial) for p in before[changed[0]])):
        return None
    if sums and not cut:
        return _of_sums(func, args, kwargs, mesh, lie)
    if not changed and len(outs) == 1 and _may_be_reduced(outs[0], cut - sums):
        return _of_cut(func, args, kwargs, mesh)
    return None


def _is_stale(t: Any) -> bool:
    """Whether something has changed a tensor that was Partial, which did not say what became of its parts."""
    return t._parts is not None and not t._parts.are_of(value_of(t))


def _is_doubtful(t: Any) -> bool:
    return has_parts(t) and (t._made == MAYBE or _is_stale(t))


def _keep_doubt(outs: Sequence[Any], given: Sequence[Any]) -> None:
    """Mark new results of a call whose results may be Partial; those that depend on no DTensor are not."""
    over = [t for t in given if hasattr(t, "_device_mesh")]
    known = all(t._made == WHOLE for t in over)
    for y in outs:
        if not any(y is t for t in given):
            y._made = WHOLE if known else MAYBE


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def _may_be_reduced(t: Any, cut: set[int]) -> bool:
    """Whether a result is whole in one of the dimensions of the mesh that cut its arguments."""
    held, mesh = t.placements, t._device_mesh
    return any(isinstance(held[i], Replicate) and mesh.shape[i] > 1 for i in cut)


def _of_cut(func: Any, args: Any, kwargs: Any, mesh: DeviceMesh) -> tuple[Partial, set[int], Any, Any] | None:
    """(reduction, dimensions of the mesh, arguments for this process's part) of a call of tensors that are cut."""
    kind, over = reduced(func, args, kwargs, mesh) or (Partial(), ())
    dims = {i for i, axes in enumerate(mesh.axes) if {*axes} <= {*over} and processes_along(mesh, i) == mesh.shape[i]}
    if not dims or sum(len(mesh.axes[i]) for i in dims) < len({*over}):
        return None
    return kind, dims, *_mapped(lambda t: own(value_of(t), mesh, t._cut), args, kwargs)


def _of_sums(
    func: Any, args: Any, kwargs: Any, mesh: DeviceMesh, lie: Sequence[Placements]
) -> tuple[Partial, set[int], Any, Any] | None:
    """As :func:`_of_cut`, of a call of tensors that are Partial and others that are whole."""
    wanted = next(ps for ps in lie if ps != whole_of(ps))
    kind = next(p for p in wanted if isinstance(p, Partial))
    partial = tuple(ps == wanted for ps in lie)
    alike = all(isinstance(p, Replicate) or p == kind for p in wanted)
    name = getattr(func, "__name__", "")
    if not alike or name in REDUCED or name == _OTHER_MEAN.get(kind.reduce_op):
        return None
    if not all(p or ps == whole_of(ps) for p, ps in zip(partial, lie, strict=True)):
        return None
    for which in _subsets(partial):
        how = linear(func, args, kwargs, mesh, which)
        if how == "chosen" and which == partial or how and kind.reduce_op in ("sum", "avg"):
            break
    else:
        return None
    alone_, every = iter(partial), iter(which)

    def part(t: Any) -> Any:
        is_partial, counts = next(alone_), next(every)
        if is_partial and counts:
            return t._parts.part
        value = copy_here(value_of(t))
        return share(value, mesh, wanted) if counts else value

    return kind, {i for i, p in enumerate(wanted) if p == kind}, *_mapped(part, args, kwargs, plain=True)


def _subsets(partial: tuple[bool, ...]) -> Iterator[tuple[bool, ...]]:
    """Tensors in which a call may be linear: those that are Partial with more and more of others, or one of them."""
    others = [i for i, p in enumerate(partial) if not p]
    if len(others) > MOST:
        yield from dict.fromkeys([partial, (True,) * len(partial)])
        return
    for n in range(len(others) + 1):
        for more in itertools.combinations(others, n):
            yield tuple(p or i in more for i, p in enumerate(partial))
    if sum(partial) > 1:
        yield from (tuple(i == one for i in range(len(partial))) for one, p in enumerate(partial) if p)


def _mapped(f: Any, args: Any, kwargs: Any, plain: bool = False) -> Any:
    """Arguments with ``f(t)`` in the place of each DTensor ``t``; of plain tensors too, if ``plain``."""

    def mapped(x: Any) -> Any:
        return fresh(f(x)) if isinstance(x, Tensor) and (plain or hasattr(x, "_device_mesh")) else x

    return jax.tree.map(mapped, (args, kwargs), is_leaf=lambda x: isinstance(x, Tensor))
