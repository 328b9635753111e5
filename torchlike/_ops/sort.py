"""Sorting, searching and counting."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._base.dtypes import from_np, int64
from torchlike._base.result_layouts import first_last, like_first
from torchlike._decl import rules
from torchlike._decl.op import op, reduction
from torchlike._decl.words import aten, spelled
from torchlike._ops import _composed, _composed_sums
from torchlike._ops._axes import axis_of, is_floating, put_along, refuse
from torchlike._ops._elementwise import demand_real, is_reduced, round_to
from torchlike._ops._order import packs, ranked


def _scatter(grads, indices, self_aval, dim):
    shape, grad = self_aval.shape, grads[0]
    axis = axis_of(dim, len(shape))

    def place(zeros, axis, indices, grad):
        return put_along(shape, axis, indices, grad) if shape else grad.reshape(())

    return spelled("scatter.src", place, aten.new_zeros(grad, shape), axis, indices, grad)


def _no_complex(name, x):
    if jnp.iscomplexobj(x):
        raise RuntimeError(f"{name} does not support complex dtypes on CPU; sort by .abs() or .real")


def _sorted(x, dim, descending):
    """(values, places), NaN as the largest, equal elements in their order."""
    _no_complex("Sort", x)
    axis = axis_of(dim, x.ndim)
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    return ranked(x, axis, descending)


@reduction("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    aten={"out": "values"},
           vjp={"self": _scatter}, nondiff=(1,), layout=like_first,
           saved="dim indices self_sym_sizes")  # fmt: skip
def sort(self, dim, descending):
    """The elements along ``dim`` in order, and where each came from. NaN is largest; the sort is stable.

    >>> import torchlike as torch
    >>> torch.sort(torch.tensor([3., 1., 2.])).indices
    tensor([1, 2, 0])
    """
    return _sorted(self, dim, descending)


@reduction("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)"
           " -> (Tensor values, Tensor indices)", aten={"out": "values_stable"},
           vjp={"self": _scatter}, nondiff=(1,), node="SortBackward1", layout=like_first,
           saved="dim indices self_sym_sizes")  # fmt: skip
def sort_stable(self, stable, dim, descending):
    return _sorted(self, dim, descending)


@reduction("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
           aten={"out": None, "calls": _composed.argsort},
           vjp={}, layout=like_first,
           variants="function method")  # fmt: skip
def argsort(self, dim, descending):
    """The indices that sort along ``dim``. NaN is largest; the sort is stable.

    >>> import torchlike as torch
    >>> torch.argsort(torch.tensor([3., 1., 2.]), descending=True)
    tensor([0, 2, 1])
    """
    return _sorted(self, dim, descending)[1]


@reduction("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
           aten={"out": "stable_out", "calls": _composed.argsort_stable}, vjp={},
           variants="function method", layout=like_first)  # fmt: skip
def argsort_stable(self, stable, dim, descending):
    return _sorted(self, dim, descending)[1]


@op("msort(Tensor self) -> Tensor", node="SortBackward", variants="function method out", layout=like_first,
    aten={"calls": _composed.msort},
    saved={"dim": lambda: 0, "self_sym_sizes": "self_sym_sizes", "~self": "self"})  # fmt: skip
def msort(self):
    """The elements sorted along the first dimension.

    >>> import torchlike as torch
    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """
    _no_complex("Sort", self)
    return ranked(self, 0)[0] if self.ndim else self


@reduction("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True)"
           " -> (Tensor values, Tensor indices)", aten={"out": "values"},
           vjp={"self": _scatter}, nondiff=(1,), saved="dim indices self_sym_sizes")  # fmt: skip
def topk(self, k, dim, largest, sorted):
    """The ``k`` largest (or smallest) elements along ``dim`` and their places, in order. NaN is largest.

    >>> import torchlike as torch
    >>> torch.topk(torch.tensor([3., 1., 2.]), 2).values
    tensor([3., 2.])
    """
    _no_complex("topk", self)
    if self.dtype == bool:
        raise RuntimeError("topk does not support bool dtypes on CPU; cast it with .byte()")
    axis = axis_of(dim, self.ndim)
    if not 0 <= k <= (self.shape[axis] if self.ndim else 1):
        raise RuntimeError(
            f"selected index k out of range: topk of {k} in dimension {axis} of shape {list(self.shape)}"
        )
    if not self.ndim:
        return self, jnp.zeros((), jnp.int64)
    if packs(self, axis) and 4 * k > self.shape[axis]:
        return tuple(lax.slice_in_dim(part, 0, k, axis=axis) for part in ranked(self, axis, largest))
    key = _rank_key(jnp.moveaxis(self, axis, -1), largest)
    indices = jnp.moveaxis(lax.top_k(key, k)[1], -1, axis).astype(jnp.int64)
    return jnp.take_along_axis(self, indices, axis), indices


def _rank_key(x, largest):
    """What orders like ``x`` (or against it), with every NaN the largest."""
    if not is_floating(x):
        return x if largest else ~x
    nan = jnp.full((), jnp.nan, x.dtype)
    return jnp.where(x != x, nan if largest else -nan, x if largest else -x)


# -- places in a sorted sequence ---------------------------------------------------------------------


def _side(side, right):
    if side is None:
        return "right" if right else "left"
    if side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    return side


def _bisected(sequence, values, side):
    """The places that halving finds; what compares with NaN is behind it, as PyTorch's."""
    after = jnp.greater if side == "right" else jnp.greater_equal

    def halve(_, ends):
        low, high = ends
        middle = (low + high) // 2
        left = after(sequence[middle], values)
        return jnp.where(left | (low >= high), low, middle + 1), jnp.where(left & (low < high), middle, high)

    small = jnp.int32 if sequence.shape[0] < 2**30 else jnp.int64
    ends = jnp.zeros(values.shape, small), jnp.full(values.shape, sequence.shape[0], small)
    return lax.fori_loop(0, sequence.shape[0].bit_length(), halve, ends)[0]


