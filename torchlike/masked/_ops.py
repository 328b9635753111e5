"""``torch.masked``: reductions and normalisations of the elements that a mask lets through.

``mask``: a bool tensor that broadcasts to the input, True where an element counts; None counts all. What counts for
nothing is filled with the value that changes nothing (0 of a sum, the least of a maximum), so a row without any
element gives that value, and NaN where there is none (mean, median, softmax). IndexError for a mask of more dimensions
than the input, RuntimeError for one that does not broadcast.
"""

import functools

import torchlike._base.dtypes as dtypes
from torchlike._base.dims import wrap_dims
from torchlike._base.state import state
from torchlike._core.tensor.tensor import Tensor, strided
from torchlike._functions._install import FUNCTIONS as _F
from torchlike.linalg import vector_norm as _vector_norm
from torchlike.masked import _sparse

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def _expanded(input, mask):
    if not isinstance(mask, Tensor):
        raise AttributeError(f"mask must be a Tensor of bools, not {type(mask).__name__}")
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): "
            f"{mask.ndim} and {input.ndim}"
        )
    mask = mask if mask.dtype is dtypes.bool else mask != 0
    if mask.shape == input.shape:
        return mask
    return (mask.clone() if state.dispatch_modes else mask).expand(input.shape)  # a copy is what PyTorch's modes see


def _filled(input, mask, value):
    """The input with ``value`` where the mask is False."""
    if not isinstance(input, Tensor):
        raise AttributeError(f"expected a Tensor as input, but got {type(input).__name__}")
    if mask is None:
        return input
    mask = _expanded(input, mask)
    return _F["where"](mask, input, _F["tensor"](value, dtype=input.dtype, device=input.device))


def _limit(name, input, least):
    """The value that a maximum (or minimum) ignores."""
    dtype = input.dtype
    if dtype is dtypes.bool:
        raise NotImplementedError(f"identity of {name} on torch.bool input: give the input as integers")
    if dtype.is_complex:
        raise TypeError(f"masked.{name}() takes no complex tensors, which have no order, but got {dtype}")
    if dtype.is_floating_point:
        return float("-inf" if least else "inf")
    info = dtypes.iinfo(dtype)
    return info.min if least else info.max


def _of_masked(function):
    """The function, also of a tensor that carries a mask: of its values under that mask (and the one given)."""

    @functools.wraps(function)
    def masked(input, *args, mask=None, **named):
        own = getattr(input, "get_mask", None)
        if own is not None:
            mask = own() if mask is None else _expanded(input.get_data(), mask) & own()
            input = input.get_data()
        if getattr(input, "layout", strided) is not strided:
            _sparse.demand_reduced(function.__name__, input)
            return _of_entries(function.__name__, input, *args, mask=mask, **named)
        if isinstance(mask, Tensor) and mask.layout is not strided:
            mask = mask.to_dense()
        return function(input, *args, mask=mask, **named)

    return masked


def _of_entries(name, input, dim=None, *, keepdim=False, dtype=None, mask=None):
    return _sparse.reduced(name, input, dims_of(input, dim), keepdim, dtype, mask, _expanded, _limit)


def dims_of(input, dim):
    """The dimensions of a reduction: all for None and ()."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(input.ndim))
    if isinstance(dim, int):
        return (dim,)
    return tuple(dim)


@_of_masked
def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum over ``dim`` (all); 0 where nothing counts. Integers are summed as int64.

    >>> import torchlike as torch
    >>> torch.masked.sum(torch.tensor([1., 2., 3.]), mask=torch.tensor([True, False, True]))
    tensor(4.)
    """
    x = _filled(input, mask, 0)
    return _F["sum"](x, dims_of(x, dim), keepdim, dtype=dtype)


