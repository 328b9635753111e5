"""Extreme values, their places, and order statistics that pick one element."""

import jax.numpy as jnp
from jax import lax

from torchlike._base.dims import broadcast_shapes
from torchlike._decl.op import op, reduction
from torchlike._decl.words import aten, spelled
from torchlike._ops import _composed
from torchlike._ops._axes import axes_of, axis_of, is_floating, reduced_axis, refuse
from torchlike._ops._elementwise import ties_share
from torchlike._ops._order import ranked


def even_split(grad, self, result, axes, keepdim):
    """Ties share the gradient evenly; a NaN result ties with nothing, and the gradient is NaN (0 / 0 or inf * 0)."""
    shape = [1 if i in axes else n for i, n in enumerate(self.shape)]
    tie = (result if keepdim else aten.view(result, shape)) == self
    share = (grad if keepdim else aten.view(grad, shape)) / aten["sum.dim_IntList"](tie, list(axes), True)
    return _masked(share, tie)


def _masked(a, b):
    return spelled("mul.Tensor", _product, a, b)


def _product(a, b):
    """A product with a mask, NaN where the other is infinite or NaN: XLA would take it for a choice."""
    x, mask = (b, a) if a.dtype == bool else (a, b)
    return jnp.where(mask, x, jnp.where(jnp.isfinite(x), 0, jnp.nan)).astype(x.dtype)


def place(grad, indices, axis, keepdim, shape):
    """The gradient at the elements that were picked along one axis, zero elsewhere."""
    if shape and not keepdim:
        grad, indices = aten.unsqueeze(grad, axis), aten.unsqueeze(indices, axis)
    return spelled("scatter.src", _at_index, aten.new_zeros(grad, shape), axis, indices, grad)


def _at_index(zeros, axis, indices, grad):
    """``grad`` at one index along an axis: compared, which XLA fuses, not scattered."""
    if not zeros.ndim:
        return grad.reshape(())
    here = jnp.arange(zeros.shape[axis]).reshape([-1 if i == axis else 1 for i in range(zeros.ndim)])
    return jnp.where(indices == here, grad, zeros)


def _all_vjp(grad, self, result):
    """Ties share the gradient evenly; a NaN result is tied with the NaN elements."""
    both = jnp.logical_and(aten.isnan(self), aten.isnan(result))
    tie = aten.logical_or_(self == result, both)
    return _masked(tie, grad / aten.sum(tie))


def _axes_vjp(grad, self, result, dim, keepdim):
    return even_split(grad, self, result, axes_of(dim, self.ndim), keepdim)


def _dim_vjp(grads, indices, self_aval, dim, keepdim):
    shape = self_aval.shape
    return place(grads[0], indices, axis_of(dim, len(shape)), keepdim, shape)


def _non_empty(name, x, axes, error=RuntimeError, whole=True):
    if x.size:
        return
    if whole:
        raise error(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the "
            "'dim' argument."
        )
    for a in axes:
        if not x.shape[a]:
            raise IndexError(f"{name}(): Expected reduction dim {a} to have non-zero size, got shape {list(x.shape)}.")


def _best(x, reduce, axis):
    """(the extreme, the place of the first element that is one) along ``axis``, both with length 1.

    Two plain reductions: XLA compiles them to faster code on a CPU than one over pairs.
    """
    best = reduce(x, axis, keepdims=True)
    here = (x == best) | (x != x) if is_floating(x) else x == best
    n = x.shape[axis]
    kind = jnp.int32 if n < 2**31 else jnp.int64
    places = jnp.where(here, lax.broadcasted_iota(kind, x.shape, axis), n)
    return best, jnp.min(places, axis, keepdims=True).astype(jnp.int64)


def _no_complex(name, x):
    if jnp.iscomplexobj(x):
        raise RuntimeError(f"{name}(): does not support complex input; take its .abs() or .real")


def _whole(name, x, reduce):
    refuse(f"{name}_all", x, "c")
    _non_empty(name, x, tuple(range(x.ndim)))
    return reduce(x)


def _along(name, x, dim, keepdim, reduce):
    """(values, first places) of the extreme along one axis."""
    _no_complex(name, x)
    axis = reduced_axis(dim, x.ndim)
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    if not x.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(x.shape)}.")
    values, indices = _best(x, reduce, axis)
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


def _pair(self, other, pick):
    refuse("maximum or minimum", self, "c")
    broadcast_shapes(self.shape, other.shape)
    return pick(self, other)


