"""Indexing and its functions under their public names."""

import jax
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base import dims
from torchlike._base.deterministic import alert_not_deterministic, determinism
from torchlike._base.layout import contiguous_strides, has_overlap
from torchlike._base.state import state, untraced
from torchlike._core.conversion import indexing
from torchlike._core.conversion.at_hand import columns_of
from torchlike._core.conversion.convert import host, place
from torchlike._core.conversion.device_moves import move
from torchlike._core.conversion.indexing import (
    MASKS,
    check_mask,
    demand_bool,
    for_places,
    known,
    places_of,
    warn_byte_mask,
)
from torchlike._core.conversion.numbers import fitting
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.expanded import fill_inplace
from torchlike._core.dispatch.inplace import call_inplace
from torchlike._core.dispatch.observers import one_call, redispatch, watched
from torchlike._core.dispatch.out import call_out, demand_fits, put_exactly
from torchlike._core.dispatch.out import put as put_out
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor, fresh, value_of
from torchlike._executor.level import LevelValue, dynamic_shape, mapped, one_by_one
from torchlike._executor.pending import NUMPYS
from torchlike._functions._install import both, function, method
from torchlike._ops import index as ops
from torchlike._ops.join import unravel_index as coordinates
from torchlike._ops.products import tril, triu
from torchlike._ops.scatter import index_fill_number, index_fill_tensor

Tensor.__getitem__ = indexing.getitem
Tensor.__setitem__ = indexing.setitem
Tensor.__delitem__ = indexing.delitem


# -- index_put -----------------------------------------------------------------------------------


def _put(run, op, input, indices, values, accumulate):
    name = op.name
    if not isinstance(indices, list | tuple):
        raise TypeError(
            f"{name}(): argument 'indices' (position 2) must be tuple of Tensors, not {type(indices).__name__}"
        )
    if not isinstance(values, Tensor):
        raise TypeError(f"{name}(): argument 'values' (position 3) must be Tensor, not {type(values).__name__}")
    tensors = arguments.as_tensors(name, "indices", list(indices))
    if state.dispatch_modes and any([t.dtype in MASKS for t in tensors]) and not (
        state.grad and (input.requires_grad or values.requires_grad)
    ):  # fmt: skip
        return redispatch(f"{name}.default", input, tensors, values, bool(accumulate))
    if len(tensors) == 1 and tensors[0].dtype in MASKS and Tensor.numel(values) == 1 and not accumulate:
        return _put_number(run, input, tensors[0], values)
    where = _positions(input, tensors)
    if values.device != input.device and not values.ndim:
        values = move(values, input.device)
    values = for_places(where, values)
    inputs, static = (input, *where, values), (bool(accumulate), (len(where),))
    if run is call_inplace and Tensor.numel(values) == 1 and not accumulate:
        return fill_inplace(ops.index_put, inputs, static, "index_put_")
    return run(op, inputs, static)


def _put_number(run, input, mask, value):
    """One value at all places where the mask is true."""
    demand_bool("masked_fill_", mask)
    check_mask(input, 0, mask)
    if run is call:
        return call(ops.index_mask, (input, mask, value), (0,))
    return fill_inplace(ops.index_mask, (input, mask, value), (0,), "masked_fill_")


def _positions(input, indices):
    """Index tensors by dimension, masks replaced by the places where they are true."""
    out = []
    for x in indices:
        if x.dtype in MASKS:
            if x.dtype is dtypes.uint8:
                warn_byte_mask()
            check_mask(input, len(out), x)
            out += places_of(x, input.device, writes=True)
        elif x.dtype in (dtypes.int64, dtypes.int32):
            out.append(x)
        else:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if len(out) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(out)})")
    return out