@_of_masked
def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product over ``dim`` (all), 1 where nothing counts.

    >>> import torchlike as torch
    >>> torch.masked.prod(torch.tensor([[1., 2., 3.]]), (0, 1), mask=torch.tensor([True, False, True]))
    tensor(3.)
    """
    x = _filled(input, mask, 1)
    dims = () if dim == [] else dims_of(x, dim)  # an empty list is no dimension; an empty tuple all, as elsewhere
    if not dims:
        whole = dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else dtypes.int64)
        return x.to(whole)
    for d in sorted(wrap_dims(dims, x.ndim), reverse=True):
        x = _F["prod"](x, d, keepdim, dtype=dtype)
    return x


@_of_masked
def cumsum(input, dim, *, dtype=None, mask=None):
    """Sums along ``dim`` up to each element, in the dtype of the input.

    >>> import torchlike as torch
    >>> torch.masked.cumsum(torch.tensor([1., 2., 3.]), 0, mask=torch.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    x = _filled(input, mask, 0)
    _demand_numbers("cumsum", x, dtype)
    return _F["cumsum"](x, _one(x, dim), dtype=dtype or x.dtype)


@_of_masked
def cumprod(input, dim, *, dtype=None, mask=None):
    """Products along ``dim`` up to each element, in the dtype of the input.

    >>> import torchlike as torch
    >>> torch.masked.cumprod(torch.tensor([1., 2., 3.]), 0, mask=torch.tensor([True, False, True]))
    tensor([1., 1., 3.])
    """
    x = _filled(input, mask, 1)
    _demand_numbers("cumprod", x, dtype)
    return _F["cumprod"](x, _one(x, dim), dtype=dtype or x.dtype)


def _demand_numbers(name, x, dtype):
    if (dtype or x.dtype) is dtypes.bool:
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool': give dtype=torch.int64")


def _one(input, dim):
    """A dimension, or that of a sequence of one; the first one for None and ()."""
    if dim is None or dim in ((), []):
        if not input.ndim or dim == []:
            raise IndexError(f"expected one dimension of a tensor of {input.ndim}, but got {dim!r}")
        return 0
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 1:
        raise ValueError(f"expected one dimension, but got {dim!r}")
    return dims[0]


@_of_masked
def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest element over ``dim`` (all); the least number of the dtype where nothing counts.

    NotImplementedError for bools under a mask, TypeError for complex numbers.

    >>> import torchlike as torch
    >>> torch.masked.amax(torch.tensor([1., 5., 3.]), mask=torch.tensor([True, False, True]))
    tensor(3.)
    """
    return _extreme("amax", input, dim, keepdim, dtype, mask, True)


@_of_masked
def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest element over ``dim`` (all); the largest number of the dtype where nothing counts.

    >>> import torchlike as torch
    >>> torch.masked.amin(torch.tensor([1., 5., 3.]), mask=torch.tensor([False, True, True]))
    tensor(3.)
    """
    return _extreme("amin", input, dim, keepdim, dtype, mask, False)


def _extreme(name, input, dim, keepdim, dtype, mask, least):
    x = input if mask is None else _filled(input, mask, _limit(name, input, least))
    return _F[name](x, dims_of(x, dim), keepdim).to(dtype or x.dtype)


@_of_masked
def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the largest element along ``dim`` stands (in the flattened input without it), in the input's dtype.

    >>> import torchlike as torch
    >>> torch.masked.argmax(torch.tensor([1, 5, 3]), mask=torch.tensor([True, False, True]))
    tensor(2)
    """
    return _place("argmax", input, dim, keepdim, dtype, mask, True)


@_of_masked
def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """Where the smallest element along ``dim`` stands (in the flattened input without it), in the input's dtype.

    >>> import torchlike as torch
    >>> torch.masked.argmin(torch.tensor([1, 5, 3]), mask=torch.tensor([False, True, True]))
    tensor(2)
    """
    return _place("argmin", input, dim, keepdim, dtype, mask, False)


def _place(name, input, dim, keepdim, dtype, mask, least):
    x = input if mask is None else _filled(input, mask, _limit(name, input, least))
    return _F[name](x, dim, bool(keepdim)).to(dtype or x.dtype)


@_of_masked
def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of exponentials over ``dim`` (all), in the input's dtype.

    >>> import torchlike as torch
    >>> torch.masked.logsumexp(torch.tensor([0., 9., 0.]), 0, mask=torch.tensor([True, False, True]))
    tensor(0.6931)
    """
    dtype = dtype or input.dtype
    if mask is not None and not input.dtype.is_complex:
        _limit("logsumexp", input, True)
    if mask is None:
        x = input
    else:
        x = _filled(input, mask, float("-inf") if input.dtype.is_complex else _limit("logsumexp", input, True))
    return _F["logsumexp"](x, dims_of(x, dim), keepdim).to(dtype)


@_of_masked
def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean over ``dim`` (all) of the elements that count; NaN where none does.

    ValueError for integers without a floating ``dtype``.

    >>> import torchlike as torch
    >>> torch.masked.mean(torch.tensor([1., 5., 3.]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    given, dtype = "Input" if dtype is None else "Optional", dtype or input.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {given} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    dims, mask = dims_of(input, dim), mask if mask is None else _expanded(input, mask)
    count = _count(input, dims, keepdim, mask)
    return sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask) / count


def _count(input, dims, keepdim, mask):
    """How many elements count, of each result."""
    counted = _F["ones"](input.shape, dtype=dtypes.int64, device=input.device) if mask is None else mask
    return _F["sum"](counted, dims, keepdim)


@_of_masked
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median along ``dim`` of the elements that count; NaN where none does. Floating inputs keep their dtype.

    ValueError for integers where none does.

    >>> import torchlike as torch
    >>> torch.masked.median(torch.tensor([1., 5., 3.]), 0, mask=torch.tensor([False, True, True]))
    tensor(3.)
    """
    floating, dtype = input.dtype.is_floating_point, dtype or input.dtype
    x = input if floating else (input.real if input.dtype.is_complex else input).to(dtypes.float32)
    x = _F["nanmedian"](_filled(x, mask, float("nan")), _one(x, dim), keepdim).values
    if not floating and not dtype.is_complex and bool(x.isnan().any()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return x if floating else x.to(dtype)


@_of_masked
def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The ``ord``-norm of the elements over ``dim`` (all), as ``torch.linalg.vector_norm``.

    >>> import torchlike as torch
    >>> torch.masked.norm(torch.tensor([3., 9., 4.]), mask=torch.tensor([True, False, True]))
    tensor(5.)
    """
    x = _filled(input, mask, float("inf") if ord == float("-inf") else 0)
    return _vector_norm(x, ord, dims_of(x, dim), bool(keepdim), dtype=dtype)


@_of_masked
def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The elements divided by their norm along ``dim``, which is taken as ``eps`` at least.

    >>> import torchlike as torch
    >>> torch.masked.normalize(torch.tensor([3., 9., 4.]), 2, 0, mask=torch.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    x = _filled(input, mask, 0)
    x = x if dtype is None else x.to(dtype)
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return x / _F["maximum"](size, size.new_full((), eps))


@_of_masked
def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance over ``dim`` (all): squared distances from the mean divided by their number less ``correction`` (1).

    >>> import torchlike as torch
    >>> torch.masked.var(torch.tensor([1., 9., 3.]), mask=torch.tensor([True, False, True]))
    tensor(2.)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, lambda v: v)


@_of_masked
def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The root of :func:`var`.

    >>> import torchlike as torch
    >>> torch.masked.std(torch.tensor([1., 9., 3.]), correction=0, mask=torch.tensor([True, False, True]))
    tensor(1.)
    """
    return _spread(input, dim, unbiased, correction, keepdim, dtype, mask, _F["sqrt"])


def _spread(input, dim, unbiased, correction, keepdim, dtype, mask, finish):
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if input.dtype is dtypes.bool:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported: var and std take numbers"
        )
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    floating = input.dtype.is_floating_point or input.dtype.is_complex
    dtype = dtype or (input.dtype if floating else dtypes.float32)
    dims, x, mask = dims_of(input, dim), input.to(dtype), mask if mask is None else _expanded(input, mask)
    count = _count(input, dims, True, mask)
    away = x - sum(x, dims, keepdim=True, mask=mask) / count
    total = sum(away * away.conj(), dims, keepdim=keepdim, dtype=dtype, mask=mask)
    if not keepdim:
        count = count.reshape(total.shape)
    if correction:
        count = count.to(dtype.to_real()) - correction
        count = _F["maximum"](count, count.new_zeros(()))
    return finish(total / count)


@_of_masked
def softmax(input, dim, *, dtype=None, mask=None):
    """The softmax along ``dim`` of the elements that count; 0 for the others, NaN where none counts.

    >>> import torchlike as torch
    >>> torch.masked.softmax(torch.tensor([1., 9., 1.]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _F["softmax"](_least_outside("amax", input, mask), _one(input, dim), dtype=dtype or input.dtype)


@_of_masked
def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of :func:`softmax`, -inf for the elements that do not count.

    >>> import torchlike as torch
    >>> torch.masked.log_softmax(torch.tensor([1., 9., 1.]), 0, mask=torch.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    return _F["log_softmax"](_least_outside("amax", input, mask), _one(input, dim), dtype=dtype or input.dtype)


@_of_masked
def softmin(input, dim, *, dtype=None, mask=None):
    """The softmax of the negative elements.

    >>> import torchlike as torch
    >>> torch.masked.softmin(torch.tensor([1., 9., 1.]), 0, mask=torch.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    x = input if mask is None else _filled(input, mask, _limit("amin", input, False))
    return _F["softmax"](-x, _one(x, dim), dtype=dtype or input.dtype)


def _least_outside(name, input, mask):
    return input if mask is None else _filled(input, mask, _limit(name, input, True))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """``log(exp(input) + exp(other))``, of the elements of each that its own mask lets through.

    >>> import torchlike as torch
    >>> torch.masked.logaddexp(torch.zeros(2), torch.zeros(2), other_mask=torch.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    a, b = _least_outside("logaddexp", input, input_mask), _least_outside("logaddexp", other, other_mask)
    return _F["logaddexp"](a, b).to(dtype or input.dtype)
