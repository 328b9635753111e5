"""``x[index]`` and ``x[index] = value``: basic indices are views, index tensors gather and scatter."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from torchlike._base import dtypes
from torchlike._base.frames import warn
from torchlike._base.layout import Layout, contiguous_strides, has_overlap, is_contiguous, pointwise_strides
from torchlike._base.state import UNUSUAL, state
from torchlike._base.tracing import trace_state_clean
from torchlike._core.autograd import node as nodes
from torchlike._core.autograd import operator_node
from torchlike._core.conversion.at_hand import at_mask, at_places, columns_of, fill_at_mask
from torchlike._core.conversion.basic_indices import at_once
from torchlike._core.conversion.convert import from_jax_array, host, item, place
from torchlike._core.conversion.device_moves import move
from torchlike._core.conversion.numbers import fitting
from torchlike._core.dispatch.dispatch import call, plan_for, refresh
from torchlike._core.dispatch.expanded import fill_inplace
from torchlike._core.dispatch.inplace import call_inplace, check_writable, demand_writable, rebase
from torchlike._core.dispatch.observers import redispatch
from torchlike._core.dispatch.view_calls import Shaped, call_view
from torchlike._core.tensor.arguments import KIND
from torchlike._core.tensor.memory_order import inherit_strides, restride
from torchlike._core.tensor.mutation import bump, complete, enter, store
from torchlike._core.tensor.overwriting import large, overwritable, overwrite
from torchlike._core.tensor.storage import CAPTURES
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._core.tensor.views import View, chain_read, chain_write, demand_no_derivative
from torchlike._decl.derive import Derived
from torchlike._executor import immediate
from torchlike._executor.level import LevelValue
from torchlike._executor.pending import NUMPYS, Array
from torchlike._executor.scalars import with_arrays
from torchlike._executor.sparse import LAYER, SparseValue
from torchlike._ops import index as ops
from torchlike._ops import shape as shapes
from torchlike._ops import view as views

if TYPE_CHECKING:
    from torchlike._base.device import device as Device
    from torchlike._core.typed import Shape, Steps

_INTS = (int, np.integer)
_VALUES = (Tensor, bool, int, float, complex, np.number, np.bool_)
MASKS = (dtypes.bool, dtypes.uint8)
_KINDS = (dtypes.int64, dtypes.int32, dtypes.uint8, dtypes.bool)
_NUMPY_KINDS = (np.bool_, np.uint8, np.int32)  # other arrays are sequences of numbers
_FULL = slice(None)


def getitem(self: Tensor, index: Any) -> Tensor:
    """``self[index]``: a view for ints, slices, None and ``...``; a copy for index tensors."""
    kind = index.__class__
    if kind is int:
        return _select(self, index)
    if kind is slice:
        return _slice(self, index)
    if kind is Tensor:
        if _rows(self, index):
            return _indexed(self, [index])
        if (few := at_mask(self, index)) is not None:
            return few
    view, indices = _resolve(self, index)
    if indices is None:
        return call_view(views.alias, (self,), ()) if view is self else view
    return gathered(view, indices)


def _rows(self: Tensor, index: Tensor) -> bool:
    """Whether ``index`` is nothing but numbers of rows, which the operator takes as they are."""
    form, view = index._storage.form, index._view
    if form.__class__ is not Array or form.dtype != np.int64 or self._storage.shared or CAPTURES or UNUSUAL:
        return False
    return (len(form.shape) > 0 if view is None else view.dtype is None and len(view.shape) > 0) and self.ndim > 0


def gathered(view: Tensor, indices: list[Any]) -> Tensor:
    """What ``indices`` take out of ``view``: by dimension None, or a tensor, ``...`` for a mask's further ones."""
    if (few := at_places(view, indices)) is not None:
        return few
    if state.dispatch_modes and _named(view, indices):
        return redispatch("index.Tensor", view, [x for x in indices if x is not ...])
    traced = CAPTURES and state.trace is not None
    mask, dim = (None, 0) if traced else _single_mask(view, indices)
    taken = _taken(view, indices) if view._storage.shared else None
    if taken is not None:
        out, where = taken
    elif mask is not None:
        where = fixed(np.flatnonzero(known(mask if mask.ndim <= NUMPYS else mask.reshape(-1))), view.device)
        out, where = call(ops.index_true, (view, where), (dim, mask.ndim)), [None] * dim + [where] * mask.ndim
    else:
        return _indexed(view, _positions(view, indices))
    return _as_the_view(view, where, out)


