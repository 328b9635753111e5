"""Norms by name, and results whose shape depends on the values: unique elements, counts."""

import functools
import math

import jax
import numpy as np

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dim
from torchlike._base.layout import contiguous_strides
from torchlike._base.state import state
from torchlike._core.autograd import node as nodes
from torchlike._core.conversion.convert import place
from torchlike._core.dispatch.bind import front
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import apart, redispatch, watched
from torchlike._core.tensor import arguments
from torchlike._core.tensor.arguments import bools
from torchlike._core.tensor.memory_order import restride
from torchlike._core.tensor.tensor import Tensor, device_of, fresh, value_of
from torchlike._executor.immediate import Abstract
from torchlike._executor.level import LevelValue, dynamic_shape, mapped, one_by_one
from torchlike._executor.pending import NUMPYS, as_numpy
from torchlike._functions._install import FUNCTIONS, both, function, method
from torchlike._functions.linalg import matrix_norm, vector_norm
from torchlike._ops import sort as sorting


def _norm(input, p, dim, keepdim, dtype, out):
    if dim is not None and not isinstance(dim, tuple | list):
        dim = (dim,)
    if isinstance(p, str) and p != "fro":
        dim = tuple(range(input.ndim)) if dim is None else tuple(dim)
        return matrix_norm(input, p, dim, keepdim, dtype=dtype, out=out)
    order = 2.0 if p is None or p == "fro" else p
    return vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


@function()
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The ``p``-norm over ``dim`` (of all elements by default): "fro" (2), "nuc" or a number.

    >>> import torchlike as torch
    >>> torch.norm(torch.tensor([3., 4.]))
    tensor(5.)
    """
    return _norm(input, p, dim, keepdim, dtype, out)


@method("norm")
def norm_(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The ``p``-norm over ``dim`` (of all elements by default): "fro" (2), "nuc" or a number."""
    return _norm(self, p, dim, keepdim, dtype, None)


# -- quantiles: the linear interpolation alone has a gradient for q ----------------------------------


def _quantiles(ops):
    run = front(ops, "function")

    def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
        if isinstance(q, Tensor) and interpolation != "linear" and q.requires_grad:
            q = apart(q)
        q = float(q) if q.__class__ is bool else q
        return run(input, q, dim, keepdim, interpolation=interpolation, out=out)

    quantile.__name__, quantile.__doc__ = ops[0].schema.name, ops[0].kernel.__doc__
    return quantile


both("quantile")(_quantiles([sorting.quantile, sorting.quantile_scalar]))
both("nanquantile")(_quantiles([sorting.nanquantile, sorting.nanquantile_scalar]))


# -- shapes that depend on values --------------------------------------------------------------------


def _known(name, t):
    """The values of a tensor as numpy; an error that says why where there are none."""
    if state.trace is not None:
        state.trace.read(t)
    value = value_of(t)
    if isinstance(value, LevelValue):
        raise dynamic_shape(name)
    if isinstance(value, jax.core.Tracer):
        raise jax.errors.ConcretizationTypeError(
            value,
            f"the shape of the result of {name}() depends on values, which are not known while jax traces; call it "
            "outside of the traced function and pass the result in",
        )
    if isinstance(value, Abstract):
        raise NotImplementedError(
            f"{name}(): the shape of the result depends on values, which a meta tensor does not have"
        )
    return as_numpy(value)


class _Undefined(nodes.Node):
    """The history of what has no derivative: it says so when it is asked for one."""

    __slots__ = ("meta",)
    operator = ""

    def __init__(self, t, out):
        self.meta = Abstract(tuple(out.shape), out.dtype.np)
        self._edges, self._seq, self._ex = [nodes.edge_of(t)], nodes.next_sequence(), None

    def _outs(self):
        return (self.meta,)

    def _release(self):
        """Nothing is saved."""

    def apply(self, grads):
        raise NotImplementedError(f"the derivative for '{self.operator}' is not implemented.")

    def _apply_tensors(self, grads, call):
        return self.apply(grads)


class Unique2Backward0(_Undefined):
    operator = "_unique2"


class UniqueDimBackward0(_Undefined):
    operator = "unique_dim"


class UniqueConsecutiveBackward0(_Undefined):
    operator = "unique_consecutive"