def _search(sequence, values, side, out_int32):
    dtype = jnp.int32 if out_int32 else jnp.int64
    if is_floating(sequence) and isinstance(sequence.size, int) and sequence.size:
        find = lambda s, v: _bisected(s, v, side).astype(dtype)  # noqa: E731
    else:
        find = lambda s, v: jnp.searchsorted(s, v, side=side).astype(dtype)  # noqa: E731
    if sequence.ndim == 1:
        return find(sequence, values)
    if not values.size:
        return jnp.zeros(values.shape, dtype)
    rows = jax.vmap(find)(sequence.reshape(-1, sequence.shape[-1]), values.reshape(-1, values.shape[-1]))
    return rows.reshape(values.shape)


def _check_sequence(sequence, values, sorter):
    if not sequence.ndim:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    fits = sequence.ndim == 1 or (values.ndim == sequence.ndim and values.shape[:-1] == sequence.shape[:-1])
    if not fits:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries "
            "tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sequence.shape)} and input value tensor {list(values.shape)}"
        )
    if sorter is not None and sorter.shape != sequence.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
            f"{list(sequence.shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter is not None and sorter.dtype != int64.np:
        raise RuntimeError(
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{from_np(sorter.dtype).scalar_name}"
        )


def _sorter_outside(sorted_sequence, self, out_int32, right, side, sorter):
    if sorter is None or not sorter.size:
        return None, None
    bad = jnp.any((sorter < 0) | (sorter >= sorted_sequence.shape[-1]))
    return bad, RuntimeError("torch.searchsorted(): sorter index out of range")


def _compared(sequence, values):
    """Both in their common dtype, into which a number or a tensor of no dimensions may wrap."""
    dtype = rules.common_dtype((sequence, values)).np
    sequence, values = sequence.astype(dtype), values.astype(dtype)
    refuse("searchsorted_out_cpu", sequence, "b", "c", hint="search integers or real numbers")
    return sequence, values


def _searchsorted(sequence, values, out_int32, right, side, sorter):
    side = _side(side, right)
    _check_sequence(sequence, values, sorter)
    sequence, values = _compared(sequence, values)
    if sorter is not None:
        sequence = jnp.take_along_axis(sequence, sorter, -1)
    return _search(sequence, values, side, out_int32)


@op(
    "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
    "right=False, str? side=None,"
    " Tensor? sorter=None) -> Tensor",
    vjp={},
    variants="function out",
    check=_sorter_outside,
)
def searchsorted(sorted_sequence, self, out_int32, right, side, sorter):
    """Where each value belongs in a sorted sequence (row by row if that has several dimensions).

    Before equal elements, after them with ``side="right"``. ``sorter`` holds the indices that sort the
    sequence.

    >>> import torchlike as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
    tensor([1, 3])
    """
    return _searchsorted(sorted_sequence, self, out_int32, right, side, sorter)


