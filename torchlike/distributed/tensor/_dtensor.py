"""DTensor: a tensor over a mesh of devices. It is a Tensor whose array has a sharding; XLA moves what operators need.

Note [Parts]
~~~~~~~~~~~~
``to_local`` and ``from_local`` speak of the part of a tensor that this process has. With one device a process that is
a shard, as in PyTorch. One process that has all devices has the whole tensor: ``to_local()`` gives it as a plain tensor
that lies over the devices as before, and ``from_local(x, mesh, [Shard(0)])`` cuts ``x``.

jax's arrays have equal parts. A DTensor whose placements cut a dimension into others is whole in that dimension on
every device; ``_cut`` says what its placements are, and ``to_local`` gives the rows that PyTorch has here. Results of
its shape have them too, others those that XLA's partitioner finds, which can cut so: see ``_following.py``.

What ``from_local`` makes of several processes' parts, and what an operator reduces over them last, is Partial until it
changes: it is reduced at once, and keeps this process's part besides.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from torchlike._aten.subclass import nowrap
from torchlike._base.state import state
from torchlike._core.autograd.fields import mark
from torchlike._core.overrides.torch_function import arm
from torchlike._core.tensor.mutation import grad_of, lend, set_grad
from torchlike._core.tensor.tensor import Tensor, alias, fresh, value_of
from torchlike._executor.spread import layout_of
from torchlike.autograd.function import Function
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed._collectives import broadcast
from torchlike.distributed._watch import waiting, watched
from torchlike.distributed.device_mesh import DeviceMesh, current_mesh, remade
from torchlike.distributed.tensor._following import followed, tensors_in
from torchlike.distributed.tensor._layouts import (
    Placements,
    alone,
    checked,
    described,
    joined,
    placed,
    placements_of,
    processes_along,
    sharding_for,
    unequal,
    whole,
)
from torchlike.distributed.tensor._narrow import name, name_results, named
from torchlike.distributed.tensor._partials import (
    WHOLE,
    Partials,
    demand_known,
    has_parts,
    keep_part,
    lying,
    share,
    whole_of,
    with_parts,
)
from torchlike.distributed.tensor._parts import lies_as, own, part_of
from torchlike.distributed.tensor.placement_types import Partial, Placement, Replicate
from torchlike.sharding._shard import relaid

_mixing = threading.local()


class DTensor(Tensor):
    """A tensor over a :class:`DeviceMesh`, which looks like the whole: shape, operators, autograd.

    Made by :func:`distribute_tensor`, :meth:`from_local` and the factories of this package. Its ``placements`` are
    those of its array; results of operators are where XLA's partitioner finds best.

    >>> import torchlike as torch
    >>> from torchlike.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> mesh = init_device_mesh("cpu", (1,))
    >>> x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
    >>> (x @ x.t()).full_tensor().sum()
    tensor(32.)
    """

    _device_mesh: DeviceMesh
    _cut: Placements | None = None  # its placements, where they cut into parts that are not equal
    _parts: Partials | None = None  # of one that from_local made so, until it changes
    _made: str | None = None  # by a program: whether it may be Partial, see Note [Partial]
    _named: Placements | None = None  # its placements, of which those along dimensions of length 1 count
    _carried = ("_device_mesh", "_cut", "_made", "_named")

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("DTensor(): make one with distribute_tensor(), DTensor.from_local() or a factory function")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _REFUSED or func in _GETTERS:
            return _special(func, args)
        if func in _READS and has_parts(args[0]):
            return _read(func, args[0])
        found = [*_tensors(args), *_tensors(kwargs.values())]
        mesh = next(t for t in found if isinstance(t, DTensor))._device_mesh
        allows = getattr(_mixing, "allows", None)
        if allows is None or not allows(func, args, kwargs):
            _demand_alike(func, found, mesh)
        before, partly = state.overrides_off, state.capture is None and any(map(has_parts, found))
        before_it = lying(found, mesh) if partly else None
        state.overrides_off = max(before, 1)
        try:
            with waiting():
                result = _over(func(*args, **kwargs), mesh, found)
                if any(getattr(t, "_cut", None) for t in found):
                    _cut_as_partitioned(result, func, args, kwargs, found, mesh)
                if 1 in mesh.shape:
                    name_results(result, func, args, kwargs, found)
                if not alone():
                    keep_part(result, func, args, kwargs, found, before_it)
                return result
        finally:
            state.overrides_off = before

    @staticmethod
    def _demand_alike(name: str, tensors: Sequence[Any]) -> None:
        """RuntimeError for plain tensors among these, of which one is a DTensor, unless they are to be mixed."""
        if not getattr(_mixing, "on", False) and any(type(t) is Tensor for t in tensors):
            raise mixed(name)

    # -- where it is -----------------------------------------------------------------------------
    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh that it lies over."""
        return self._device_mesh

    @property
    def placements(self) -> Placements:
        """For each dimension of the mesh, how it holds the tensor. RuntimeError while a program is traced."""
        value = _value(self)
        if isinstance(value, jax.core.Tracer):
            raise RuntimeError(
                "DTensor.placements: a traced program has no layout until it is compiled; ask outside of it"
            )
        if self._parts is not None and self._parts.are_of(value):
            return self._parts.placements
        if self._cut is not None and lies_as(value, self._device_mesh, self._cut):
            return named(self, self._cut)
        return named(self, placements_of(value.sharding, self._device_mesh))

    def _traced(self) -> bool:
        return isinstance(_value(self), jax.core.Tracer)

    @staticmethod
    def from_local(
        local_tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        run_check: bool = False, shape: Any = None, stride: Any = None, grad_placements: Any = None,
    ) -> DTensor:  # fmt: skip
        """The tensor of all processes whose part here is ``local_tensor``; see Note [Parts]. Gradients flow back to it.

        Args:
            placements: how it is cut; by default each process has the whole. Partial: the whole is the reduction of
                what the processes have, which is made at once; what operators make of it is reduced.
            shape, stride: of the whole; needed where parts are not equal. Each but the last is then as long as the
                first, as ``torch.chunk`` cuts.
            run_check: let all processes that have the same whole have that of the first.
            grad_placements: how the gradient lies of which each process gets its part; by default as the tensor, and
                whole where that is Partial.

        RuntimeError where there is one of shape and stride, or the parts do not make such a whole.
        """
        _demand_plain("from_local", local_tensor)
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"DTensor.from_local(): found shape {shape}, stride {stride}. Please pass both shape and stride at the "
                "same time."
            )
        mesh = device_mesh or current_mesh()
        found = checked(placements, mesh, local_tensor.ndim, "from_local")
        back = None if grad_placements is None else checked(grad_placements, mesh, local_tensor.ndim, "from_local")
        of = None if shape is None else tuple(shape)
        value = _as_first(local_tensor, mesh, found) if run_check and not alone() else value_of(local_tensor)
        new = _over(_Joined.apply(local_tensor, mesh, found, of, back, value), mesh)
        if shape is not None and tuple(shape) != tuple(new.shape):
            raise RuntimeError(
                f"DTensor.from_local(): parts of shape {list(local_tensor.shape)} do not make {list(shape)}"
            )
        return with_parts(marked_as_cut(new, found), found, value)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part as a plain tensor; see Note [Parts]. Gradients flow back, and what is written to it in
        place the DTensor has too, see Note [Memory of parts].

        ``grad_placements``: how the gradient of the part lies; by default as this tensor.
        """
        mesh = self._device_mesh
        if has_parts(self):
            demand_known(self, "to_local")
        value, parts = value_of(self), self._parts
        partial = parts is not None and parts.are_of(value)
        if grad_placements is not None:
            back = checked(grad_placements, mesh, self.ndim, "to_local")
        elif partial:
            back = parts.reduced()
        else:
            back = None if isinstance(value, jax.core.Tracer) else self.placements
        return _Part.apply(self, mesh, back, parts if partial else self._cut)

    def redistribute(
        self, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
        async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None,
    ) -> DTensor:  # fmt: skip
        """The same tensor in other placements (and of ``forward_dtype``); its gradient comes back in its own, rounded.

        Raises:
            RuntimeError: there are no placements, or one is Partial.
            NotImplementedError: another mesh.
        """
        mesh = device_mesh or self._device_mesh
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        if mesh.jax_mesh != self._device_mesh.jax_mesh:
            raise NotImplementedError("redistribute(): between different meshes is not supported")
        if forward_dtype is not None or backward_dtype is not None:
            new = (self if forward_dtype is None else self.to(forward_dtype)).redistribute(mesh, placements)
            if backward_dtype is not None and new.requires_grad and new is not self:
                new.register_hook(lambda g: g.to(backward_dtype).to(g.dtype))
            return new
        found = checked(placements, mesh, self.ndim, "redistribute")
        if any(isinstance(p, Partial) for p in found):
            if not self._traced() and found == self.placements:
                return self
            raise RuntimeError(
                f"Can not redistribute from {self.placements} to {found}, "
                "redistributing to Partial is for internal use only!"
            )
        if not (state.grad and self.requires_grad) and not self._traced() and found == self.placements:
            new = self._marked(as_leaf(self, mesh, False))  # which shares its memory
            new._made = new._parts = None  # what it has is known
            return new
        with waiting():
            new = _over(relaid(self, sharding_for(mesh, found, self.shape, "redistribute")), mesh)
        new._made = WHOLE if self._traced() and all(isinstance(p, Replicate) for p in found) else None
        return marked_as_cut(new, found)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole as a plain tensor, on every device."""
        mesh = self._device_mesh
        return self.redistribute(mesh, [Replicate()] * mesh.ndim).to_local(grad_placements=grad_placements)

    _local_tensor = property(to_local)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with torch_functions_off():
            new = self._marked(as_leaf(alias(self).clone(), self._device_mesh, self.requires_grad))
            parts = self._parts
            if parts is not None and parts.are_of(value_of(self)):  # the copy has them too, of its own whole
                with_parts(new, parts.placements, parts.part)
        memo[id(self)] = new
        return new

    def __copy__(self) -> DTensor:
        return self._marked(as_leaf(self, self._device_mesh, self.requires_grad) if self.is_leaf else alias(self))

    def _marked(self, new: Any) -> Any:
        new._cut, new._made, new._named = self._cut, self._made, self._named
        if self._parts is not None:
            new._parts = self._parts
        if getattr(self, "_is_param", False):
            new._is_param = True
        return new

    def __reduce_ex__(self, protocol: Any) -> Any:
        with torch_functions_off():
            part = fresh(own(_value(self), self._device_mesh, self._cut))
        kinds = tuple(map(described, self.placements))
        marked = bool(getattr(self, "_is_param", False))
        return rebuilt, (part, self._device_mesh.facts(), kinds, tuple(self.shape), self.requires_grad, marked)

    def __repr__(self) -> str:  # type: ignore[override]
        value = _value(self)
        if isinstance(value, jax.core.Tracer):
            return f"DTensor(shape={list(self.shape)}, device_mesh={self._device_mesh})"
        parts = self._parts
        with torch_functions_off():
            partial = parts is not None and parts.are_of(value)
            local = repr(fresh(parts.part if partial else own(value, self._device_mesh, self._cut)))
        return f"DTensor(local_tensor={local}, device_mesh={self._device_mesh}, placements={self.placements})"


