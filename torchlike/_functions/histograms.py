"""``torch.histogram`` and ``torch.histogramdd``."""

import torchlike._base.dtypes as dtypes
from torchlike._core.conversion.factories import into
from torchlike._core.dispatch.dispatch import call
from torchlike._core.dispatch.observers import as_calls, one_call
from torchlike._core.dispatch.out import demand_as_many, demand_fits
from torchlike._core.tensor.arguments import as_ints, bools, named_results, no_tensor
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._functions._install import both, function
from torchlike._ops import _composed_functions
from torchlike._ops import counts as ops

_RESULT = named_results("histogram", ("hist", "bin_edges"))
_RESULT_OUT = named_results("histogram_out", ("hist", "bin_edges"))
_MANY = named_results("histogramdd", ("hist", "bin_edges"))
_NAMES = {dtypes.float32: "float", dtypes.float64: "double", dtypes.int64: "long int", dtypes.int32: "int"}


def _named(dtype):
    return _NAMES.get(dtype, repr(dtype).removeprefix("torch."))


def _demand_numbers(x, weight, where):
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(
            f"\"histogramdd\" not implemented for '{x.dtype.scalar_name}'; convert the input with .to(torch.float32)"
        )
    if weight is None:
        return
    if not isinstance(weight, Tensor):
        raise no_tensor(where, "weight", None, weight)
    if weight.dtype is not x.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same "
            f"dtype, but got input({_named(x.dtype)}), and weight({_named(weight.dtype)})"
        )


def _demand_weight(x, weight):
    if weight is not None and tuple(weight.shape) != tuple(x.shape[:-1]):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor "
            f"excluding its innermost dimension, but got input with shape {list(x.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )


def _given_edges(x, bins, at):
    """Edges that the caller gives, checked."""
    if bins.dtype is not x.dtype:
        raise RuntimeError(
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
            f"{_named(x.dtype)} and bins for dimension {at} with dtype {_named(bins.dtype)}"
        )
    if bins.ndim != 1:
        raise RuntimeError(
            f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions in the bins "
            f"tensor for dimension {at}"
        )
    if not bins.numel():
        raise RuntimeError(
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor "
            f"for dimension {at}"
        )
    _demand_bins(bins.numel() - 1, at)
    return bins.clone()


def _demand_bins(n, at):
    if n <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {n} for dimension {at}")


def _equal_edges(values, bins, range, at):
    _demand_bins(bins, at)
    low, high = (0.0, 1.0) if range is None else map(float, range)
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {at}"
        )
    return call(ops.histogram_edges, (values, low, high), (range is not None, bins, at))


def _demand_range(range, d):
    if range is not None and len(range) != 2 * d:
        raise RuntimeError(
            f"torch.histogramdd: for a {d}-dimensional histogram range should have {2 * d} elements, but got "
            f"{len(range)}"
        )


def _histogram_counts(points, edges, weight, density):
    weight = None if weight is None else weight.reshape(-1)
    return call(ops.histogram_count, (points, *edges, weight), (bool(density), (len(edges),)))


@both("histogram")
@one_call(results=_RESULT)
def histogram(input, bins=100, *, range=None, weight=None, density=False, out=None):
    """(hist, bin_edges): how many elements, or the sum of whose weights, fall into each bin.

    ``bins``: how many equal parts of ``range`` (that of the elements), or a tensor of their edges. The last bin holds
    its upper end; what lies outside counts nowhere. ``density``: hist is divided by its sum and the bins' widths.
    NotImplementedError but for float32 and float64; RuntimeError for weights or edges of other dtypes or shapes, and
    for a range that is not finite.

    >>> import torchlike as torch
    >>> torch.histogram(torch.tensor([1., 2., 1.]), bins=4, range=(0., 3.))[0]
    tensor([0., 2., 1., 0.])
    """
    bools("histogram", density=density)
    if isinstance(bins, bool) or not isinstance(bins, int | Tensor) or (isinstance(bins, Tensor) and range is not None):
        kinds = f"{type(input).__name__}, {type(bins).__name__}"
        raise TypeError(
            f"histogram() received an invalid combination of arguments - got ({kinds}); bins is a number, or a tensor "
            "of edges without range"
        )
    _demand_numbers(input, weight, "histogram")
    points = input.reshape(-1, 1)
    _demand_weight(points, None if weight is None else weight.reshape(-1))
    if isinstance(bins, Tensor):
        edges = _given_edges(input, bins, 0)
    else:
        _demand_range(range, 1)
        edges = _equal_edges(input.reshape(-1), bins, range, 0)
    hist = _histogram_counts(points, [edges], weight, density)
    if out is None:
        return _RESULT((hist, edges))
    demand_as_many("histogram", 2, out)
    for name, o, of in (("hist", out[0], ""), ("bin_edges", out[1], " for dimension 0")):
        if o.dtype is not input.dtype:
            raise RuntimeError(
                f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input "
                f"{input.dtype.scalar_name} and {name} {o.dtype.scalar_name}{of}"
            )
    for r, o in zip((hist, edges), out, strict=True):
        demand_fits("histogram", r, o)
    return _RESULT_OUT([into(value_of(r), r.dtype, o) for r, o in zip((hist, edges), out, strict=True)])


@function("histogramdd")
def histogramdd(input, bins, range=None, weight=None, density=False):
    """(hist, bin_edges) of points [..., D] in D dimensions: a tensor of D dimensions, and a tuple of edges for each.

    ``bins``: a number of equal parts, one for each dimension, or a tensor of edges for each. ``range``: the ends of
    each dimension one after the other. ``weight`` [...]: of each point. Otherwise as :func:`histogram`.

    >>> import torchlike as torch
    >>> torch.histogramdd(torch.tensor([[0., 1.], [1., 0.], [1., 1.]]), bins=2).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    bools("histogramdd", density=density)
    if input.ndim < 2:
        raise RuntimeError(
            f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}: [..., D]"
        )
    d = input.shape[-1]
    bins = [bins] * d if isinstance(bins, int) else list(bins)
    if len(bins) != d:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    _demand_numbers(input, weight, "histogramdd")
    _demand_weight(input, weight)
    if not d:  # PyTorch counts none of the points of no dimensions
        return _MANY((input.new_zeros(()), ()))
    if not all(isinstance(b, Tensor) for b in bins):
        _demand_range(range, d)
        bins = as_ints("histogramdd", "bins", bins)
    hist, *edges = _many(input, bins, range, weight, bool(density))
    return _MANY((hist, tuple(edges)))


@as_calls(_composed_functions.histogramdd)
def _many(input, bins, range, weight, density):
    """hist, then the edges of each dimension."""
    d = input.shape[-1]
    points = input.reshape(-1, d)
    if all(isinstance(b, Tensor) for b in bins):
        edges = [_given_edges(input, b, at) for at, b in enumerate(bins)]
    else:
        parts = [None if range is None else tuple(range[2 * at : 2 * at + 2]) for at in _up_to(d)]
        edges = [_equal_edges(points[:, at], b, parts[at], at) for at, b in enumerate(bins)]
    return _histogram_counts(points, edges, weight, density), *edges


_up_to = range  # which is the name of an argument
__all__ = ["histogram", "histogramdd"]