@op(
    "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool "
    "right=False, str? side=None,"
    " Tensor? sorter=None) -> Tensor",
    vjp={},
    variants="function out",
    check=_sorter_outside,
)
def searchsorted_scalar(sorted_sequence, self, out_int32, right, side, sorter):
    if sorted_sequence.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, "
            "but we got "
            f"boundaries tensor dim({sorted_sequence.ndim})"
        )
    return _searchsorted(sorted_sequence, self, out_int32, right, side, sorter)


def _bucketize(values, boundaries, out_int32, right):
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim}) (bucketize)")
    return _search(*_compared(boundaries, values), "right" if right else "left", out_int32)


@op(
    "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    vjp={},
    variants="function out",
)
def bucketize(self, boundaries, out_int32, right):
    """The index of the bucket between sorted ``boundaries`` that each value falls into.

    A value equal to a boundary belongs below it, above it with ``right=True``.

    >>> import torchlike as torch
    >>> torch.bucketize(torch.tensor([1, 3, 6]), torch.tensor([1, 3, 5]))
    tensor([0, 1, 3])
    """
    return _bucketize(self, boundaries, out_int32, right)


@op(
    "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    vjp={},
    variants="function",
)
def bucketize_scalar(self, boundaries, out_int32, right):
    return _bucketize(self, boundaries, out_int32, right)


# -- counts ------------------------------------------------------------------------------------------


@op(
    "_bincount(Tensor self, Tensor? weights, int length) -> Tensor",
    vjp={"weights": rules.undefined(RuntimeError("derivative for aten::bincount is not implemented"))},
    variants="",
)
def bincount(self, weights, length):
    """How often each of 0 to ``length`` - 1 occurs, or the sums of their weights."""
    self = self.astype(jnp.int64)  # a short integer may not hold the length
    if weights is None:
        return jnp.zeros(length, jnp.int64).at[self].add(1)
    if weights.dtype != jnp.float32:
        weights = weights.astype(jnp.float64)
    return jnp.zeros(length, weights.dtype).at[self].add(weights)


def _bad_range(self, bins, min, max):
    low, high = _range(self, jnp.asarray(min), jnp.asarray(max))

    def error():
        if low > high:
            return RuntimeError(f"torch.histc: max must be larger than min, got min={min} and max={max}")
        return RuntimeError(f"torch.histc: range of [{float(low):g}, {float(high):g}] is not finite; give min and max")

    return ~(low <= high) | jnp.isinf(low) | jnp.isinf(high), error


def _range(x, low, high):
    """The given range, that of the data where both ends are equal, one wider where that is a point."""
    low, high = low.astype(x.dtype), high.astype(x.dtype)
    if x.size:
        given = low != high
        low, high = jnp.where(given, low, jnp.min(x)), jnp.where(given, high, jnp.max(x))
    point = low == high
    return jnp.where(point, low - 1, low), jnp.where(point, high + 1, high)


