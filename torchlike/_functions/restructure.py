"""Methods that change the geometry of the tensor itself, and leave its storage."""

import math

import numpy as np

from torchlike._aten.python_dispatch import count, modes_set_to
from torchlike._base.frames import warn
from torchlike._base.layout import contiguous_strides, numel
from torchlike._base.state import state
from torchlike._core.autograd.operator_node import node_class
from torchlike._core.conversion.convert import place
from torchlike._core.conversion.factories import checked_size
from torchlike._core.conversion.storages import of_storage
from torchlike._core.dispatch.inplace import demand_rebasable, demand_writable
from torchlike._core.dispatch.observers import announced, one_call, redispatch, subclassed, watched, whole
from torchlike._core.dispatch.resizing import grows
from torchlike._core.dispatch.resizing import resize as resizing
from torchlike._core.dispatch.view_calls import call_view
from torchlike._core.tensor import arguments, untyped_storage
from torchlike._core.tensor.arguments import demand_given
from torchlike._core.tensor.memory_format import demand_format, format_strides
from torchlike._core.tensor.mutation import (
    become,
    bump,
    count_with,
    current,
    demand_own,
    demand_own_shape,
    extras_of,
    reshape,
    set_history,
)
from torchlike._core.tensor.storage import UNTRACKED, Version
from torchlike._core.tensor.tensor import Tensor, alias, fresh, preserve_format, value_of
from torchlike._executor.immediate import too_large
from torchlike._executor.level import LevelValue
from torchlike._executor.sparse import LAYER, SparseValue
from torchlike._functions._install import both, function, method
from torchlike._functions.copy import format_of
from torchlike._ops import view as views

# -- views in place ------------------------------------------------------------------------------


def _become(t, node, op, args):
    """Give ``t`` the geometry and history of its view by ``op``; ``node`` is the name of the new node."""
    demand_writable(t)
    demand_own_shape(t)
    if state.grad and t.requires_grad:
        demand_rebasable(t)
    overload = "default" if op.schema.name == "transpose" else op.schema.overload or "default"
    name = f"{op.schema.name}_.{overload}"
    if subclassed(t):
        return _become_wrapper(t, node, op, args, name)
    levelled = isinstance(t._storage.form, LevelValue) and not t._storage.stands
    apart = LAYER.used and isinstance(t._storage.form, SparseValue)  # whose views are values of their own
    if apart:
        _demand_moved(t, op.schema.name)
    with announced(name, t, *args):
        new = call_view(op, (t,), args)
    if new._ex is not None and "tangents" in new._ex:
        extras_of(t)["tangents"] = new._ex["tangents"]
    if new._ex is not None and "inner" in new._ex:  # what it stands for at the level below
        extras_of(t)["inner"] = new._ex["inner"]
        t._storage.keep(t, t._storage.epoch, value_of(new))
    if levelled or apart:  # the geometry is that of the tensor which it stands for
        become(t, new._storage, new._view)
    else:
        reshape(t, new._view)
    if new._edge is not None:
        if not apart:
            new._edge[0].__class__ = node_class(node)
        set_history(t, new._edge, True)
    bump(t)
    if t._diff is not None:
        current(t._diff, t)
    return t


def _demand_moved(t, name):
    """Raise unless PyTorch changes the geometry of a tensor without strides so: NotImplementedError, RuntimeError."""
    if t._storage.form.quantizer is not None:
        return
    swaps = name in ("t", "transpose")
    if swaps and not t.is_sparse:
        layout = "Sparse" + str(t.layout).rpartition("_")[2].capitalize()
        raise RuntimeError(
            f"torch.{name}_: in-place transposition is not supported for {layout} layout; take x.{name}()"
        )
    if not swaps:
        raise NotImplementedError(
            f"{name}_() is not supported for tensors of layout {t.layout}; take x.{name}(), or make them dense with "
            ".to_dense()"
        )


def _become_wrapper(t, node, op, args, name):
    """As ``_become`` for a wrapper: its class changes what it wraps, and its geometry if it likes."""
    stand = alias(t)
    stand._edge, stand._rg, stand._diff = t._edge, t._rg, t._diff
    with modes_set_to(()):
        edge = call_view(op, (stand,), args)._edge
    before = None if t._vc is UNTRACKED else t._vc.version
    redispatch(name, t, *args)
    if before is not None and t._vc.version == before:
        bump(t)
    if edge is not None:
        edge[0].__class__ = node_class(node)
        set_history(t, edge, True)
        count(edge[0])
    return t


@method()
def unsqueeze_(self, dim):
    """In-place ``unsqueeze``."""
    return _become(self, "UnsqueezeBackward1", views.unsqueeze, (dim,))