def _indexed(view: Tensor, where: list[Any]) -> Tensor:
    return _as_the_view(view, where, call(ops.index, (view, *where), ((len(where),),)))


def _as_the_view(view: Tensor, where: list[Any], out: Tensor) -> Tensor:
    """``out``, in the order in which the view that it was taken out of lies in memory."""
    if view._view is not None and not is_contiguous(view._view.layout):
        strides = _strides(view._view.layout, where, tuple(out.shape))
        if strides != contiguous_strides(tuple(out.shape)):
            restride(out, strides)
    return out


def _named(view: Tensor, indices: list[Any]) -> bool:
    """Whether a mode is to see a mask itself, not the places where it is true now; where nothing is recorded below."""
    masked = any([isinstance(x, Tensor) and x.dtype in MASKS for x in indices])
    return masked and not (state.grad and nodes.requires_grad(view))


def _taken(view: Tensor, indices: list[Any]) -> tuple[Tensor, list[Tensor | None]] | None:
    """The result, and the index tensors, where numpy takes it out of memory that it shares; else None."""
    if state.active or (view._rg and state.grad) or view.__class__ is not Tensor:
        return None
    where = _positions(view, indices)
    found = [None if x is None else value_of(x) for x in where]
    if any([x is not None and x.__class__ is not Array for x in found]):
        return None
    value = view._storage.rows(view, tuple([_FULL if x is None else np.asarray(x) for x in found]))
    if value is None:
        return None
    out = fresh(value)
    if ops.index.layout is not None:
        inherit_strides(ops.index, (view, *where), ((len(where),),), out)
    return out, where


def _strides(layout: Layout, where: Sequence[Tensor | None], shape: Shape) -> tuple[int, ...]:
    """Strides of the result of indexing a view: it keeps the view's order of dimensions where it can."""
    given = [d for d, i in enumerate(where) if i is not None]
    rest = [s for d, s in enumerate(layout.strides) if d not in given]
    lead = given[0] if given[-1] - given[0] == len(given) - 1 else 0
    common = len(shape) - len(rest)
    layouts = [Layout(shape, (*rest[:lead], *(0,) * common, *rest[lead:]))]
    for i in [where[d] for d in given]:
        own, sizes = i._layout.strides, i._layout.shape
        own = tuple(0 if n == 1 else s for s, n in zip(own, sizes, strict=True))
        layouts.append(Layout(shape, (*(0,) * (lead + common - len(own)), *own, *(0,) * (len(rest) - lead))))
    return pointwise_strides(layouts, shape)


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """``self[index] = value``, with the value broadcast to what the index selects."""
    if LAYER.used and isinstance(self._storage.form, SparseValue):
        _set_apart(self, index, value)
        return
    if not isinstance(value, _VALUES):
        raise TypeError(f"can't assign a {type(value).__name__} to a torch.{self.dtype.scalar_name}Tensor")
    kind = index.__class__
    if index is False or (kind is Tensor and fill_at_mask(self, index, value)):
        return
    if kind is int:
        assign(_select(self, index), value)
        return
    view, indices = (_slice(self, index), None) if kind is slice else _resolve(self, index)
    if indices is None:
        assign(view, value)
    else:
        put(view, indices, value)