def _pair_jvp(wins):
    """Equal operands share; a NaN has the second one's tangent."""

    def of_self(dot, self, other):
        return jnp.where(self == other, dot / 2, jnp.where(wins(self, other), dot, 0))

    def of_other(dot, self, other):
        return jnp.where(self == other, dot / 2, jnp.where(wins(self, other), 0, dot))

    return {"self": of_self, "other": of_other}


@reduction(
    "max(Tensor self) -> Tensor", out="cast", aten={"out": "unary_out"}, node="MaxBackward1", vjp={"self": _all_vjp}
)
def max(self):
    """The largest element; with ``dim``, (values, indices) along it; with a tensor, the elementwise maximum.

    NaN wins. Equal elements share the gradient of the whole maximum evenly.
    Raises RuntimeError for an empty tensor, NotImplementedError for complex numbers.

    >>> import torchlike as torch
    >>> torch.max(torch.tensor([[1., 5.], [7., 3.]]), 1).values
    tensor([5., 7.])
    """
    return _whole("max", self, jnp.max)


@op("max.other(Tensor self, Tensor other) -> Tensor",
    aten={"out": "out", "calls": _composed.renamed("maximum")}, dtype="promote", node="MaximumBackward", strides=True,
    variants="function method out", vjp=ties_share(jnp.less, jnp.greater), jvp=_pair_jvp(jnp.greater))  # fmt: skip
def max_other(self, other):
    return _pair(self, other, jnp.maximum)


@reduction(
    "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out="apart",
    aten={"out": "dim_max max max_values"},
    node="MaxBackward",
    vjp={"self": _dim_vjp},
    nondiff=(1,),
    saved="dim indices keepdim self_sym_sizes",
)
def max_dim(self, dim, keepdim):
    return _along("max", self, dim, keepdim, jnp.max)


@reduction(
    "min(Tensor self) -> Tensor", out="cast", aten={"out": "unary_out"}, node="MinBackward1", vjp={"self": _all_vjp}
)
def min(self):
    """The smallest element; with ``dim``, (values, indices) along it; with a tensor, the elementwise minimum.

    NaN wins. Equal elements share the gradient of the whole minimum evenly.
    Raises RuntimeError for an empty tensor, NotImplementedError for complex numbers.

    >>> import torchlike as torch
    >>> torch.min(torch.tensor([[1., 5.], [7., 3.]]), 0).indices
    tensor([0, 1])
    """
    return _whole("min", self, jnp.min)


@op("min.other(Tensor self, Tensor other) -> Tensor",
    aten={"out": "out", "calls": _composed.renamed("minimum")}, dtype="promote", node="MinimumBackward", strides=True,
    variants="function method out", vjp=ties_share(jnp.greater, jnp.less), jvp=_pair_jvp(jnp.less))  # fmt: skip
def min_other(self, other):
    return _pair(self, other, jnp.minimum)


@reduction(
    "min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out="apart",
    aten={"out": "dim_min min min_indices"},
    node="MinBackward",
    vjp={"self": _dim_vjp},
    nondiff=(1,),
    saved="dim indices keepdim self_sym_sizes",
)
def min_dim(self, dim, keepdim):
    return _along("min", self, dim, keepdim, jnp.min)


def _extreme_place(name, x, dim, keepdim, reduce):
    _no_complex(name, x)
    if x.dtype == bool:
        raise RuntimeError(f"{name}(): does not support bool input; cast it with .int()")
    if dim is None:
        _non_empty(name, x, tuple(range(x.ndim)), IndexError)
        return _best(x.reshape(-1), reduce, 0)[1].reshape((1,) * x.ndim if keepdim else ())
    axis = reduced_axis(dim, x.ndim)
    if not x.ndim:
        return jnp.zeros((), jnp.int64)
    if not x.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(x.shape)}.")
    place = _best(x, reduce, axis)[1]
    return place if keepdim else place.squeeze(axis)


@reduction("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", vjp={})
def argmax(self, dim, keepdim):
    """The place of the first largest element, along ``dim`` or in the flattened tensor; NaN is largest.

    >>> import torchlike as torch
    >>> torch.argmax(torch.tensor([[1., 5.], [7., 3.]]), dim=1)
    tensor([1, 0])
    """
    return _extreme_place("argmax", self, dim, keepdim, jnp.max)