@op(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    vjp={},
    variants="function method out",
    check=_bad_range,
)
def histc(self, bins, min, max):
    """How many elements fall into each of ``bins`` equal parts of [min, max]; others and NaN count nowhere.

    The range is that of the elements if ``min`` equals ``max``. Raises RuntimeError if it is not finite.

    >>> import torchlike as torch
    >>> torch.histc(torch.tensor([1., 2., 1.]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    demand_real(self, min, max)
    if not is_floating(self) or jnp.iscomplexobj(self):
        raise NotImplementedError(
            f"\"histogram_cpu\" not implemented for '{from_np(self.dtype).scalar_name}'; use .float()"
        )
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    low, high = _range(self, jnp.asarray(min), jnp.asarray(max))
    x = self.reshape(-1)
    there = (x >= low) & (x <= high)
    place = jnp.where(there, _parts(x, low, high, bins), 0).astype(jnp.int64)
    return jnp.zeros(bins, self.dtype).at[jnp.minimum(place, bins - 1)].add(there.astype(self.dtype))


def _parts(x, low, high, bins):
    """How many of ``bins`` parts of the range lie below each number; every step is rounded as PyTorch rounds it."""
    if not is_reduced(x):
        return (x - low) * bins / (high - low)
    wide, dtype = [a.astype(jnp.float32) for a in (x, low, high)], x.dtype
    x, low, high = wide
    return round_to(round_to(round_to(x - low, dtype) * bins, dtype) / round_to(high - low, dtype), dtype)


# -- quantiles ---------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _outside(name):
    def check(self, q, dim, keepdim, interpolation):
        q = jnp.asarray(q)
        bad = jnp.any(~((q >= 0) & (q <= 1)))
        what = "values must" if q.ndim else "must"
        return bad, lambda: RuntimeError(f"{name}() q {what} be in the range [0, 1] but got {np.asarray(q)}")

    return check


def _check_quantile(name, x, q, interpolation):
    if x.dtype not in (jnp.float32, jnp.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, got {from_np(x.dtype)}")
    if not x.size:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor, got {q.ndim}-D")
    if q.dtype != x.dtype and not getattr(q, "weak_type", False):
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor, got {q.dtype} and {x.dtype}")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of {', '.join(_INTERPOLATIONS[:-1])} or nearest, but got "
            f"{interpolation}"
        )


def _quantile(name, x, q, dim, keepdim, interpolation):
    q = jnp.asarray(q)
    _check_quantile(name, x, q, interpolation)
    q = q.astype(x.dtype)
    rank = x.ndim
    axis = axis_of(dim, rank) if dim is not None else 0
    rows = jnp.moveaxis(x, axis, -1) if dim is not None and rank else x.reshape(-1)
    rows = ranked(rows, rows.ndim - 1)[0]
    n = rows.shape[-1]
    nans = jnp.sum(rows != rows, -1, keepdims=True)
    if name == "quantile":
        last = jnp.where(nans > 0, jnp.nan, n - 1)
    else:
        last = jnp.where(nans == n, jnp.nan, n - nans - 1)
    nan_at = n - 1 if name == "quantile" else 0  # the sorted place whose NaN takes the gradient
    out = _between(rows, last.astype(x.dtype) * q.reshape(-1), interpolation, nan_at)
    out = jnp.moveaxis(out, -1, 0)
    if keepdim:
        kept = [1] * rank if dim is None else [1 if i == axis else s for i, s in enumerate(x.shape)]
        out = out.reshape(out.shape[0], *kept)
    return out if q.ndim else out[0]


def _between(rows, rank, interpolation, nan_at):
    """The values at fractional ranks of sorted rows; a NaN rank gives the NaN at ``nan_at``."""
    place = jnp.where(rank != rank, nan_at, rank)
    if interpolation == "lower":
        place = jnp.floor(place)
    elif interpolation == "higher":
        place = jnp.ceil(place)
    elif interpolation == "nearest":
        place = jnp.round(place)
    low = jnp.floor(place).astype(jnp.int64)
    at_low = jnp.take_along_axis(rows, low, -1)
    if interpolation in ("linear", "midpoint"):
        at_high = jnp.take_along_axis(rows, jnp.ceil(place).astype(jnp.int64), -1)
        weight = 0.5 if interpolation == "midpoint" else place - low.astype(place.dtype)
        gap = at_high - at_low  # from the nearer end, so that an infinite one does not make NaN
        at_low = jnp.where(weight < 0.5, at_low + weight * gap, at_high - (1 - weight) * gap)
    return at_low


def _quantile_family(name, doc):
    def tensor(self, q, dim, keepdim, interpolation):
        return _quantile(name, self, q, dim, keepdim, interpolation)

    tensor.__doc__ = doc
    tail = 'int? dim=None, bool keepdim=False, *, str interpolation="linear") -> Tensor'
    settings = {"variants": "out", "check": _outside(name), "saved": "~self", "autocast": {"cpu": "fp32"}}
    settings["aten"] = {"calls": partial(_composed_sums.quantile, name == "nanquantile")}
    return (
        op(f"{name}(Tensor self, Tensor q, {tail}", node="LerpBackward1", columns=(0,), layout=first_last, **settings)(
            tensor
        ),  # fmt: skip
        op(f"{name}.scalar(Tensor self, float q, {tail}", node="SqueezeBackward4", **settings)(tensor),
    )


quantile, quantile_scalar = _quantile_family(
    "quantile",
    """The ``q``-quantiles along ``dim`` (of all elements by default).

    ``q`` is a number or a tensor in [0, 1]; a tensor of one dimension adds a first dimension. NaN if
    there is one. ``interpolation``: linear, lower, higher, midpoint or nearest.

    >>> import torchlike as torch
    >>> torch.quantile(torch.tensor([1., 2., 3., 4.]), 0.5)
    tensor(2.5000)
    """,
)
nanquantile, nanquantile_scalar = _quantile_family(
    "nanquantile",
    """The quantiles of the elements that are not NaN.

    See :func:`quantile`.

    >>> import torchlike as torch
    >>> torch.nanquantile(torch.tensor([1., torch.nan, 3.]), 0.5)
    tensor(2.)
    """,
)