@both()
def index_put(input, indices, values, accumulate=False):
    """``input`` with ``values`` written (or added, with ``accumulate``) at the places that ``indices`` name.

    >>> import torchlike as torch
    >>> torch.zeros(3).index_put((torch.tensor([0, 0]),), torch.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    bools("index_put", accumulate=accumulate)
    return _put(call, ops.index_put, input, indices, values, accumulate)


@method()
def index_put_(self, indices, values, accumulate=False):
    """In-place ``index_put``."""
    bools("index_put_", accumulate=accumulate)
    return _put(call_inplace, ops.index_put.inplace, self, indices, values, accumulate)


function("index_put_")(index_put_)


# -- masks ---------------------------------------------------------------------------------------


def _mask_fill(run, input, mask, value, number, tensor):
    if not isinstance(mask, Tensor):
        raise TypeError(f"masked_fill(): argument 'mask' (position 2) must be Tensor, not {type(mask).__name__}")
    if isinstance(value, Tensor):
        if not value.ndim and value.device != input.device:
            value = move(value, input.device)
        return run(tensor, (input, mask, value), ())
    if not isinstance(value, bool | int | float | complex | np.generic):
        if (known := arguments.known_number(value)) is not value:
            return run(number, (input, mask, known), ())
        raise TypeError(
            f"masked_fill(): argument 'value' (position 3) must be a Number or a Tensor, not {type(value).__name__}"
        )
    return run(number, (input, mask, fitting(input.dtype, value)), ())


@both()
def masked_fill(input, mask, value):
    """``input`` with ``value`` (a number or a tensor of no dimensions) where the bool ``mask`` is true.

    >>> import torchlike as torch
    >>> torch.ones(2).masked_fill(torch.tensor([True, False]), 0)
    tensor([0., 1.])
    """
    return _mask_fill(call, input, mask, value, ops.masked_fill_number, ops.masked_fill_tensor)


@method()
def masked_fill_(self, mask, value):
    """In-place ``masked_fill``."""
    return _mask_fill(_fill_masked, self, mask, value, ops.masked_fill_number, ops.masked_fill_tensor)


def _fill_masked(op, inputs, static):
    return fill_inplace(op, inputs, static, "masked_fill_")


_index_fill = Tensor.index_fill_


@method()
def index_fill_(self, dim, index, value):
    """In-place ``index_fill``."""
    if self._view is None or not has_overlap(self._view.layout):
        return _index_fill(self, dim, index, value)
    op = index_fill_tensor if isinstance(value, Tensor) else index_fill_number
    return fill_inplace(op, (self, index, value), (dim,), "index_fill_")


def _zeroing(op, front):
    def inplace(self, diagonal=0):
        if self._view is None or not has_overlap(self._view.layout):
            return front(self, diagonal)
        return fill_inplace(op, (self,), (arguments.as_int(f"{op.name}_", "diagonal", diagonal),), None)

    inplace.__name__ = f"{op.name}_"
    inplace.__qualname__ = f"Tensor.{op.name}_"
    inplace.__doc__ = f"In-place ``{op.name}``; elements that share a place are zero where one of them is."
    return method(inplace.__name__)(inplace)


_zeroing(tril, Tensor.tril_)
_zeroing(triu, Tensor.triu_)

_flat_put, _flat_put_ = Tensor.put, Tensor.put_


@both()
def put(input, index, source, accumulate=False):
    """``input``, seen as one row, with ``source`` written (or added) at ``index``.

    >>> import torchlike as torch
    >>> torch.put(torch.zeros(2, 2), torch.tensor([1, 2]), torch.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [6., 0.]])
    """
    if determinism.enabled and not accumulate:
        alert_not_deterministic("put_")
    return _flat_put(input, index, source, accumulate)


@method()
def put_(self, index, source, accumulate=False):
    """In-place ``put``."""
    if determinism.enabled and not accumulate:
        alert_not_deterministic("put_")
    return _flat_put_(self, index, source, accumulate)


@both()
def masked_select(input, mask, *, out=None):
    """The elements of ``input`` where the bool ``mask`` is true, in order, as a vector; the shapes broadcast.

    >>> import torchlike as torch
    >>> torch.masked_select(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    if not isinstance(mask, Tensor):
        raise arguments.no_tensor("masked_select", "mask", 1, mask)
    if mask.dtype is not dtypes.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = dims.broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    if len(shape) > NUMPYS:
        return masked_select(Tensor.expand(input, shape).reshape(-1), Tensor.expand(mask, shape).reshape(-1), out=out)
    if isinstance(value_of(mask), LevelValue):
        raise RuntimeError(
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for "
            "each batch this would return a differently shaped Tensor. Use torch.where(mask, input, other)."
        )
    inputs = (input, mask, _true_places(input, mask, shape))
    return call(ops.masked_select, inputs, ()) if out is None else call_out(ops.masked_select, inputs, (), out)


def _true_places(input, mask, shape):
    """Where the mask, of this shape, is true; in a graph that is made they are a step if gradients will read them."""
    if state.trace is not None and state.grad and input.requires_grad:
        return places_of(Tensor.expand(mask, shape).reshape(-1), input.device)[0]
    with untraced():  # the call is that of the mask
        where = np.flatnonzero(np.broadcast_to(known(mask), shape))
    return fresh(place(where, input.device))


# -- where the nonzero elements are --------------------------------------------------------------


def _nonzero(input):
    if isinstance(value_of(input), LevelValue):
        raise dynamic_shape("nonzero")
    if isinstance(value_of(input), jax.core.Tracer):
        raise RuntimeError(
            "nonzero() gives a tensor whose shape depends on the input's values, which are not known "
            "while jax traces the code"
        )
    if input.ndim <= NUMPYS:
        value = host(input)
        return value, np.nonzero(np.atleast_1d(value))
    value = host(Tensor.reshape(input, -1))
    return value, columns_of(np.flatnonzero(value), input.shape)


@both()
def nonzero(input, *, out=None, as_tuple=False):
    """The indices of the nonzero elements: a row for each, or with ``as_tuple`` a vector for each dimension.

    >>> import torchlike as torch
    >>> torch.nonzero(torch.tensor([0, 3, 4]))
    tensor([[1],
            [2]])
    """
    bools("nonzero", as_tuple=as_tuple)
    if out is not None and as_tuple:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True: give one of them")
    if out is None and watched(input):
        rows = redispatch("nonzero.default", input)
        return Tensor.unbind(rows, 1) if as_tuple else rows
    if out is not None and out.dtype is not dtypes.int64:
        raise RuntimeError(
            f"nonzero: Expected out tensor to have scalar type Long but got scalar type {out.dtype.scalar_name}"
        )
    value, where = _nonzero(input)
    if as_tuple:
        return tuple(fresh(place(i, input.device)) for i in where)
    rows = np.stack(where, 1) if value.ndim else np.zeros((len(where[0]), 0), np.int64)
    found = fresh(place(rows, input.device))
    if (1, len(rows)) != contiguous_strides(rows.shape):
        restride(found, (1, len(rows)))
    if out is None:
        return found
    demand_fits("nonzero", found, out)
    put_out(out, value_of(found), like=found)
    return out


@both()
def argwhere(input):
    """The indices of the nonzero elements, a row for each."""
    return one_by_one(argwhere, input) if mapped(input) else nonzero(input)


# -- along a dimension ---------------------------------------------------------------------------


@both()
def take_along_dim(input, indices, dim=None, *, out=None):
    """``input`` at ``indices`` along ``dim`` (of the flattened tensor without it); other dimensions broadcast.

    >>> import torchlike as torch
    >>> x = torch.tensor([[2, 1], [3, 4]])
    >>> torch.take_along_dim(x, torch.tensor([[1], [0]]), 1)
    tensor([[1],
            [3]])
    """
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_name}"
        )
    if dim is None:  # PyTorch checks these indices, and counts those along a dimension around
        inputs = (Tensor.reshape(input, -1), Tensor.reshape(indices, -1))
        return call(ops.gather, inputs, (0, False)) if out is None else call_out(ops.gather, inputs, (0, False), out)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = dims.wrap_dim(arguments.as_int("take_along_dim", "dim", dim), input.ndim)
    mine, theirs = list(input.shape), list(indices.shape)
    length, count = mine[dim] if mine else 1, theirs[dim] if theirs else 1
    if not length and 0 not in theirs:
        raise RuntimeError(f"torch.take_along_dim(): dimension {dim} of the input is empty, indices are {theirs}")
    if mine:
        mine[dim] = theirs[dim] = 1
    shape = list(dims.broadcast_shapes(tuple(mine), tuple(theirs)))
    if shape:
        indices = Tensor.expand(indices, (*shape[:dim], count, *shape[dim + 1 :]))
        input = Tensor.expand(input, (*shape[:dim], length, *shape[dim + 1 :]))
    inputs = (input, indices)
    return call(ops.take_around, inputs, (dim,)) if out is None else call_out(ops.take_around, inputs, (dim,), out)