def _set_apart(self: Tensor, index: Any, value: Any) -> None:
    """As ``setitem`` of a tensor that holds no array: a quantized one takes numbers where the index makes a view."""
    if self._storage.form.quantizer is None:
        raise TypeError("Cannot assign to a sparse tensor")
    view, indices = _resolve(self, index)
    if indices is not None:
        raise NotImplementedError(
            "index_put_() is not supported for quantized tensors: assign to ints and slices, or compute with "
            ".dequantize(), and quantize the result"
        )
    view.copy_(value if isinstance(value, Tensor) else fresh(jax.numpy.float32(value)))


def delitem(self: Tensor, index: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


# -- reading an index ----------------------------------------------------------------------------


def _select(t: Tensor, i: int) -> Tensor:
    if (whole := at_once(t, (i,))) is not None:
        return whole
    if not t.ndim:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
            "C++ to convert a "
            "0-dim tensor to a number"
        )
    return _at(t, 0, i, 0)


def _at(t: Tensor, dim: int, i: int, named: int) -> Tensor:
    """One index of a dimension, which errors call by the number it had in ``x``."""
    n = t.shape[dim]
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {named} with size {n}")
    return call_view(views.select, (t,), (dim, i))


def _slice(t: Tensor, index: slice) -> Tensor:
    if (whole := at_once(t, (index,))) is not None:
        return whole
    if not t.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    start, stop, step = index.start, index.stop, index.step
    if step is None and (start is None or start.__class__ is int) and (stop is None or stop.__class__ is int):
        return call_view(views.slice_, (t,), (0, start, stop, 1))
    return call_view(views.slice_, (t,), (0, *_bounds(index)))


def _bounds(index: slice) -> tuple[int | None, int | None, int]:
    try:
        start, stop, step = [None if x is None else operator.index(x) for x in (index.start, index.stop, index.step)]
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step is not None and step < 0:
        raise ValueError("step must be greater than zero")
    return start, stop, 1 if step is None else step


def _resolve(t: Tensor, index: Any) -> tuple[Tensor, list[Any] | None]:
    """(the view that the basic part of ``index`` selects, its index tensors by dimension or None)."""
    items = (None,) if index is None else index
    if items.__class__ is tuple and (whole := at_once(t, items)) is not None:
        return whole, None
    items = [_item(t, x) for x in _as_tuple(index)]
    used = sum(_width(x) for x in items)
    if used > t.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim}")
    rest, dim, named, indices = t.ndim - used, 0, 0, []
    for x in items:
        if x.__class__ is int:
            t = _at(t, dim, x, named)
        elif x.__class__ is slice:
            t, dim = _part(t, dim, x), dim + 1
        elif x is Ellipsis:
            dim += rest
            named += rest
            rest = 0
        elif x is None or x is True or x is False:
            t = call_view(views.unsqueeze, (t,), (dim,))
            if x is not None:
                _record(indices, dim, _lifted(fixed(np.zeros(int(x), np.int64), t.device)))
            dim += 1
        else:
            _record(indices, dim, x)
            dim += _width(x)
        named += _width(x)
    return t, indices or None


def _part(t: Tensor, dim: int, index: slice) -> Tensor:
    """One dimension sliced; a slice of all of it is no step of the view."""
    start, stop, step = _bounds(index)
    if step == 1 and not start and (stop is None or stop >= t.shape[dim]):
        return t
    return call_view(views.slice_, (t,), (dim, start, stop, step))


def _record(indices: list[Any], dim: int, x: Any) -> None:
    """Put an index tensor at ``dim``; a mask takes as many places as it has dimensions."""
    indices += [None] * (dim - len(indices))
    indices.append(x)
    indices += [...] * (_width(x) - 1)


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if index.__class__ is tuple:
        return index
    if isinstance(index, tuple):
        return tuple(index)
    if isinstance(index, list) and len(index) < 32 and any(_is_compound(x) for x in index):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be "
            "changed in pytorch 2.9; "
            "use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, "
            "x[torch.tensor(seq)], which will result either in an error or a different result",
        )
        return tuple(index)
    return (index,)


