"""As ``_derivatives``, of reductions into places: what PyTorch calls for each of them."""

from torchlike._base.dtypes import from_np
from torchlike._decl.words import aten, spelled
from torchlike._ops._derivatives import times


def slices(grad, dim, index, source_aval):
    """The gradient of slices that were put at places along a dimension."""
    if not source_aval.shape:
        return aten.index_select(grad, dim, aten["squeeze.dim"](index, 0))
    return aten.expand(aten.index_select(grad, dim, index), [*source_aval.shape])


def slices_times(grad, dim, index, alpha, source_aval):
    return times(slices(grad, dim, index, source_aval), alpha)


class _Scattered:
    """Places of elements."""

    def __init__(self, dim, index):
        self.at = dim, index

    def add(self, x, source):
        return aten.scatter_add(x, *self.at, source)

    def read(self, x):
        return aten.gather(x, *self.at)

    def clear(self, x):
        return aten["scatter.value"](x, *self.at, 0)

    def product(self, x, source, include_self):
        return aten["scatter_reduce.two"](x, *self.at, source, "prod", **_left_out(include_self))

    def hits(self, x, result, counted):
        """Where elements equal the result, found anew after they were counted."""
        return x == result


class _Selected(_Scattered):
    """Places of slices."""

    def add(self, x, source):
        return aten.index_add(x, *self.at, source)

    def read(self, x):
        return aten.index_select(x, *self.at)

    def clear(self, x):
        return aten["index_fill.int_Scalar"](x, *self.at, 0)

    def product(self, x, source, include_self):
        return aten.index_reduce(x, *self.at, source, "prod", **_left_out(include_self))

    def hits(self, x, result, counted):
        return counted


def _numbers(hits, like):
    """0 and 1 in the dtype of ``like``."""
    return spelled("_to_copy", lambda x, dtype: x.astype(like.dtype), hits, dtype=from_np(like.dtype))


def _left_out(include_self):
    return {} if include_self else {"include_self": False}


def _reduced(grad, self, src, result, places, reduce, include_self):
    kind = {"sum": _sum, "mean": _mean, "prod": _prod}.get(reduce, _extreme)
    to_self, to_src = kind(grad, self, src, result, places, include_self)
    return to_self if include_self else places.clear(to_self), to_src


def _sum(grad, self, src, result, places, include_self):
    return grad, places.read(grad)


def _mean(grad, self, src, result, places, include_self):
    count = (aten.ones_like if include_self else aten.zeros_like)(grad)
    count = places.add(count, aten.ones_like(src))
    count = aten["masked_fill_.Scalar"](count, count == 0, 1)
    to_self = grad / count
    count = places.read(count)
    return to_self, places.read(grad) / count


def _extreme(grad, self, src, result, places, include_self):
    there = places.read(result)
    mine = _numbers(self == result, grad)
    theirs = _numbers(src == there, grad)
    share = grad / places.add(mine, theirs)
    to_self = places.hits(self, result, mine) * share
    share = places.read(share)
    return to_self, places.hits(src, there, theirs) * share


def _prod(grad, self, src, result, places, include_self):
    own = aten["masked_fill.Scalar"](self, self == 0, 1)
    others = places.product(own, src, include_self)
    to_self = grad * others / own
    zero = src == 0
    zeros = places.read(places.add(aten.zeros_like(self), _numbers(zero, self)))
    only = aten["bitwise_and.Tensor"](zero, zeros == 1)
    rest = places.product(self, aten["masked_fill.Scalar"](src, only, 1), include_self)
    divisor = aten["masked_fill.Scalar"](src, zero, 1)
    usual = places.read(grad * result) / divisor
    to_src = aten["where.self"](only, places.read(grad * rest), usual)
    return to_self, to_src


def _scattered(grad, self, dim, index, src, reduce, include_self, result):
    return _reduced(grad, self, src, result, _Scattered(dim, index), reduce, include_self)


SCATTER = {"self, src": (_scattered, {"when": lambda index_aval, src_aval: index_aval.shape == src_aval.shape})}
INDEX = {
    "self, source": lambda grad, self, dim, index, source, reduce, include_self, result: _reduced(
        grad, self, source, result, _Selected(dim, index), reduce, include_self
    )
}