def as_partial(t: DTensor, placements: Placements) -> DTensor:
    """A tensor as one whose parts are to be reduced: equal parts of a sum, if they can be; else the first process has
    its numbers, the others what changes nothing.
    """
    mesh = t._device_mesh
    new = t.redistribute(mesh, whole_of(placements))
    if alone():
        return new
    return with_parts(new, placements, share(own(value_of(new), mesh, new._cut), mesh, placements))


@contextlib.contextmanager
def torch_functions_off() -> Iterator[None]:
    """Calls inside are those of plain tensors."""
    before = state.overrides_off
    state.overrides_off = max(before, 1)
    try:
        yield
    finally:
        state.overrides_off = before


@contextlib.contextmanager
def mixing() -> Iterator[None]:
    """Plain tensors beside DTensors are taken as replicated, in this thread."""
    before = getattr(_mixing, "on", False)
    _mixing.on = True
    try:
        yield
    finally:
        _mixing.on = before


@contextlib.contextmanager
def allowing(allows: Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]) -> Iterator[None]:
    """In this thread, calls of which ``allows(function, args, kwargs)`` is true take plain tensors as replicated."""
    before = getattr(_mixing, "allows", None)
    _mixing.allows = allows
    try:
        yield
    finally:
        _mixing.allows = before