def _is_compound(x: Any) -> bool:
    return x is None or x is Ellipsis or isinstance(x, slice | Tensor | list | tuple | np.ndarray)


def _width(x: Any) -> int:
    """How many dimensions one index uses."""
    if x.__class__ is int or x.__class__ is slice:
        return 1
    if x is None or x is Ellipsis or x is True or x is False:
        return 0
    return x.ndim if isinstance(x, Tensor) and x.dtype in MASKS else 1


def _item(t: Tensor, x: Any) -> Any:
    """An index as int, bool, slice, None, Ellipsis or a tensor of at least one dimension (or a tracer)."""
    if x.__class__ in (int, bool, slice) or x is None or x is Ellipsis:
        return x
    if isinstance(x, Tensor):
        return _tensor_item(x)
    if isinstance(x, np.integer):
        return int(x)
    if isinstance(x, np.ndarray):
        array = x if x.dtype in _NUMPY_KINDS or not x.ndim else x.astype(np.int64)
        return _tensor_item(_lifted(fixed(array, t.device)))
    if isinstance(x, jax.Array):
        return _tensor_item(from_jax_array(x))
    if isinstance(x, str):
        raise TypeError("new(): invalid data type 'str'")
    if hasattr(x, "__len__") and hasattr(x, "__getitem__") and not hasattr(x, "keys"):
        return _lifted(fixed(_sequence(list(x)), t.device))
    if hasattr(x, "__index__") and not isinstance(x, np.bool_):
        return x.__index__()
    kind = (
        type(x).__name__
        if type(x).__module__ in ("builtins", "__main__")
        else f"{type(x).__module__}.{type(x).__name__}"
    )
    raise IndexError(
        f"only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {kind})"
    )


def fixed(array: Any, device: Device) -> Tensor:
    """A tensor of host data, whose values stay known while jax traces."""
    if trace_state_clean():
        return fresh(place(array, device))
    with jax.ensure_compile_time_eval():
        return fresh(place(array, device))


def _lifted(t: Tensor) -> Tensor:
    """A tensor that was just made of numbers, as the modes see it."""
    return redispatch("lift_fresh.default", t) if state.dispatch_modes else t


def _sequence(x: list[Any]) -> np.ndarray:
    """A host array of indices from nested lists; numbers become integers, bools a mask."""
    array = np.array([host(i) if isinstance(i, Tensor) else i for i in x])
    return array if array.size and array.dtype == bool else array.astype(np.int64)


def _tensor_item(x: Tensor) -> Any:
    dtype = x.dtype
    tensor = x.ndim or isinstance(value_of(x), jax.core.Tracer | LevelValue)
    if dtype not in _KINDS and (tensor or dtype.is_floating_point or dtype.is_complex):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if dtype is dtypes.uint8 and x.ndim:
        warn_byte_mask()
    if tensor:
        return x
    number = item(x)  # not host(x): a mode sees that the value is asked for
    return bool(number) if dtype in MASKS else number


def warn_byte_mask() -> None:
    warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")


def _positions(t: Tensor, indices: list[Any], writes: bool = False) -> list[Any]:
    """Index tensors by dimension with every mask replaced by the places where it is true."""
    out = []
    for x in indices:
        if x is ...:
            continue
        if x is not None and x.dtype in MASKS:
            check_mask(t, len(out), x)
            out += places_of(x, t.device, writes)
        else:
            out.append(x)
    return out


def places_of(mask: Tensor, device: Device, writes: bool = False) -> list[Tensor]:
    """Index tensors of where the mask is true; a trace has them as results of a call, which may be others next time.

    On meta nobody knows how many there are: none stand for those of which only a result's shape is asked, in writes.
    """
    if writes and mask.is_meta:
        return [fixed(np.zeros(0, np.int64), device)] * mask.ndim
    if state.trace is not None:
        return list(redispatch("nonzero.default", mask).unbind(1))
    if mask.ndim > NUMPYS:
        return [fixed(i, device) for i in columns_of(np.flatnonzero(known(mask.reshape(-1))), mask.shape)]
    return [fixed(i, device) for i in np.nonzero(known(mask))]