@method()
def squeeze_(self, *dims, dim=None):
    """In-place ``squeeze``."""
    if dims:
        if dim is not None:
            raise TypeError(f"squeeze_() received an invalid combination of arguments - got {len(dims)} and dim={dim}")
        dim = dims[0] if len(dims) == 1 else dims
    if dim is None:
        return _become(self, "SqueezeBackward3", views.squeeze, ())
    if isinstance(dim, int):
        return _become(self, "SqueezeBackward4", views.squeeze_dim, (dim,))
    return _become(self, "SqueezeBackward5", views.squeeze_dims, (tuple(dim),))


@method()
def t_(self):
    """In-place ``t``."""
    return _become(self, "TBackward1", views.t, ())


@method("transpose_", "swapaxes_", "swapdims_")
def transpose_(self, dim0, dim1):
    """In-place ``transpose``."""
    return _become(self, "TransposeBackward1", views.transpose, (dim0, dim1))


@method()
def as_strided_(self, size, stride, storage_offset=None):
    """In-place ``as_strided``."""
    size, stride = (arguments.as_ints("as_strided_", n, x) for n, x in (("size", size), ("stride", stride)))
    if storage_offset is not None:
        storage_offset = arguments.as_int("as_strided_", "storage_offset", storage_offset)
    return _become(self, "AsStridedBackward1", views.as_strided, (size, stride, storage_offset))


function("as_strided_")(as_strided_)

# -- storage -------------------------------------------------------------------------------------


@method()
def resize_(self, *sizes, size=None, memory_format=None):
    """This tensor with another size over the same storage, which grows (by zeros) where it must.

    Other tensors over that storage see what is written to the part they show, and are seen. RuntimeError where numpy
    sees the memory. ``memory_format``: of the strides over the elements as they lie.
    """
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    if memory_format is not None:
        demand_format("resize_", memory_format)
    given = sizes if size is None else (size,)
    demand_given("resize_", "size", given)
    shape = checked_size("resize_", given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given)
    if LAYER.used and self.is_sparse:
        raise NotImplementedError(
            "resize_() is not supported for tensors of layout torch.sparse_coo; use sparse_resize_(), or resize_as_()"
        )
    demand_writable(self)
    _demand_no_history(self)
    if any([level.carries(self) for level in state.levels]):
        raise RuntimeError("cannot resize variables that has a forward grad")
    if subclassed(self):
        redispatch("resize_.default", self, list(shape))
        return self
    if watched(self):
        with announced("resize_.default", self, list(shape)):
            return resize_(self, shape)
    if shape == tuple(self.shape) and memory_format is None:
        return self
    if isinstance(self._storage.form, SparseValue) and self._storage.form.quantizer is None:
        LAYER.resized(self, shape)
        return self
    strides = contiguous_strides(shape) if memory_format is None else format_strides(shape, memory_format)
    if isinstance(self._storage.form, LevelValue):
        raise NotImplementedError("resize_() inside of vmap is not supported; use reshape(), or new_zeros(), copy_()")
    if numel(shape) * self.dtype.itemsize >= 2**63:
        raise too_large(shape, self.dtype.np)
    demand_own_shape(self)
    grows(self, shape)
    bump(self)
    resizing(self, shape, strides)
    return self


def _demand_no_history(t):
    if t.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")


@method()
def resize(self, *size):
    """Deprecated: the tensor in another shape of as many elements; use ``reshape``.

    Raises RuntimeError where the number of elements would change.
    """
    warn("non-inplace resize is deprecated; use reshape instead", UserWarning)
    return _reshaped(self, size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size)


@method()
def resize_as(self, tensor):
    """Deprecated: the tensor in the shape of another one, of as many elements; use ``reshape``."""
    warn("non-inplace resize_as is deprecated; use reshape_as instead", UserWarning)
    return _reshaped(self, tuple(tensor.shape))


def _reshaped(t, shape):
    if (asked := math.prod(shape)) != Tensor.numel(t):
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, shape))} ({asked} elements in total), but the given tensor has a "
            f"size of {'x'.join(map(str, t.shape))} ({t.numel()} elements): a resize that gradients can follow keeps "
            "the number of elements"
        )
    return Tensor.contiguous(t).view(shape)


@method()
def resize_as_(self, other, memory_format=None):
    """``resize_`` to the size of another tensor."""
    if LAYER.used and self.is_sparse and other.is_sparse:
        if memory_format is not None:
            raise RuntimeError("Unsupported memory format for sparse tensor resize_as_: a sparse tensor has none")
        _demand_no_history(self)
        return self.resize_as_sparse_(other)
    if memory_format is preserve_format:
        memory_format = format_of(other)
    if self.requires_grad:
        return Tensor.resize_(self, tuple(other.shape), memory_format=memory_format)
    return whole("resize_as_", _resized_as, self, other, memory_format=memory_format)