def _value(t: Tensor) -> Any:
    value = value_of(t)
    array = getattr(value, "array", None)
    return value if array is None else array


def as_leaf(t: Tensor, mesh: DeviceMesh, requires_grad: bool) -> Any:
    """A DTensor over the storage of ``t``, without history."""
    arm()
    new = mark(alias(t, DTensor), requires_grad)
    new._device_mesh = mesh
    new._cut, new._named = getattr(t, "_cut", None), getattr(t, "_named", None)
    return new


def marked_as_cut(t: Any, placements: Placements) -> Any:
    """``t``, which lies as placements say, with those that its array cannot say."""
    t._cut = placements if unequal(t._device_mesh, placements, t.shape) else None
    return name(t, placements)


def _over(result: Any, mesh: DeviceMesh, given: Sequence[Any] = ()) -> Any:
    """Results of a function with their plain tensors, which nobody else has, as DTensors over a mesh."""
    if isinstance(result, Tensor):
        if type(result) is Tensor and not any(result is t for t in given):
            arm()
            result.__class__ = DTensor
            result._device_mesh = mesh  # type: ignore[attr-defined]
            _spread(result, mesh)
            watched(result._storage.value)
            _cut_as(result, given)
        elif type(result) is DTensor and "_device_mesh" not in result.__dict__:
            result._device_mesh = mesh
            _cut_as(result, given)
        return result
    if isinstance(result, tuple | list):
        items = [_over(x, mesh, given) for x in result]
        if isinstance(result, tuple) and hasattr(result, "_fields"):
            return type(result)(*items)
        return type(result)(items)
    return result