def for_places(where: list[Any], value: Tensor) -> Tensor:
    """What is written at these places: one number where they stand for unknown ones."""
    unknown = value.is_meta and value.numel() != 1 and any([w is not None and not w.numel() for w in where])
    return value.sum().to(value.dtype) if unknown else value


def check_mask(t: Tensor, dim: int, mask: Tensor) -> None:
    shape = tuple(t.shape)
    for i, n in enumerate(mask.shape):
        if n != shape[dim + i]:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of "
                "the indexed tensor "
                f"{list(shape)} at index {dim + i}"
            )


def known(mask: Tensor) -> np.ndarray:
    if isinstance(value_of(mask), LevelValue):
        raise RuntimeError(
            "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
            "indexing with a boolean mask; use torch.where(mask, x, other), or x * mask, instead."
        )
    if isinstance(value_of(mask), jax.core.Tracer):
        raise RuntimeError(
            "indexing with a mask gives a tensor whose shape depends on the mask's values, which are "
            "not known while jax "
            "traces the code; use torch.where(mask, x, other), or x * mask, instead"
        )
    return host(mask)


# -- writing -------------------------------------------------------------------------------------


def _fitting(dtype: dtypes.dtype, value: Any) -> Any:
    """A number that is assigned: what is too large for 16 bits becomes infinite, as in PyTorch."""
    if dtype not in (dtypes.float16, dtypes.bfloat16):
        return fitting(dtype, value)
    with np.errstate(over="ignore"):
        return float(dtype.np.type(fitting(dtypes.float64, value)))


def assign(target: Tensor, value: Any, shared: bool = False) -> None:
    """Write a number or a tensor into all of ``target``, which may be a view.

    Its elements may share places only where ``shared`` says so, and ``value`` is a single one.
    """
    tensor = isinstance(value, Tensor)
    if not tensor:
        value = _fitting(target.dtype, value)
    demand_writable(target)
    if tensor and target._storage.form.__class__ is not Array and state.grad:
        demand_no_derivative(target, (value,))
    if target._diff is not None and state.grad:
        refresh(target)
    if state.active or target.__class__ not in KIND or (state.grad and _has_history(target, value if tensor else None)):
        _assign_recorded(target, value)
        return
    view = target._view
    if not shared and view is not None and has_overlap(view.layout):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if tensor and value._storage is target._storage and not (CAPTURES or UNUSUAL) and _same_place(view, value._view):
        bump(target)  # ``x[i] += y`` ends with x[i] = x[i]
    else:
        _store(target, _local(value, target) if tensor else value)


def _same_place(view: View | None, other: View | None) -> bool:
    """Whether two views of one storage show the same elements by the same steps."""
    if view is None or other is None:
        return view is other
    return view.ints == other.ints and view.steps == other.steps and view.dtype == other.dtype


def _store(target: Tensor, new: Any) -> None:
    """Write the value ``new``, broadcast and cast, into the storage, without reading what was there."""
    view, storage = target._view, target._storage
    steps, ints = ((), ()) if view is None else (view.steps, view.ints)
    if CAPTURES:
        enter(storage)
    if not (storage.shared and steps and storage.written(target, new)):
        if steps and storage.form.__class__ is not Array:
            new = complete(storage, new)
        part = steps != () and large(storage)
        stored = part and overwrite(storage, _assigner(steps), (), (new, *ints))
        while not stored:  # until no other thread writes meanwhile
            old = storage.value
            whole = immediate.run(_assigner(steps), (), with_arrays((old, new, *ints)))
            stored = store(storage, overwritable(whole) if part else whole, old)
    bump(target)


def _local(t: Tensor, target: Tensor) -> Any:
    """The value of ``t`` on the device of ``target``."""
    value = value_of(t)
    if t.device != target.device:
        value = value_of(move(t.detach(), target.device))
    return value