def _packed(results, wanted, dim, input, node):
    """The first result, in memory by slices of ``dim``, with the wanted others; its history is a ``node``."""
    chosen = [results[0], *[r for r, yes in zip(results[1:], wanted, strict=True) if yes]]
    tensors = tuple(fresh(place(r, device_of(input))) for r in chosen)
    if dim:
        shape = [*results[0].shape]
        strides = [*contiguous_strides((shape.pop(dim), *shape))]
        restride(tensors[0], (*strides[1 : dim + 1], strides[0], *strides[dim + 1 :]))
    if input._rg and state.grad:
        tensors[0]._edge, tensors[0]._rg = (node(input, tensors[0]), 0), True
    return tensors if len(tensors) > 1 else tensors[0]


def _shown(results, wanted, input, node):
    """The first result that the modes gave, with the wanted others; its history is a ``node``."""
    chosen = [results[0], *[r for r, yes in zip(results[1:], wanted, strict=True) if yes]]
    if input._rg and state.grad:
        chosen[0]._edge, chosen[0]._rg = (node(input, chosen[0]), 0), True
    return tuple(chosen) if len(chosen) > 1 else chosen[0]


def _flattened(find, input, dim, *options):
    """What ``find``, one of the functions here, gives for more dimensions than numpy's arrays have."""
    if dim is not None:
        dim = wrap_dim(dim, input.ndim)
        before, after = input.shape[:dim], input.shape[dim + 1 :]
        found = find(Tensor.reshape(input, math.prod(before), input.shape[dim], math.prod(after)), *options, dim=1)
        shaped = lambda t: t.reshape(*before, t.shape[1], *after)  # noqa: E731
        return (shaped(found[0]), *found[1:]) if isinstance(found, tuple) else shaped(found)
    found = find(Tensor.reshape(input, -1), *options)
    inverse = options[-2]
    return (found[0], found[1].reshape(input.shape), *found[2:]) if inverse else found


def _no_complex(name, input):
    if input.dtype.is_complex:
        raise NotImplementedError(f"\"{name}\" not implemented for '{input.dtype.scalar_name}'; use .real or .abs()")


def _unique_flat(values):
    if values.dtype.kind == "V":  # numpy does not sort the NaN of dtypes that are not its own
        found, inverse, counts = _unique_flat(values.astype(np.float32))
        return found.astype(values.dtype), inverse, counts
    found, inverse, counts = np.unique(values, return_inverse=True, return_counts=True, equal_nan=False)
    return found, inverse.reshape(values.shape).astype(np.int64), counts.astype(np.int64)


def _check_slices(values, dim):
    if not values.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions (unique)")
    if 0 in [n for i, n in enumerate(values.shape) if i != dim]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied "
            f"(shape {list(values.shape)}, dim {dim})"
        )


def _rows(values, dim):
    """One row for each index of ``dim``."""
    moved = np.moveaxis(values, dim, 0)
    return moved.reshape(len(moved), math.prod(moved.shape[1:]))


_INSERTED = 16  # rows that a C++ library's sort inserts one by one; among more, PyTorch's order of NaN has no rule


def _inserted(rows):
    """The order of a few rows with NaN, of which none is less or greater: that of PyTorch, which inserts each."""
    order, rows = [], rows.astype(np.float64)
    for i in range(len(rows)):
        at = 0
        if order and not _less(rows[i], rows[order[0]]):
            at = next(k for k in range(len(order), 0, -1) if not _less(rows[i], rows[order[k - 1]]))
        order.insert(at, i)
    return np.array(order)


def _less(a, b):
    differ = np.flatnonzero((a < b) | (a > b))
    return len(differ) > 0 and a[differ[0]] < b[differ[0]]


def _unique_slices(values, dim):
    _check_slices(values, dim)
    rows = _rows(values, dim)
    if not len(rows):
        return values, np.zeros(0, np.int64), np.zeros(0, np.int64)
    unordered = len(rows) <= _INSERTED and values.dtype.kind not in "iub" and np.isnan(rows).any()
    order = _inserted(rows) if unordered else np.lexsort(rows.T[::-1])
    return _grouped(values, dim, rows[order], order)