def _spread(t: Any, mesh: DeviceMesh) -> None:
    """Replicate what an operator has made on one device of a mesh that has several."""
    value = t._storage.value
    if mesh.jax_mesh.size > 1 and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        if layout_of(value) is None and t._view is None:
            lend(t._storage, whole(value, sharding_for(mesh, (Replicate(),) * mesh.ndim, t.shape, "DTensor")))


def _cut_as(t: Any, given: Sequence[Any]) -> None:
    """Let ``t`` have the placements of an argument of its shape, if that is cut into parts that are not equal."""
    cut = next((x._cut for x in given if isinstance(x, DTensor) and x._cut and x.shape == t.shape), None)
    if cut is not None:
        t._cut = cut


def _cut_as_partitioned(result: Any, func: Any, args: Any, kwargs: Any, given: Sequence[Any], mesh: DeviceMesh) -> None:
    """Let results that are not of the shape of an argument, or square, be cut as XLA's partitioner says."""
    outs = tensors_in(result)
    new = [isinstance(y, DTensor) and not any(y is t for t in given) for y in outs]
    if not any(n and (y._cut is None or len({*y.shape}) < y.ndim) for n, y in zip(new, outs, strict=True)):
        return
    found = followed(func, args, kwargs, mesh)
    if found is not None and len(found) == len(outs):
        for n, y, placements in zip(new, outs, found, strict=True):
            if n:
                marked_as_cut(y, placements)


