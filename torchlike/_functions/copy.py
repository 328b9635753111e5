"""Copies, moves and casts."""

import copy as _copy
import pickle
from collections import OrderedDict

import jax

import torchlike._base.device as devices
import torchlike._base.dtypes as dtypes
from torchlike._aten.subclass import give, slots_of, state_of
from torchlike._base.bits import X64
from torchlike._base.layout import contiguous_strides, preserve_strides
from torchlike._base.once import asked_for, discarding
from torchlike._base.result_layouts import suggests_channels_last
from torchlike._base.state import no_grad, state
from torchlike._core.autograd.fields import mark
from torchlike._core.autograd.hooks import warn_if_has_hooks
from torchlike._core.autograd.node import requires_grad
from torchlike._core.conversion.device_moves import move
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import redispatch, subclassed, watched
from torchlike._core.overrides.torch_function import unseen
from torchlike._core.quantized.rules import copied as quantized_copy
from torchlike._core.quantized.value import parts_of, quantized_of, tensor_of
from torchlike._core.sparse.shapes import copied
from torchlike._core.sparse.value import Compressed, Coo, layout_name, value
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.memory_format import demand_format, formatted
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.mutation import grad_of
from torchlike._core.tensor.size import Size
from torchlike._core.tensor.storage import UNTRACKED, Outer, Version, holding
from torchlike._core.tensor.tensor import (
    Tensor,
    alias,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device_of,
    dtype_of,
    preserve_format,
    sparse_coo,
    strided,
)
from torchlike._core.tensor.untyped_storage import TypedStorage, copied_cell, typed_storage, untyped_storage
from torchlike._executor.level import LevelValue, mapped
from torchlike._executor.sparse import LAYER
from torchlike._functions._install import both, method
from torchlike._functions.to_forms import parse_to
from torchlike._ops import shape as ops
from torchlike._ops.cast import to_copy
from torchlike._ops.view import is_conj, is_neg
from torchlike._tensor import _rebuild_from_type_v2
from torchlike._utils import (
    STORAGES,
    _rebuild_meta_tensor_no_storage,
    _rebuild_qtensor,
    _rebuild_sparse_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    _rebuild_wrapper_subclass,
)


@both()
def clone(input, *, memory_format=preserve_format):
    """A copy with its own storage, recorded by autograd."""
    if LAYER.used and (v := quantized_of(input)) is not None:
        return tensor_of(clone(v.codes, memory_format=memory_format), v.quantizer)
    if watched(input):
        return call(ops.clone, (input,), (None if memory_format is preserve_format else memory_format,))
    out = call(ops.clone, (input,), (None,))
    if memory_format is preserve_format or memory_format is None:
        if input._view is not None and (strides := preserve_strides(input._view.layout)) != out.stride():
            restride(out, strides)
        return out
    if memory_format is not contiguous_format and mapped(input):
        raise RuntimeError(
            "NYI: Tensor.clone(memory_format) inside vmap is only supported with memory_format torch.preserve_format "
            f"or torch.contiguous_format (got {memory_format}): call it outside, on the whole tensor"
        )
    return formatted(flat(out), memory_format)


@method()
def contiguous(self, *, memory_format=contiguous_format):
    """The tensor itself if its strides are those of ``memory_format``, else a copy that has them."""
    if memory_format is not contiguous_format:
        demand_format("contiguous", memory_format)
    if self.layout is not strided:
        raise RuntimeError("unsupported memory format option Contiguous: a sparse tensor has no memory format")
    if self.is_contiguous(memory_format=memory_format):
        return self
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return clone(self, memory_format=memory_format)


@method()
def to(self, *args, **kwargs):
    """The tensor with another dtype and/or on another device; itself if nothing changes.

    Forms: ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)``; then ``non_blocking`` and ``copy``; keyword
    ``memory_format``. The dtype may be one of Python's types, as in ``to(float)``. TypeError for other forms.

    >>> import torchlike as torch
    >>> torch.ones(1).to(torch.int64)
    tensor([1])
    """
    device, dtype, _, copy, memory_format = parse_to(args, kwargs)
    return _to(self, device, dtype, copy, memory_format)


def format_of(t):
    """The memory format that the strides of ``t`` suggest."""
    if t._view is None or not suggests_channels_last(t._view.layout):
        return contiguous_format
    return channels_last if len(t._view.layout.shape) == 4 else channels_last_3d


def flat(t):
    """The fresh tensor ``t``, contiguous, as what it stands for below a transform."""
    if t._storage.stands or isinstance(t._storage.form, LevelValue):
        restride(t, contiguous_strides(t.shape))
    t._view = t._storage.strides = None
    return t


