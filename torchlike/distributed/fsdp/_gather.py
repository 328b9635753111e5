"""Parameters brought together for a module's forward, and their gradients cut again."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

from jax.sharding import NamedSharding

from torchlike._base.state import no_grad, state
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.immediate import cast
from torchlike._executor.spread import layout_of
from torchlike._transforms.capture.recording import Unsupported
from torchlike.autograd.function import Function
from torchlike.autograd.graph import saved_tensors_hooks
from torchlike.distributed.device_mesh import DeviceMesh
from torchlike.distributed.tensor._dtensor import DTensor, _over
from torchlike.distributed.tensor._layouts import Placements, alone, joined, local_mesh, own_part, sharding_for, whole
from torchlike.sharding._shard import shard


class Gathering(NamedTuple):
    """How one parameter is brought together.

    Attributes:
        mesh: that it is cut over. cut: its sharding. full: that of the whole, over the devices of data parallelism.
        back: placements of the gradient's parts. inner, inner_placements: of the tensor parallel DTensor.
        dtype, reduce_dtype: of the whole, and in which gradients are reduced; None for the parameter's own.
        early: by what gradients are multiplied before they are added, which is taken back after.
        scales: by what the mean of the gradients is multiplied; programs see them change.
        reduces: whether gradients are reduced; one of the module's parameters. unreduced: the sum of those of this
            process that are not yet, of this parameter.
    """

    mesh: DeviceMesh
    cut: NamedSharding
    full: NamedSharding
    back: Placements
    inner: DeviceMesh | None
    inner_placements: Placements
    dtype: Any
    reduce_dtype: Any
    early: float
    scales: list[Tensor]
    reduces: dict[str, bool]
    unreduced: list[Any]


class _Gather(Function):
    """A parameter's whole value; backward cuts the gradient, which is the mean of those of all processes."""

    @staticmethod
    def forward(ctx: Any, p: Any, how: Any) -> Any:
        value = value_of(p)
        ctx.how, ctx.dtype = how, value.dtype
        value = value if how.dtype is None else cast(value, how.dtype.np)
        part = own_part(whole(value, how.full))
        if how.inner is not None:
            part = joined(part, how.inner, how.inner_placements, "fully_shard")
        return fresh(part)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        how, value = ctx.how, value_of(grad)
        if how.inner is not None:  # it may come in another layout than the parameter has
            value = whole(value, sharding_for(how.inner, how.inner_placements, value.shape, "fully_shard"))
        value = own_part(value)
        value = value if how.reduce_dtype is None else cast(value, how.reduce_dtype.np)
        if how.unreduced:
            value = value + how.unreduced.pop()
        if not all(how.reduces.values()):
            if state.capture is not None:
                raise Unsupported("keeps gradients for a later backward, as set_requires_gradient_sync(False) says")
            how.unreduced.append(value)
            return None, None
        value = value if how.early == 1 else value * how.early
        value = joined(value, how.mesh, how.back, "fully_shard", how.cut)
        value = value if how.early == 1 else value / how.early
        for scale in how.scales:
            value = value * value_of(scale).astype(value.dtype)
        return fresh(cast(whole(value, how.cut), ctx.dtype)), None


class _Together(Function):
    """Whole parameters: where one has a gradient all have, zeros if nothing else."""

    @staticmethod
    def forward(ctx: Any, *wholes: Any) -> Any:
        return tuple([fresh(value_of(w)) for w in wholes])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads


def gathered(p: Tensor, how: Gathering) -> Any:
    """The whole parameter: a plain tensor, or the DTensor that tensor parallelism made of it."""
    new = _Gather.apply(p, how)
    return new if how.inner is None else _over(new, how.inner)


# -- what autograd saves of whole parameters is the cut one ------------------------------------------------------------

_present = threading.local()


def _wholes() -> dict[int, Any]:
    """{id of a storage: (it, parameter, how)} of the whole parameters of the modules that this thread is in."""
    if not hasattr(_present, "wholes"):
        _present.wholes = {}
    return _present.wholes


class _Kept(NamedTuple):
    parameter: Any
    how: Gathering
    version: int


def _pack(t: Tensor) -> Any:
    found = _wholes().get(id(t._storage))
    if found is None or (t._view is not None and t._view.steps):
        return t
    return _Kept(found[1], found[2], found[1]._version)


def _unpack(kept: Any) -> Any:
    if kept.__class__ is not _Kept:
        return kept
    if kept.parameter._version != kept.version:
        raise RuntimeError(
            "fully_shard(): a parameter was changed in place between forward and backward; call backward() before "
            "optimizer.step()"
        )
    with no_grad():
        return gathered(kept.parameter, kept.how)


class saving:
    """The context in which autograd saves cut parameters where it would save whole ones.

    Without effect where those are to be kept, and while a program is traced, whose memory is XLA's.
    """

    def __init__(self, wholes: Any, cut: Any, hows: Any, reshard: bool) -> None:
        on = reshard and state.capture is None
        self._found = (
            {id(w._storage): (w._storage, p, how) for w, p, how in zip(wholes, cut, hows, strict=True)} if on else {}
        )
        self._hooks = saved_tensors_hooks(_pack, _unpack) if on else None

    def __enter__(self) -> None:
        if self._hooks is not None:
            _wholes().update(self._found)
            self._hooks.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self._hooks is not None:
            self._hooks.__exit__(*exc)
            for key in self._found:
                _wholes().pop(key, None)


def all_gathered(cut: list[Any], hows: list[Gathering], joint: bool = False) -> list[Any]:
    """Whole parameters: one for each object. ``joint``: all have gradients where one has, as in PyTorch's flat one."""
    wholes = {id(p): (p, how) for p, how in zip(cut, hows, strict=True)}
    made = {key: gathered(p, how) for key, (p, how) in wholes.items()}
    if joint:
        keys = [key for key, w in made.items() if w.requires_grad and type(w) is Tensor]
        made |= zip(keys, _Together.apply(*[made[key] for key in keys]), strict=True) if keys else ()
    return [made[id(p)] for p in cut]


def prepared(x: Any, dtype: Any, mesh: DeviceMesh | None = None) -> Any:
    """Inputs or outputs, floating tensors in a dtype, if that is not None, all cut over a mesh, if there is one."""
    if isinstance(x, dict):
        return type(x)({k: prepared(v, dtype, mesh) for k, v in x.items()}) if type(x) is dict else x
    if isinstance(x, tuple | list):
        items = [prepared(v, dtype, mesh) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if not isinstance(x, Tensor):
        return x
    x = x.to(dtype) if dtype is not None and x.is_floating_point() else x
    return x if mesh is None else _spread(x, mesh)


def _spread(x: Tensor, mesh: DeviceMesh) -> Tensor:
    """An input, cut over the devices of data parallelism along its first dimension.

    Of several processes each has a batch of its own, which is cut over its devices. As it is where it lies over devices
    already, is a DTensor, or cannot be cut into equal parts.
    """
    if isinstance(x, DTensor) or x.ndim == 0:
        return x
    grid, axes = mesh.jax_mesh if alone() else local_mesh(mesh.jax_mesh), [a for own in mesh.axes for a in own]
    parts = math.prod([grid.shape[a] for a in axes])
    if parts == 1 or x.shape[0] % parts or layout_of(value_of(x)) is not None:
        return x
    return shard(x, grid, (tuple(axes),))
