"""Reductions over segments of one dimension."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._decl.op import op
from torchlike._ops._axes import axis_of
from torchlike._ops._elementwise import demand, kind, scalar_name, wide, widely

_REDUCTIONS = {"sum": 0, "mean": 0, "max": -math.inf, "min": math.inf, "prod": 1}


def _demand_arguments(data, reduce, lengths, indices, offsets, axis):
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, max or min, got {reduce}")
    demand("_segment_reduce_cpu", data, "f")
    given, name = (offsets, "offsets") if lengths is None else (lengths, "lengths")
    if kind(given) != "i":
        raise NotImplementedError(
            f"\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{scalar_name(given)}': they are integers"
        )
    if axis != given.ndim - 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    if given.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): Expected {name} and data to agree before axis {axis}, but got shapes "
            f"{list(given.shape)} and {list(data.shape)}"
        )


def _bounds(lengths, offsets):
    """Where the segments start, and where the last one ends: [..., segments + 1]."""
    if lengths is None:
        return offsets
    ends = jnp.cumsum(lengths, -1)
    return jnp.concatenate([jnp.zeros_like(ends[..., :1]), ends], -1)


def _segments(data, axis, lengths, offsets):
    """(segment of each row of the data, rows of the data, number of segments, shape of the result).

    Rows are the data as [batch * length, rest]; a row of no segment has the number of segments.
    """
    bounds = _bounds(lengths, offsets)
    segments, length = bounds.shape[-1] - 1, data.shape[axis]
    batch = math.prod(data.shape[:axis])
    places = jnp.arange(length)
    found = jax.vmap(lambda b: jnp.searchsorted(b, places, side="right") - 1)(bounds.reshape(batch, segments + 1))
    inside = (found >= 0) & (found < segments)
    first = jnp.arange(batch)[:, None] * segments
    ids = jnp.where(inside, found + first, batch * segments).reshape(-1)
    rows = data.reshape(batch * length, math.prod(data.shape[axis + 1 :]))
    return ids, rows, batch * segments, (*data.shape[:axis], segments, *data.shape[axis + 1 :])


def _wrong_lengths(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    if lengths is None and offsets is not None and offsets.ndim and offsets.shape[-1] > 1:
        return jnp.any(offsets[..., 1:] < offsets[..., :-1]), RuntimeError(
            "segment_reduce(): Expected segment_length >= 0 to be true, but got false: offsets decrease"
        )
    if unsafe or lengths is None or lengths.ndim == 0 or data.ndim == 0:
        return None, None
    axis = axis_of(axis, data.ndim)
    negative = jnp.any(lengths < 0)
    short = jnp.any(jnp.sum(lengths, -1) != data.shape[axis])

    def error():
        if negative:
            return RuntimeError("lengths contains negative value!")
        return RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
            "!unsafe."
        )

    return negative | short, error


def _counted(ids, n, dtype):
    return jnp.zeros((n, 1), dtype).at[ids].add(jnp.ones((), dtype), mode="drop")


def _summed(marks, ids, n):
    """How many rows of each segment are marked: [segments, columns]."""
    return jnp.zeros((n, marks.shape[1]), np.int32).at[ids].add(marks, mode="drop")


def _gradient_of_product(taken, rows, result, ids, initial):
    """Zeros and NaN are given the product of the others, all else the product over itself."""
    zero, missing = rows == 0, jnp.isnan(rows)
    start = jnp.ones_like(result) if initial is None else jnp.full_like(result, initial)
    others = start.at[ids].multiply(jnp.where(zero | missing, 1, rows), mode="drop")
    zeros, missed = (_summed(marks, ids, len(result)).at[ids].get(mode="fill", fill_value=0) - marks
                     for marks in (zero, missing))  # fmt: skip
    others, result = (x.at[ids].get(mode="fill", fill_value=0) for x in (others, result))
    others = others * jnp.where(missed > 0, jnp.nan, jnp.where(zeros > 0, 0, 1)).astype(rows.dtype)
    return taken * jnp.where(zero | missing, others, result / rows)


def _gradient(grad, data, result, reduce, lengths, offsets, axis, initial):
    axis = axis_of(axis, data.ndim)
    ids, rows, n, _ = _segments(data, axis, lengths, offsets)
    dtype = grad.dtype
    grad, result, rows = [wide(x) for x in (grad, result, rows)]
    grad, result = grad.reshape(n, -1), result.reshape(n, -1)
    taken = grad.at[ids].get(mode="fill", fill_value=0)
    if reduce == "mean":
        taken = taken / jnp.maximum(_counted(ids, n, rows.dtype), 1).at[ids].get(mode="fill", fill_value=1)
    elif reduce in ("max", "min"):
        same = (rows == result.at[ids].get(mode="clip")) | jnp.isnan(rows)
        number = _summed(same, ids, n).at[ids].get(mode="fill", fill_value=1)
        taken = jnp.where(same, taken / jnp.maximum(number, 1), 0)
    elif reduce == "prod":
        taken = _gradient_of_product(taken, rows, result, ids, initial)
    return taken.reshape(data.shape).astype(dtype)


@op("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, "
    "int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    vjp={"data": _gradient}, variants="function", check=_wrong_lengths, policy="data", saved="",
    held="initial")  # fmt: skip
def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """ "sum", "mean", "max", "min" or "prod" of each segment of dimension ``axis``.

    ``lengths`` [..., segments]: how long the segments are, one after the other; they must sum to the dimension unless
    ``unsafe``. ``offsets`` [..., segments + 1]: where each starts, and where the last ends. ``initial``: what each
    reduction starts with; without it an empty segment gives what is neutral, NaN as its mean. RuntimeError for
    ``indices``, and for lengths that do not fit.

    >>> import torchlike as torch
    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), "sum", lengths=torch.tensor([2, 1]))
    tensor([3., 3.])
    """
    axis = axis_of(axis, data.ndim)
    _demand_arguments(data, reduce, lengths, indices, offsets, axis)
    ids, rows, n, shape = _segments(data, axis, lengths, offsets)
    return widely(lambda rows: _reduced(rows, ids, n, reduce, initial), rows).reshape(shape)


def _reduced(rows, ids, n, reduce, initial):
    """[segments, columns]: the rows of each segment reduced; 16-bit floats in float32, rounded once."""
    start = _REDUCTIONS[reduce] if initial is None else initial
    made = jnp.full((n, rows.shape[1]), start, rows.dtype).at[ids]
    if reduce in ("max", "min"):
        out = made.max(rows, mode="drop") if reduce == "max" else made.min(rows, mode="drop")
    else:
        out = made.multiply(rows, mode="drop") if reduce == "prod" else made.add(rows, mode="drop")
    if reduce == "mean":
        number = _counted(ids, n, rows.dtype)
        empty = jnp.nan if initial is None else initial
        out = jnp.where(number == 0, empty, out / jnp.maximum(number, 1)).astype(rows.dtype)
    return out