@reduction("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", vjp={})
def argmin(self, dim, keepdim):
    """The place of the first smallest element, along ``dim`` or in the flattened tensor; NaN is smallest.

    >>> import torchlike as torch
    >>> torch.argmin(torch.tensor([[1., 5.], [7., 3.]]))
    tensor(0)
    """
    return _extreme_place("argmin", self, dim, keepdim, jnp.min)


def _extreme(name, x, dim, keepdim, reduce):
    refuse(name, x, "c")
    axes = axes_of(dim, x.ndim)
    _non_empty(name, x, axes, whole=dim is None or dim == ())
    return reduce(x, axes, keepdims=keepdim)


@reduction("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", vjp={"self": _axes_vjp})
def amax(self, dim, keepdim):
    """The largest element over the dimensions ``dim`` (all by default); equal elements share the gradient.

    >>> import torchlike as torch
    >>> torch.amax(torch.tensor([[1., 5.], [7., 3.]]), dim=(0, 1))
    tensor(7.)
    """
    return _extreme("amax", self, dim, keepdim, jnp.max)


@reduction("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", vjp={"self": _axes_vjp})
def amin(self, dim, keepdim):
    """The smallest element over the dimensions ``dim`` (all by default); equal elements share the gradient.

    >>> import torchlike as torch
    >>> torch.amin(torch.tensor([[1., 5.], [7., 3.]]), dim=0)
    tensor([1., 3.])
    """
    return _extreme("amin", self, dim, keepdim, jnp.min)


def _aminmax_words(grads, self, min, max, dim, keepdim):
    axes = axes_of(dim, self.ndim)
    shape = [1 if i in axes else n for i, n in enumerate(self.shape)]
    found = None
    for grad, result in zip(grads, (min, max), strict=True):
        if grad is None:
            continue
        if not keepdim:
            grad, result = aten.view(grad, shape), aten.view(result, shape)
        tie = aten["eq.Tensor"](self, result)
        part = _masked(grad / aten["sum.dim_IntList"](tie, list(axes), True), tie)
        found = part if found is None else found + part
    return found


@op("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    variants="function method out", vjp={
        "self": lambda grads, self, min, max, dim, keepdim: _aminmax_vjp(grads, self, min, max, dim, keepdim),
    }, backward=_aminmax_words)  # fmt: skip
def aminmax(self, dim, keepdim):
    """The smallest and the largest element, over one dimension ``dim`` or all, as (min, max).

    >>> import torchlike as torch
    >>> torch.aminmax(torch.tensor([1., 5., 3.])).max
    tensor(5.)
    """
    refuse("aminmax", self, "c")
    axes = axes_of(dim, self.ndim)
    if not self.size:
        if dim is None:
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity; give a dim"
            )
        _non_empty("aminmax", self, axes, whole=False)
    return jnp.min(self, axes, keepdims=keepdim), jnp.max(self, axes, keepdims=keepdim)


def _aminmax_vjp(grads, self, min, max, dim, keepdim):
    axes = axes_of(dim, self.ndim)
    return even_split(grads[0], self, min, axes, keepdim) + even_split(grads[1], self, max, axes, keepdim)


# -- order statistics: each picks one element of every row -------------------------------------------


def _pick(order, k, axis, keepdim):
    """The ``k``-th (an int, or an array with ones along ``axis``) of both parts of ``ranked``."""
    if isinstance(k, int):
        out = tuple(lax.slice_in_dim(r, k, k + 1, axis=axis) for r in order)
    else:
        out = tuple(jnp.take_along_axis(r, k, axis) for r in order)
    return out if keepdim else tuple(jnp.squeeze(r, axis) for r in out)


def _is_nan(x):
    return x != x