def _has_history(target: Tensor, value: Tensor | None) -> bool:
    diff = target._diff
    return target._rg or (diff is not None and diff.base._rg) or (value is not None and value._rg)


_assigners: dict = {}


def _assigner(steps: Steps) -> Derived:
    """The operator (base, new value, *ints) -> base with the view replaced by the value, broadcast and cast."""
    found = _assigners.get(steps)
    if found is None:
        read, write = chain_read(steps), chain_write(steps)

        def run(base: Any, new: Any, *ints: Any) -> Any:
            return write(base, shapes.onto(jax.numpy.asarray(new), read(base, *ints)), *ints)

        found = _assigners[steps] = Derived("copy_", "CopySlicesBackward", run, ("assign", steps))
    return found


def _assign_recorded(target: Tensor, value: Any) -> None:
    if not isinstance(value, Tensor):
        op, static = shapes.fill_number.inplace, ()
    elif value.ndim:
        op, static = shapes.copy.inplace, (False,)
    else:
        op, static = shapes.fill_tensor.inplace, ()
    if isinstance(value, Tensor) and value.device != target.device:
        value = move(value, target.device)
    inputs: Any = (target, value)
    if state.active or target.__class__ not in KIND or value.__class__ not in KIND:
        call_inplace(op, inputs, static)
        return
    record = check_writable(op.name, target, inputs)
    values = Shaped(target._layout.shape, target.dtype.np), value_of(inputs[1]) if KIND[value.__class__] == 1 else value
    plan = plan_for(op, inputs, static, values) if record else None
    saved: Any = () if plan is None else [inputs[i] for i in plan.inputs]
    if any([KIND[x.__class__] == 1 for x in saved]) or (plan is not None and plan.outputs):
        call_inplace(op, inputs, static)
        return
    edges = [] if plan is None else [nodes.edge_of(inputs[i]) for i in plan.wanted]
    _store(target, values[1])
    if plan is not None:
        node = operator_node.make(op, plan, edges, saved, [None] * len(saved))
        rebase(target, node, 0 if 0 in plan.wanted else None)
        if nodes.WATCHERS:
            nodes.watch(node)


def put(view: Tensor, indices: list[Any], value: Any) -> None:
    """Write a number or tensor at index tensors; see ``_resolve``."""
    if not isinstance(value, Tensor):
        value = _lifted(fresh(place(np.array(_fitting(view.dtype, value), view.dtype.np), view.device)))
    elif value.device != view.device and not value.ndim:
        value = move(value, view.device)
    while value.ndim and value.shape[0] == 1:
        value = call_view(views.select, (value,), (0, 0))
    mask, dim = _single_mask(view, indices)
    if mask is not None and value.numel() == 1:
        demand_bool("masked_fill_", mask)
        fill_inplace(ops.index_mask, (view, mask, value), (dim,), "masked_fill_")
        return
    if state.dispatch_modes and _named(view, indices) and not (state.grad and nodes.requires_grad(value)):
        redispatch("index_put_.default", view, [x for x in indices if x is not ...], value)
        return
    where = _positions(view, indices, writes=True)
    value = for_places(where, value)
    inputs, static = (view, *where, value), (False, (len(where),))
    if value.numel() == 1:
        fill_inplace(ops.index_put, inputs, static, "index_put_")
    else:
        call_inplace(ops.index_put.inplace, inputs, static)


def demand_bool(name: str, mask: Tensor) -> None:
    if mask.dtype is not dtypes.bool:
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {mask.dtype.scalar_name}")


def _single_mask(view: Tensor, indices: list[Any]) -> tuple[Tensor | None, int]:
    """(the mask, its first dimension) if that is all there is to index with, else (None, 0)."""
    found = [x for x in indices if x is not None and x is not ...]
    if len(found) > 1 or found[0].dtype not in MASKS:
        return None, 0
    dim = next(i for i, x in enumerate(indices) if x is not None)
    check_mask(view, dim, found[0])
    return found[0], dim