def _resized_as(self, other, *, memory_format=None):
    return Tensor.resize_(self, tuple(other.shape), memory_format=memory_format)


function("resize_as_")(resize_as_)


@method()
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Make this tensor share the memory, size and strides of ``source``; without it, be empty.

    Args:
        source: a tensor, or a storage (then 1-dim over all of it by default).
        storage_offset, size, stride: the geometry over the memory of ``source``, in elements.
    """
    if subclassed(self) or subclassed(source):
        overload, given = _overload_of_set(source, storage_offset, size, stride)
        redispatch(overload, self, *given)
        return self
    call = _overload_of_set(source, storage_offset, size, stride)
    if source is None:
        source = fresh(place(np.zeros(0, self.dtype.np), self.device))
    elif isinstance(source, untyped_storage.UntypedStorage | untyped_storage.TypedStorage):
        source = of_storage(source, self.dtype)
    elif not isinstance(source, Tensor):
        kind = type(source).__name__
        raise TypeError(f"set_(): argument 'source' (position 1) must be Tensor or Storage, not {kind}")
    if source.dtype is not self.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source.dtype.scalar_name} to a tensor of type {self.dtype.scalar_name}"
        )
    if size is not None:
        strides = contiguous_strides(tuple(size)) if stride is None else tuple(stride)
        source = Tensor.detach(source).as_strided(size, strides, storage_offset)
    if isinstance(source._storage.form, LevelValue) or isinstance(self._storage.form, LevelValue):
        raise RuntimeError(
            "vmap: aten::set_(self, *extra_args) is not possible: a tensor inside of vmap has no memory of its own "
            "that others could share. Please try to use out-of-place operators instead of aten::set_."
        )
    if any([level.carries(t) for level in state.levels for t in (self, source)]):
        raise NotImplementedError(
            "Trying to use forward AD with set_ that does not support it because it has not been implemented yet: "
            "set it before make_dual()"
        )
    if self._storage.stands or source._storage.stands:
        raise RuntimeError("derivative for set_ is not implemented: inside of grad() tensors have no memory to share")
    demand_writable(self)
    if self.requires_grad and state.grad:
        demand_rebasable(self)
    demand_own(self._storage, source._storage.value)
    with announced(call[0], self, *call[1]):
        become(self, source._storage, source._view)
    if source.is_inference():
        count_with(self, UNTRACKED)
    bump(self)
    return self


def _overload_of_set(source, storage_offset, size, stride):
    """The aten overload of such a call, and its arguments behind the tensor."""
    if source is None:
        return "set_.default", ()
    if size is None:
        return f"set_.source_{'Tensor' if isinstance(source, Tensor) else 'Storage'}", (source,)
    memory = source.untyped_storage() if isinstance(source, Tensor) else source
    strides = contiguous_strides(tuple(size)) if stride is None else stride
    return "set_.source_Storage_storage_offset", (memory, storage_offset, list(size), list(strides))


@method()
def is_set_to(self, tensor):
    """Whether both tensors have the same memory, offset, size and strides."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"is_set_to(): argument 'tensor' (position 1) must be Tensor, not {type(tensor).__name__}")
    return self._storage is tensor._storage and self._layout == tensor._layout and self.dtype is tensor.dtype


method()(untyped_storage.untyped_storage)
method()(untyped_storage.storage)
method("_typed_storage")(untyped_storage.typed_storage)

# -- views that do not know of each other --------------------------------------------------------


def _untied(op, parts):
    """The parts without their tie to the base: each may be changed in place, and the others' history stays."""
    for part in parts:
        part._diff = None
        if part._vc is not UNTRACKED:
            part._vc = Version()
        if part._edge is not None:
            part._edge[0].__class__ = node_class(op)
    return parts


@both()
@one_call()
def unsafe_split(input, split_size, dim=0):
    """As ``split``, for parts that will be changed in place: the history does not know that they share memory."""
    return _untied("UnsafeSplitBackward0", Tensor.split(input, split_size, dim))


@both()
def unsafe_chunk(input, chunks, dim=0):
    """As ``chunk``, with parts as those of :func:`unsafe_split`."""
    if state.dispatch_modes and (n := input.shape[dim]) and chunks > 0:
        return unsafe_split(input, -(-n // chunks), dim)
    return _untied("UnsafeSplitBackward0", Tensor.chunk(input, chunks, dim))


@both()
@one_call()
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """As ``split_with_sizes``, with parts as those of :func:`unsafe_split`."""
    return _untied("UnsafeSplitWithSizesBackward0", input.split_with_sizes(split_sizes, dim))