def _is_first(device, here):
    """Whether a device without an index, which means the first of its type, is ``here``."""
    return device.index is None and device.type == here.type and not here.index


def _to(self, device=None, dtype=None, copy=False, memory_format=None):
    if memory_format is not None and memory_format is not preserve_format:
        demand_format("to", memory_format)
        out = _to(self, device, dtype, copy)
        if out is not self:
            return formatted(flat(out), memory_format)
        return self if format_of(self) is memory_format else clone(self, memory_format=memory_format)
    here = device_of(self) if type(self) in KIND else self.device
    moves = device is not None and device != here and not _is_first(device, here)
    casts = dtype is not None and dtype is not dtype_of(self)
    if not (moves or casts or copy):
        return self
    out = self
    if moves:
        out = move(out, device)
    if casts and dtype_of(self).is_complex:
        discarding(dtype)
    if casts or not moves:
        out = call(to_copy, (out,), (dtype or dtype_of(self),))
    return out


@method()
def cpu(self, memory_format=None):
    """The tensor on the CPU."""
    return _to(self, devices.device("cpu"), memory_format=memory_format)


@method()
def cuda(self, device=None, non_blocking=False, memory_format=None):
    """The tensor on a GPU (the first unless given)."""
    return _to(self, devices.device("cuda" if device is None else device), memory_format=memory_format)


@method("type")
def type_(self, dtype=None, non_blocking=False):
    """The name of the tensor's type, or the tensor as another type."""
    if dtype is None:
        place_name = "" if self.device.type == "cpu" else self.device.type + "."
        if self.layout is not strided:
            if self.layout is not sparse_coo:
                raise RuntimeError(f"Unimplemented backend {layout_name(self)}: type() of a compressed sparse tensor")
            place_name += "sparse."
        if self.is_quantized:
            place_name += "quantized."
        return f"torch.{place_name}{self.dtype.scalar_name}Tensor"
    place = None
    if isinstance(dtype, type) and hasattr(dtype, "tensor_type"):  # torch.FloatTensor
        dtype = dtype.tensor_type
    if isinstance(dtype, str):
        given = dtype
        place, name = "cpu", dtype.removeprefix("torch.")
        if name.startswith("cuda."):
            place, name = "cuda", name.removeprefix("cuda.")
        if name == "ComplexHalfTensor":
            dtypes.complex32.np  # noqa: B018  (refuses it by name)
        if not given.startswith("torch.") or name not in dtypes.TENSOR_TYPES:
            raise ValueError(f"invalid type: {given!r}")
        if name in ("DoubleTensor", "LongTensor"):
            asked_for(name)
        dtype = dtypes.TENSOR_TYPES[name]
    if dtype is Tensor:
        dtype = dtypes.get_default_dtype()
    if isinstance(dtype, type):
        raise ValueError(f"invalid type: {dtype.__name__!r}")
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError("dtype must be a type, str, or dtype object")
    try:
        return _to(self, None if place is None else devices.device(place), dtype)
    except devices.NotCompiled as error:  # PyTorch fails later than where it asks for CUDA by an AssertionError
        raise RuntimeError(str(error)) from None


@method()
def type_as(self, other):
    """The tensor with the dtype and device of another."""
    return _to(self, other.device, other.dtype)


def _caster(name, dtype):
    narrow = not X64 and name in ("double", "long", "cdouble")

    def cast(self, memory_format=None):
        if narrow:
            asked_for(f"Tensor.{name}()")
        return _to(self, None, dtype, memory_format=memory_format)

    cast.__name__, cast.__doc__ = name, f"The tensor as {dtype}; itself if it is one."
    return cast


for _name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool", "cfloat", "cdouble"):
    method(_name)(_caster(_name, dtypes.ALIASES[_name]))
method("byte")(_caster("byte", dtypes.uint8))
method("char")(_caster("char", dtypes.int8))


@method()
@unseen
def __copy__(self):
    warn_if_has_hooks(self)
    _demand_storage(self)
    new = alias(self, type(self))
    new._rg = requires_grad(self)
    give(new, self.__dict__, slots_of(self))
    return new


@method()
def __deepcopy__(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment. If you were "
            "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage."
        )
    new = _copied(self, memo)
    give(new, *_copy.deepcopy((self.__dict__, slots_of(self)), memo))
    memo[id(self)] = new
    if (grad := grad_of(self)) is not None:
        new._grad = _copy.deepcopy(grad, memo)
    return new