def _grouped(values, dim, rows, order):
    """Runs of equal neighbours in ``rows``, which are the slices of ``values`` in this order."""
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(1)
    group = np.cumsum(first) - 1
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = group
    counts = np.bincount(group, minlength=group[-1] + 1).astype(np.int64)
    return np.take(values, order[first], dim), inverse, counts


@both()
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different elements in ascending order, or the different slices of ``dim``.

    With ``return_inverse`` also where each element went, with ``return_counts`` how often each occurs.
    Each NaN is different. The shape depends on the values: not under jax tracing, not on meta.

    >>> import torchlike as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    bools("unique", sorted=sorted, return_inverse=return_inverse, return_counts=return_counts)
    arguments.as_tensor_arg("unique", "input", input)
    _no_complex("unique", input)
    if input.ndim > NUMPYS:
        return _flattened(unique, input, dim, sorted, return_inverse, return_counts)
    wanted = return_inverse, return_counts
    if watched(input):
        shown = redispatch("_unique2.default", input, sorted, *wanted) if dim is None else redispatch(
            "unique_dim.default", input, dim, sorted, *wanted)  # fmt: skip
        return _shown(shown, wanted, input, Unique2Backward0 if dim is None else UniqueDimBackward0)
    values = _known("unique", input)
    if dim is None:
        found = _unique_flat(values)
    else:
        dim = wrap_dim(dim, values.ndim)
        found = _unique_slices(values, dim)
    node = Unique2Backward0 if dim is None else UniqueDimBackward0
    return _packed(found, wanted, dim, input, node)


@both()
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements (or slices of ``dim``) without those equal to the one before.

    >>> import torchlike as torch
    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    bools("unique_consecutive", return_inverse=return_inverse, return_counts=return_counts)
    arguments.as_tensor_arg("unique_consecutive", "input", input)
    _no_complex("unique_consecutive", input)
    if input.ndim > NUMPYS:
        return _flattened(unique_consecutive, input, dim, return_inverse, return_counts)
    if watched(input):
        wanted = return_inverse, return_counts
        return _shown(
            redispatch("unique_consecutive.default", input, *wanted, dim), wanted, input, UniqueConsecutiveBackward0
        )
    values = _known("unique_consecutive", input)
    shape = values.shape
    if dim is None:
        values, dim = values.reshape(-1), None
    else:
        dim = wrap_dim(dim, values.ndim)
        _check_slices(values, dim)
    rows = _rows(values, dim or 0)
    if not len(rows):
        found = values, np.zeros(0, np.int64), np.zeros(0, np.int64)
    else:
        found = _grouped(values, dim or 0, rows, np.arange(len(rows)))
    if dim is None:
        found = found[0], found[1].reshape(shape), found[2]
    return _packed(found, (return_inverse, return_counts), dim, input, UniqueConsecutiveBackward0)


@both()
def bincount(input, weights=None, minlength=0):
    """How often each of 0, 1, 2, ... occurs in a 1-D integer tensor, or the sums of their ``weights``.

    At least ``minlength`` long. The shape depends on the values: not under jax tracing, not on meta.

    >>> import torchlike as torch
    >>> torch.bincount(torch.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """
    minlength = arguments.as_int("bincount", "minlength", minlength)
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength} (bincount)")
    if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype.name == "bool":
        raise NotImplementedError(
            f"\"bincount_cpu\" not implemented for '{input.dtype.scalar_name}'; it counts integers"
        )
    if watched(input):
        return redispatch("bincount.default", input, weights, minlength)
    if mapped(input) or mapped(weights):
        return one_by_one(functools.partial(bincount, minlength=minlength), input, weights)
    values = _known("bincount", input)
    if values.ndim != 1 or (values.size and values.min() < 0):
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, got shape {list(values.shape)}"
            + (f" and smallest element {values.min()}" if values.size else "")
        )
    if weights is not None and tuple(weights.shape) != values.shape:
        raise RuntimeError(
            f"weights should be 1-d and have the same length as input, got {list(weights.shape)} and "
            f"{list(values.shape)}"
        )
    if not values.size:  # of weights of any dtype
        return FUNCTIONS["zeros"](minlength, dtype=dtypes.int64, device=input.device)
    length = max(int(values.max()) + 1, minlength)
    return call(sorting.bincount, (input, weights), (length,))