def _median_of(name, x, axis, keepdim, skip_nan):
    n = x.shape[axis]
    if not n:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size, got shape {list(x.shape)}.")
    order = ranked(x, axis)
    nans = jnp.sum(_is_nan(x), axis, keepdims=True, dtype=jnp.int64)
    if skip_nan:
        k = jnp.where(nans == n, 0, (n - nans - 1) // 2)
    else:  # the first NaN comes right after the numbers
        k = jnp.where(nans > 0, n - nans, (n - 1) // 2)
    return _pick(order, k, axis, keepdim)


def _median(name, x, skip_nan):
    refuse("median_cpu", x, "b", "c")
    if not x.size:
        return jnp.full((), _empty_median(x.dtype))
    return _median_of(name, x.reshape(-1), 0, False, skip_nan)[0]


def _empty_median(dtype):
    return jnp.array(jnp.nan if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min, dtype)


def _median_along(name, x, dim, keepdim, skip_nan):
    refuse("median_cpu", x, "b", "c")
    axis = axis_of(dim, x.ndim)
    return _median_of(name, x, axis, keepdim, skip_nan) if x.ndim else (x, jnp.zeros((), jnp.int64))


@reduction("median(Tensor self) -> Tensor", vjp={"self": _all_vjp}, variants="function method")
def median(self):
    """The median: the lower of the two middle elements; with ``dim``, (values, indices) along it.

    NaN if there is one. Raises NotImplementedError for bool and complex.

    >>> import torchlike as torch
    >>> torch.median(torch.tensor([1., 4., 2., 3.]))
    tensor(2.)
    """
    return _median("median", self, False)


@reduction("median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    aten={"out": "dim_values"},
           node="MedianBackward1", vjp={"self": _dim_vjp}, nondiff=(1,),
           saved="dim indices keepdim self_sym_sizes")  # fmt: skip
def median_dim(self, dim, keepdim):
    return _median_along("median", self, dim, keepdim, False)


@reduction("nanmedian(Tensor self) -> Tensor", vjp={"self": _all_vjp}, variants="function method")
def nanmedian(self):
    """The median of the elements that are not NaN; with ``dim``, (values, indices) along it.

    >>> import torchlike as torch
    >>> torch.nanmedian(torch.tensor([1., torch.nan, 2., 3.]))
    tensor(2.)
    """
    return _median("nanmedian", self, True)


@reduction("nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    aten={"out": "dim_values"},
           node="NanmedianBackward1", vjp={"self": _dim_vjp}, nondiff=(1,),
           saved="dim indices keepdim self_sym_sizes")  # fmt: skip
def nanmedian_dim(self, dim, keepdim):
    return _median_along("nanmedian", self, dim, keepdim, True)


@reduction("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out="apart",
    aten={"out": "values"},
           vjp={"self": _dim_vjp}, nondiff=(1,), saved="dim indices keepdim self_sym_sizes")  # fmt: skip
def kthvalue(self, k, dim, keepdim):
    """The ``k``-th smallest element (from 1) along ``dim``, and its place. NaN is largest.

    >>> import torchlike as torch
    >>> torch.kthvalue(torch.tensor([3., 1., 2.]), 2).values
    tensor(2.)
    """
    refuse("kthvalue_cpu", self, "b", "c")
    axis = axis_of(dim, self.ndim)
    n = self.shape[axis] if self.ndim else 1
    if not 1 <= k <= n:
        if not n:
            raise IndexError(
                f"kthvalue(): Expected reduction dim {axis} to have non-zero size, got {list(self.shape)}."
            )
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}: {k} is not in 1..{n}")
    return _pick(ranked(self, axis), k - 1, axis, keepdim) if self.ndim else (self, jnp.zeros((), jnp.int64))


@reduction("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    out="apart",
    aten={"out": "values"},
           vjp={"self": _dim_vjp}, nondiff=(1,), saved="dim indices keepdim self_sym_sizes")  # fmt: skip
def mode(self, dim, keepdim):
    """The most frequent element along ``dim`` (the smallest of several), and the place of its last one.

    >>> import torchlike as torch
    >>> torch.mode(torch.tensor([2, 3, 3, 2, 1])).values
    tensor(2)
    """
    refuse("mode", self, "c")
    axis = axis_of(dim, self.ndim)
    if not self.ndim:
        return self, jnp.zeros((), jnp.int64)
    if not self.shape[axis]:
        raise IndexError(f"mode(): Expected reduction dim {axis} to have non-zero size, got shape {list(self.shape)}.")
    order = ranked(self, axis)
    values = order[0]
    first = lax.broadcasted_iota(jnp.int64, values.shape, axis)
    changes = jnp.concatenate([jnp.ones_like(lax.slice_in_dim(values, 0, 1, axis=axis), bool),
                               lax.slice_in_dim(values, 1, None, axis=axis)
                               != lax.slice_in_dim(values, 0, -1, axis=axis)], axis)  # fmt: skip
    start = lax.cummax(jnp.where(changes, first, 0), axis)
    return _pick(order, jnp.argmax(first - start, axis, keepdims=True), axis, keepdim)