def _demand_storage(t):
    """Refuse a tensor within a transform: a copy of its memory would have no part in what is derived or mapped."""
    if isinstance(t._storage.form, LevelValue):
        what, where = "BatchedTensorImpl", "vmap"
    elif t._storage.stands or any([level.hides(t._storage) for level in state.levels]):
        what, where = "TensorWrapper", "grad() or jvp()"
    else:
        return
    raise NotImplementedError(
        f"Cannot access storage of {what}: a tensor inside of {where} has none of its own to copy; use clone()"
    )


def _copied(t, memo):
    """A leaf with the layout of ``t`` over a copy of its storage, one for all tensors that share it."""
    _demand_storage(t)
    meta = type(t) is not Tensor and t.device.type == "meta"
    if meta or (subclassed(t) and isinstance(t._storage.form, Outer)):
        with no_grad():
            new = redispatch("clone.default", t) if subclassed(t) else t.clone()
        _demand_copy(t, new, "clone")
        return mark(new, True) if requires_grad(t) else new
    if type(t) is not Tensor:
        _demand_copy(t, t.new_empty([]), "new_empty")
    lazy = is_conj(t) or is_neg(t)  # such a view has a copy of its own, as PyTorch's
    shown = call(ops.clone, (t.detach(),), (None,)) if lazy else t
    if lazy:
        cell = shown._storage
    elif value(t) is None and not t.is_quantized:
        cell = copied_cell(t._storage, memo)
    else:
        key = "storage", id(t._storage)
        copy = quantized_copy if t.is_quantized else copied
        cell = memo.get(key) or memo.setdefault(key, holding(copy(t)._storage.value))
    new = alias(shown, type(t))
    new._storage, new._vc, new._rg = cell, UNTRACKED if state.inference else Version(), t._rg
    new._cache = None
    return new


def _demand_copy(t, new, method):
    """Refuse to copy a tensor whose class makes another class of it."""
    if type(new) is not type(t):
        kind = "wrapper" if method == "clone" else "non-wrapper"
        which = "cloning" if method == "clone" else "that function"
        raise RuntimeError(
            f"The default implementation of __deepcopy__() for {kind} subclasses only works for subclass types that "
            f"implement {method}() and for which {which} returns another instance of the same subclass: for "
            f"{type(t).__name__} it gave a {type(new).__name__}. Implement it in __torch_dispatch__, or override "
            "__deepcopy__()."
        )


def _parts_of(v):
    """What a pickle keeps of a sparse tensor."""
    if isinstance(v, Coo):
        return v.indices, v.values, Size(v.shape), v.coalesced
    assert isinstance(v, Compressed)
    return v.compressed, v.plain, v.values, Size(v.shape)


@method()
def __reduce_ex__(self, protocol):
    warn_if_has_hooks(self)
    make, args = _reduced(self)
    state = state_of(self)
    if type(self) is Tensor and not state:
        return make, args
    return _rebuild_from_type_v2, (make, type(self), args, state)


def _reduced(t):
    """The function and the arguments that make a tensor like ``t``, of class Tensor, over its storage."""
    _demand_storage(t)
    if (parts := value(t)) is not None:
        return _rebuild_sparse_tensor, (t.layout, _parts_of(parts))
    if (v := quantized_of(t)) is not None:
        cell = TypedStorage(wrap_storage=untyped_storage(v.codes), dtype=v.dtype)
        place = t.storage_offset(), tuple(t.shape), t.stride()
        return _rebuild_qtensor, (cell, *place, parts_of(v), False, OrderedDict())
    if isinstance(t._storage.form, jax.core.Tracer):
        raise pickle.PicklingError("a tensor that jax traces cannot be pickled or saved: its value is not known")
    size, stride = tuple(t.shape), t.stride()
    if isinstance(t._storage.form, Outer):
        place = t.storage_offset(), t.layout, t.device
        return _rebuild_wrapper_subclass, (type(t), t.dtype, size, stride, *place, t.requires_grad)
    if t.is_meta:
        return _rebuild_meta_tensor_no_storage, (t.dtype, size, stride, t.requires_grad)
    marks = {name: True for name, marked in (("conj", is_conj(t)), ("neg", is_neg(t))) if marked}
    rest: tuple = (t.storage_offset(), size, stride, t.requires_grad, OrderedDict())
    if t.dtype in STORAGES.values():
        return _rebuild_tensor_v2, (typed_storage(t), *rest, *([marks] if marks else []))
    return _rebuild_tensor_v3, (untyped_storage(t), *rest, t.dtype, *([marks] if marks else []))