def one_hot(tensor, num_classes=-1):
    """A one in the place that each class number names, zeros elsewhere, along a new last dimension.

    >>> import torchlike as torch
    >>> torch.nn.functional.one_hot(torch.tensor([1, 0]))
    tensor([[0, 1],
            [1, 0]])
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    num_classes = arguments.as_int("one_hot", "num_classes", num_classes)
    if num_classes == -1:
        if not Tensor.numel(tensor):
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        if mapped(tensor):
            raise RuntimeError(
                "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
            )
        if isinstance(value_of(tensor), jax.core.Tracer):
            raise RuntimeError("one_hot() needs num_classes while jax traces the code: the largest class is not known")
        num_classes = max(int(host(tensor).max()) + 1, 1)
    elif num_classes < 1:
        raise RuntimeError(
            f"one_hot: Class values must be smaller than num_classes. (num_classes must be positive, got {num_classes})"
        )
    return call(ops.one_hot, (tensor,), (num_classes,))


@function()
def unravel_index(indices, shape):
    """For each dimension of ``shape`` a tensor of coordinates of the flat ``indices``."""
    if isinstance(shape, int):
        shape = (shape,)
    shape = arguments.as_ints("unravel_index", "shape", tuple(shape))
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is dtypes.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    if 0 in shape and Tensor.numel(indices):
        raise RuntimeError(f"ZeroDivisionError: unravel_index of a shape without elements, {shape}")
    return call(coordinates, (Tensor.to(indices, dtypes.int64),), (shape,)).unbind(-1)


# -- a copy with a part replaced -----------------------------------------------------------------


def _replaced(name, input, src, cut):
    """A copy of ``input`` whose view ``cut(copy)`` holds ``src``."""
    if not isinstance(src, Tensor):
        raise TypeError(f"{name}(): argument 'src' (position 2) must be Tensor, not {type(src).__name__}")
    new = Tensor.clone(input)
    if state.levels and isinstance(src._storage.form, LevelValue):  # in vmap a copy for each example of ``src``
        new = src.new_empty(new.shape, dtype=new.dtype, device=new.device).copy_(new)
    part = cut(new)
    if part.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
            f"{list(part.shape)} (in {name})"
        )
    part.copy_(src)
    return new


@both()
@one_call()
def select_scatter(input, src, dim, index):
    """A copy of ``input`` with ``src`` in place of ``input.select(dim, index)``."""
    return _replaced("select_scatter", input, src, lambda x: x.select(dim, index))


@both()
@one_call()
def slice_scatter(input, src, dim=0, start=None, end=None, step=1, *, out=None):
    """A copy of ``input`` with ``src`` in place of a slice along ``dim``."""
    dim = dims.wrap_dim(dim, input.ndim)
    if step < 1:
        raise RuntimeError("slice step must be positive")
    got = _replaced("slice_scatter", input, src, lambda x: x[(slice(None),) * dim + (slice(start, end, step),)])
    if out is not None:
        put_exactly("slice_scatter", got, out)
    return got if out is None else out


@both()
@one_call()
def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    """A copy of ``input`` with ``src`` in place of a diagonal."""
    return _replaced("diagonal_scatter", input, src, lambda x: Tensor.diagonal(x, offset, dim1, dim2))


@both()
@one_call()
def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """A copy of ``input`` with ``src`` in place of ``input.as_strided(size, stride, storage_offset)``."""
    return _replaced("as_strided_scatter", input, src, lambda x: Tensor.as_strided(x, size, stride, storage_offset))