def _tensors(values: Any) -> Iterator[Tensor]:
    for v in values:
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, tuple | list):
            yield from _tensors(v)


def _demand_alike(func: Any, found: Sequence[Any], mesh: DeviceMesh) -> None:
    """Refuse other meshes, and plain tensors beside DTensors, but for those of one element and those that lie over the
    mesh, as what the library's own functions make of DTensors does.
    """
    name = getattr(func, "__name__", str(func))
    if name == "__set__" or getattr(_mixing, "on", False):
        return
    for t in found:
        if not isinstance(t, DTensor):
            if t.numel() != 1 and not _lies_over(t, mesh):
                raise mixed(name)
        elif t._device_mesh.jax_mesh != mesh.jax_mesh:
            raise RuntimeError(f"{name}: all DTensors must be over one mesh, got {mesh} and {t._device_mesh}")


def mixed(name: str) -> RuntimeError:
    """What is said of plain tensors beside DTensors."""
    return RuntimeError(
        f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
        "distributed operators! Use distribute_tensor() or DTensor.from_local()"
    )


def _lies_over(t: Tensor, mesh: DeviceMesh) -> bool:
    """Whether a plain tensor, or what a program traces in its place, lies over the devices of a mesh."""
    value = _value(t)
    if isinstance(value, jax.core.Tracer) or mesh.jax_mesh.size == 1:
        return True
    layout = layout_of(value)
    return layout is not None and layout.device_set == {*mesh.jax_mesh.devices.flat}


def _demand_plain(function: str, t: Any) -> None:
    if not isinstance(t, Tensor):
        raise TypeError(f"{function}(): expected a Tensor, got {type(t).__name__}")
    if isinstance(t, DTensor):
        raise RuntimeError(f"{function}(): expected a plain torch.Tensor, got a DTensor; use .to_local()")


def _special(func: Any, args: tuple[Any, ...]) -> Any:
    name = _REFUSED.get(func)
    if name is not None:
        raise RuntimeError(f".{name}() is not supported for tensor subclasses, got DTensor; use .full_tensor()")
    t = args[0]
    with torch_functions_off():
        result = func(*args)
        if isinstance(result, Tensor) and type(result) is Tensor and grad_of(t) is result:
            result = as_leaf(result, t._device_mesh, result.requires_grad)
            _cut_as(result, [t])
            result._named = t._named
            set_grad(t, result)
        return result


def _read(func: Any, t: Any) -> Any:
    """The number of a tensor: of one that is Partial what this process has, as PyTorch gives it."""
    demand_known(t, func.__name__)
    with torch_functions_off():
        return func(t if t._parts is None else fresh(t._parts.part))


_READS = {Tensor.item, Tensor.__float__, Tensor.__int__, Tensor.__bool__, Tensor.__complex__}
_REFUSED: dict[Any, str] = {Tensor.numpy: "numpy", Tensor.tolist: "tolist"}
_GETTERS = nowrap()


def _as_first(t: Tensor, mesh: DeviceMesh, placements: Sequence[Placement], source: int = 0) -> Any:
    """The value of ``t``, where processes have the same whole that of one of them, by its place in the mesh."""
    copy = fresh(value_of(t)).clone()
    for i, placement in enumerate(placements):
        many = processes_along(mesh, i) if isinstance(placement, Replicate) else 1
        if many > 1 and mesh._groups is None and many == c10d.get_world_size():  # several devices of each process
            broadcast(copy, source)
        elif many > 1:
            broadcast(copy, group=mesh.get_group(i), group_src=source)
    return value_of(copy)


class _Joined(Function):
    """The tensor of all processes from their parts."""

    @staticmethod
    def forward(ctx: Any, t: Any, mesh: Any, placements: Any, shape: Any, back: Any, value: Any) -> Any:
        ctx.mesh, ctx.placements = mesh, whole_of(placements) if back is None else back
        return fresh(joined(value, mesh, placements, "from_local", None, shape))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        kept = whole_of(ctx.placements)
        value = own(whole(value_of(grad), sharding_for(ctx.mesh, kept, grad.shape, "from_local")), ctx.mesh, kept)
        return fresh(share(value, ctx.mesh, ctx.placements)), None, None, None, None, None


class _Part(Function):
    """This process's part of a tensor."""

    @staticmethod
    def forward(ctx: Any, t: Any, mesh: Any, back: Any, cut: Any) -> Any:
        ctx.mesh, ctx.back, ctx.shape = mesh, back, tuple(t.shape)
        if isinstance(cut, Partials):
            return fresh(cut.part).clone()
        return part_of(t, mesh, cut)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.back is None:
            return grad, None, None, None
        value = joined(value_of(grad), ctx.mesh, ctx.back, "to_local", None, ctx.shape)
        return fresh(value), None, None, None


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Placement] | None = None, *,
    src_data_rank: int | None = 0,
) -> DTensor:  # fmt: skip
    """A DTensor of a whole tensor, which every process has.

    Args:
        tensor: a leaf; the result is one too, and requires grad if it does.
        placements: one for each dimension of the mesh: Shard(dim), Replicate(), which is the default, or Partial(),
            in several processes: parts of which ``tensor`` is the sum.
        src_data_rank: the process whose values count, by its place in each dimension of the mesh; None where all
            have the same.

    Raises:
        RuntimeError: the tensor is no leaf.
        ValueError: another number of placements.

    >>> import torchlike as torch
    >>> from torchlike.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> distribute_tensor(torch.ones(2), init_device_mesh("cpu", (1,)), [Shard(0)]).shape
    torch.Size([2])
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"distribute_tensor(): expected a Tensor, got {type(tensor).__name__}")
    mesh = device_mesh or current_mesh()
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    found = checked(placements, mesh, tensor.ndim, "distribute_tensor")
    if isinstance(tensor, DTensor):
        if tensor._device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor._device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != found:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements {found}. "
                "do you want to call `redistribute` instead?"
            )
        return tensor
    if any(isinstance(p, Partial) for p in found):
        return as_partial(distribute_tensor(tensor, mesh, whole_of(found), src_data_rank=src_data_rank), found)
    sharding = sharding_for(mesh, found, tensor.shape, "distribute_tensor")
    value = value_of(tensor)
    if not alone() and src_data_rank is not None and c10d.is_initialized() and not tensor.is_meta:
        value = _as_first(tensor, mesh, [Replicate()] * mesh.ndim, src_data_rank)
    new = as_leaf(fresh(whole(value, sharding)), mesh, tensor.requires_grad)
    if getattr(tensor, "_is_param", False):
        new._is_param = True
    return marked_as_cut(new, found)


def rebuilt(
    part: Tensor, facts: tuple[Any, ...], kinds: Any, shape: Any, requires_grad: bool, parameter: bool
) -> DTensor:
    """The DTensor of a pickle, of which this process has a part; RuntimeError where that is none of ``shape``."""
    mesh = remade(*facts)
    found = checked([placed(*kind) for kind in kinds], mesh, part.ndim, "load")
    value = joined(value_of(part), mesh, found, "load", None, shape)
    if tuple(value.shape) != tuple(shape):
        raise RuntimeError(
            f"load(): a DTensor of shape {list(shape)} was saved, and the parts here make {list(value.shape)}: load it "
            "in as many processes, each its own file, or use torch.distributed.checkpoint"
        )
    new = marked_as_cut(as_leaf(fresh(value), mesh, requires_grad), found)
    if parameter:
        new._is_param = True
    return new
