"""Writing along a dimension: scatter, index_add and their kin."""

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base import result_layouts
from torchlike._base.dims import wrap_dim
from torchlike._base.dtypes import from_np, int64
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled
from torchlike._ops import _derivatives, _derivatives_places, _overflow
from torchlike._ops._axes import refuse
from torchlike._ops._elementwise import no_derivative, once, wide, widely
from torchlike._ops.index import (
    at_least_1d,
    check_range,
    demand_index,
    demand_long,
    first_outside,
    out_of_range,
    take_along,
)
from torchlike._ops.shape import cast

_OUTSIDE = "index {i} is out of bounds for dimension {dim} with size {n}"
_in_range = check_range(RuntimeError, _OUTSIDE)
_in_self = check_range(IndexError, "index out of range in self: " + _OUTSIDE)


def _in_vector(self, **arguments):
    """PyTorch tells the vector's wrong index by another class."""
    return (_in_range if self.ndim > 1 else _in_self)(self, **arguments)


def _grid(index, dim):
    """The places ``[i, .., index, .., k]``, one index array for each dimension."""
    return tuple(
        index if d == dim else jax.lax.broadcasted_iota(index.dtype, index.shape, d) for d in range(index.ndim)
    )


def _demand_scatter(self, dim, index, src=None):
    """PyTorch's checks of scatter: dtypes, number of dimensions and sizes."""
    demand_index("scatter", index)
    if src is not None and src.dtype != self.dtype:
        raise RuntimeError(
            f"scatter(): Expected self.dtype to be equal to src.dtype, but got {from_np(self.dtype)} "
            f"and {from_np(src.dtype)}"
        )
    if not index.size:
        return
    for name, x in (("self", self), ("src", src)):
        if x is not None and max(x.ndim, 1) != max(index.ndim, 1):
            raise RuntimeError(
                f"Index tensor must have the same number of dimensions as {name} tensor, but got "
                f"{index.ndim} and {x.ndim}"
            )
    sizes = zip(at_least_1d(index).shape, at_least_1d(self).shape, strict=True)
    wide = any(n > m for d, (n, m) in enumerate(sizes) if d != dim)
    if src is not None:
        wide |= any(n > m for n, m in zip(at_least_1d(index).shape, at_least_1d(src).shape, strict=True))
    if wide:
        rest = f" and to be no larger size than src {list(src.shape)}" if src is not None else ""
        raise RuntimeError(
            f"Expected index {list(index.shape)} to be no larger than self {list(self.shape)} apart "
            f"from dimension {dim}{rest}"
        )


def _cut(src, index):
    """The part of ``src`` that ``index`` speaks of."""
    return jax.lax.slice(src, [0] * src.ndim, index.shape)


def _uncut(grad, like):
    """The gradient of ``_cut``: zeros outside."""
    return jnp.pad(grad, [(0, n - m) for n, m in zip(like.shape or (1,), grad.shape, strict=True)])


def _into(self, dim, index, how, src):
    """``self`` with the method ``how`` of ``self.at`` applied to ``src`` at ``index`` along ``dim``.

    Sums and products of 16-bit floats are rounded once: one by one they stop growing at a few hundred terms.
    """
    if how in ("add", "multiply"):
        return widely(lambda x, y: _written(x, dim, index, how, y), self, src)
    return _written(self, dim, index, how, src)


def _written(self, dim, index, how, src):
    x, index = at_least_1d(self), at_least_1d(index)
    if not index.size or not x.size:
        return self
    if getattr(src, "ndim", 0):
        src = _cut(src, index)
    where = x.at[_grid(index, dim)]
    if how == "multiply" and getattr(src, "ndim", 0) and jnp.issubdtype(x.dtype, jnp.inexact):
        return _product(x, src, _grid(index, dim)).reshape(self.shape)
    if x.dtype.kind == "b":
        how, src = {"add": "max", "multiply": "min"}.get(how, how), jnp.asarray(src) != 0
    # One constant may be written to a place twice: no need to tell duplicates apart.
    return getattr(where, how)(src, unique_indices=how == "set" and not jnp.ndim(src)).reshape(self.shape)


def _zeroed(grad, dim, index):
    """The gradient with zeros where something was written."""
    zeroed = lambda grad, dim, index, zero: _into(  # noqa: E731
        grad, wrap_dim(dim, grad.ndim), index, "set", jnp.zeros((), grad.dtype)
    )
    return spelled("scatter.value", zeroed, grad, dim, index, 0)


def _read(grad, dim, index, src_aval):
    """The gradient of ``src``: what ``index`` reads."""
    if not index.size:
        return jnp.zeros(src_aval.shape, grad.dtype)
    read = lambda grad, dim, index: take_along(grad, wrap_dim(dim, grad.ndim), index)  # noqa: E731
    got = spelled("gather", read, grad, dim, index)
    if got.shape == src_aval.shape:
        return got
    return _uncut(at_least_1d(got), src_aval).reshape(src_aval.shape)


def _number(self, value):
    """A traced number as the dtype of ``self``."""
    value = jnp.asarray(value)
    if jnp.iscomplexobj(value) and not jnp.iscomplexobj(self):
        raise _overflow.error(self.dtype)
    return cast(value, self.dtype)


@op("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", variants="function method inplace out",
    out="apart alone", check=_in_range, vjp={"self": lambda grad, dim, index: _zeroed(grad, dim, index), "src": _read},
    jvp={"self": lambda dot, dim, index: _zeroed(dot, dim, index),
         "src": lambda dot, self, dim, index:
             scatter.kernel(jnp.zeros(self.shape, dot.dtype), dim, index, dot)}  # type: ignore[has-type]
    )  # fmt: skip
def scatter(self, dim, index, src):
    """``input`` with ``src`` written at ``index`` along ``dim``: ``out[index[i][j]][j] = src[i][j]`` for ``dim=0``.

    ``index`` (int32 or int64) has the dimensions of ``input`` and ``src`` and is no larger than ``src``.
    ``src`` may be a number. RuntimeError for an index out of range.

    >>> import torchlike as torch
    >>> torch.scatter(torch.zeros(1, 3), 1, torch.tensor([[2]]), 5.0)
    tensor([[0., 0., 5.]])
    """
    dim = wrap_dim(dim, self.ndim)
    _demand_scatter(self, dim, index, src)
    return _into(self, dim, index, "set", at_least_1d(src))


@op("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", node="ScatterBackward1",
    out="apart alone", variants="function method inplace out", held="value:negative", check=_in_range,
    vjp={"self": lambda grad, dim, index: _zeroed(grad, dim, index)})  # fmt: skip
def scatter_value(self, dim, index, value):
    dim = wrap_dim(dim, self.ndim)
    _demand_scatter(self, dim, index)
    return _into(self, dim, index, "set", _number(self, value))


def _how(reduce):
    if reduce not in ("add", "multiply"):
        raise RuntimeError(f"reduce argument must be either add or multiply. (got {reduce!r})")
    return reduce


@op("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", check=_in_range,
    out="apart alone", variants="function method inplace out", vjp={"self, src": no_derivative("scatter")})  # fmt: skip
def scatter_with(self, dim, index, src, reduce):
    dim = wrap_dim(dim, self.ndim)
    _demand_scatter(self, dim, index, src)
    return _into(self, dim, index, _how(reduce), at_least_1d(src))


@op("scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    held="value:negative", check=_in_range, out="apart alone", variants="function method inplace out",
    vjp={"self": no_derivative("scatter")})  # fmt: skip
def scatter_value_with(self, dim, index, value, reduce):
    dim = wrap_dim(dim, self.ndim)
    _demand_scatter(self, dim, index)
    return _into(self, dim, index, _how(reduce), _number(self, value))


@op("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", variants="function method inplace out",
    out="alone", check=_in_range, autocast={"cuda": "promote"},
    vjp={"self": lambda grad: grad, "src": _read})  # fmt: skip
def scatter_add(self, dim, index, src):
    """``input`` with ``src`` added at ``index`` along ``dim``; see ``scatter``."""
    dim = wrap_dim(dim, self.ndim)
    _demand_scatter(self, dim, index, src)
    return _into(self, dim, index, "add", at_least_1d(src))


# -- reductions ----------------------------------------------------------------------------------

_METHODS = {"sum": "add", "prod": "multiply", "mean": "add", "amax": "max", "amin": "min"}


def _neutral(dtype, reduce):
    """What does not change the result of a reduction."""
    if reduce in ("sum", "mean"):
        return np.zeros((), dtype)
    if reduce == "prod":
        return np.ones((), dtype)
    if dtype.kind == "b":
        return np.array(reduce == "amin")
    if jnp.issubdtype(dtype, jnp.floating):
        return np.array(-np.inf if reduce == "amax" else np.inf).astype(dtype)
    limits = jnp.iinfo(dtype)
    return np.array(limits.min if reduce == "amax" else limits.max, dtype)


def _reduced(self, dim, index, src, reduce, include_self):
    if reduce in ("amax", "amin") and jnp.iscomplexobj(self):
        raise NotImplementedError(f"scatter_reduce: '{reduce}' is not defined for complex numbers")
    if reduce == "mean":
        refuse("scatter_gather_tensor_cpu_reduce_mean", self, "b")
    return widely(lambda x, y: _combined(x, dim, index, y, reduce, include_self), self, src)


def _combined(self, dim, index, src, reduce, include_self):
    if not include_self:
        self = _into(self, dim, index, "set", _neutral(self.dtype, reduce))
    out = _into(self, dim, index, _METHODS[reduce], src)
    if reduce != "mean":
        return out
    count = _count(self, dim, index, include_self)
    return jnp.floor_divide(out, count) if jnp.issubdtype(out.dtype, jnp.integer) else out / count


def _count(self, dim, index, include_self):
    """How many numbers meet at each place (at least 1)."""
    kind = self.dtype if self.dtype.kind != "b" else np.dtype(np.int64)
    start = jnp.ones(self.shape, kind)
    if not include_self:
        start = _into(start, dim, index, "set", jnp.zeros((), kind))
    return _into(start, dim, index, "add", jnp.ones((), kind))


def _reduce_grad(grad, self, dim, index, src, reduce, include_self, result):
    """Gradients of (self, src); ties of amax and amin share evenly."""
    dim = wrap_dim(dim, self.ndim)
    shape = src.shape
    whole, src = src, at_least_1d(src)
    if not index.size:
        return grad, jnp.zeros(shape, grad.dtype)
    index = at_least_1d(index)
    src = _cut(src, index)

    def read(x):
        return take_along(at_least_1d(x), dim, index)

    own, theirs = _shares(grad, self, dim, index, src, reduce, include_self, result, read)
    if not include_self:
        own = _zeroed(own, dim, index)
    return own, _uncut(theirs, whole).reshape(shape)


def _shares(grad, self, dim, index, src, reduce, include_self, result, read):
    if reduce == "sum":
        return grad, read(grad)
    if reduce == "mean":
        each = widely(lambda g, x: g / _count(x, dim, index, include_self), grad, self)
        return each, read(each)
    if reduce == "prod":
        return _prod_shares(grad, self, dim, index, src, include_self)
    mine, same = self == result, src == read(result)
    ties = _into(mine.astype(grad.dtype), dim, index, "add", same.astype(grad.dtype))
    return _among_ties(grad, mine, ties), _among_ties(read(grad), same, read(ties))


def _among_ties(grad, tie, ties):
    """The gradient divided by the number of ties where there is one, NaN where nothing ties."""
    return jnp.where(tie, grad / ties, grad * jnp.where(ties == 0, jnp.nan, 0))


def _other_factors(self, src, where):
    """For each factor of a scattered product (of ``self``, of ``src``) the product of the other ones there."""
    zero = src == 0
    count = jnp.zeros(self.shape, np.int32).at[where].add(zero)[where]
    only = zero & (count == 1)  # its others have no zero (but for self's): leave it out; else divide
    whole, without = _product(self, src, where), _product(self, jnp.where(only, 1, src), where)
    others = jnp.where(only, without[where], whole[where] / jnp.where(zero, 1, src))
    # of two zeros each has the other one among its others: a product of 0, but not so its derivative
    zeros = jnp.where(zero, src, 0)
    other = jnp.zeros(self.shape, src.dtype).at[where].add(zeros)[where] - zeros
    rest = _product(self, jnp.where(zero, 1, src), where)[where]
    others = jnp.where(zero & (count == 2), rest * other, others)
    return _product(jnp.ones_like(self), src, where), others


@jax.custom_jvp
def _product(self, src, where):
    return self.at[where].multiply(src)


@_product.defjvp
def _product_jvp(primals, tangents):
    self, src, where = primals
    own, others = _other_factors(self, src, where)
    return _product(self, src, where), (tangents[0] * own).at[where].add(tangents[1] * others)


def _prod_shares(grad, self, dim, index, src, include_self):
    dtype, (grad, self, src) = grad.dtype, [wide(x) for x in (grad, self, src)]
    start = self if include_self else _into(self, dim, index, "set", np.ones((), self.dtype))
    own, others = _other_factors(at_least_1d(start), src, _grid(index, dim))
    read = take_along(at_least_1d(grad), dim, index)
    return (grad * jnp.conj(own).reshape(grad.shape)).astype(dtype), (read * jnp.conj(others)).astype(dtype)


@op("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)"
    " -> Tensor", variants="function method inplace out", out="alone", check=_in_range,
    vjp={"self, src": _reduce_grad}, backward=_derivatives_places.SCATTER)  # fmt: skip
def scatter_reduce(self, dim, index, src, reduce, include_self):
    """``input`` and the elements of ``src`` that ``index`` sends to each place, reduced.

    ``reduce`` is "sum", "prod", "mean", "amax" or "amin"; without ``include_self`` the old value of a
    place that receives something does not count.
    """
    dim = wrap_dim(dim, self.ndim)
    if reduce not in _METHODS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    _demand_scatter(self, dim, index, src)
    return _reduced(self, dim, index, at_least_1d(src), reduce, include_self)


# -- whole slices --------------------------------------------------------------------------------


def _demand_slices(name, self, dim, index, source):
    """PyTorch's checks of index_add: a vector of as many indices as ``source`` has slices."""
    demand_index(name, index)
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but got dim: {index.ndim} with type: "
            f"{from_np(index.dtype).scalar_name} and size: {list(index.shape)}"
        )
    if self.dtype != source.dtype:
        raise RuntimeError(
            f"{name}(): self ({from_np(self.dtype).scalar_name}) and source "
            f"({from_np(source.dtype).scalar_name}) must have "
            "the same scalar type"
        )
    count = source.shape[dim] if source.ndim > dim else 1
    if index.size != count:
        raise RuntimeError(
            f"{name}(): Number of indices ({index.size}) should be equal to source.size(dim): ({count}), for dim: {dim}"
        )
    if _without(self.shape, dim) != _without(source.shape, dim) or self.ndim != source.ndim:
        raise RuntimeError(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(self.shape)} source.shape = {list(source.shape)}"
        )


def _without(shape, dim):
    return shape[:dim] + shape[dim + 1 :]


def _slices(x, dim, index):
    return x.at[(slice(None),) * dim + (index.reshape(-1),)]


def _take_slices(grad, dim, index, source_aval):
    def read(grad, dim, index):
        grad = at_least_1d(grad)
        return jnp.take(grad, index.reshape(-1), axis=wrap_dim(dim, grad.ndim)).reshape(source_aval.shape)

    return spelled("index_select", read, grad, dim, index)


@op("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
    out="alone", variants="function method inplace out", check=_in_vector, held="alpha:negative", vjp={
        "self": lambda grad: grad,
        "source": lambda grad, dim, index, alpha, source_aval: _take_slices(grad, dim, index, source_aval)
        * jnp.conj(_number(grad, alpha)),
    }, saved="alpha dim index source? source_dim",
    backward={"self": lambda grad: grad, "source": _derivatives_places.slices_times})  # fmt: skip
def index_add(self, dim, index, source, alpha):
    """``input`` with the slices of ``source`` (times ``alpha``) added at ``index`` along ``dim``."""
    dim = wrap_dim(dim, self.ndim)
    _demand_slices("index_add_", self, dim, index, source)
    if not self.size or not source.size:
        return self
    source = source & _number(source, alpha) if self.dtype == bool else once(source) * _number(source, alpha)
    x, source = at_least_1d(self), at_least_1d(source)
    if self.dtype.kind == "b":
        return _slices(x, dim, index).max(source).reshape(self.shape)
    return widely(lambda x, y: _slices(x, dim, index).add(y), x, source).reshape(self.shape)


def _demand_copy(self, dim, index, source):
    demand_long("index_copy_", index)
    if index.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    if self.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{from_np(self.dtype).scalar_name} and (source) {from_np(source.dtype).scalar_name}"
        )
    if self.ndim and source.ndim and self.ndim != source.ndim:
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({source.ndim}), destination dimensionality ({self.ndim})"
        )
    count = source.shape[dim] if source.ndim else 1
    if index.size != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.size}) should be equal to source.size(dim) ({count})"
        )
    if source.ndim and self.ndim and _without(self.shape, dim) != _without(source.shape, dim):
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{list(_without(self.shape, dim))} and source slice shape: {list(_without(source.shape, dim))}"
        )


def _blank(grad, dim, index):
    """The gradient with zeros at the slices that were written."""
    return spelled("index_fill.int_Scalar", _blanked, grad, dim, index, 0)


def _blanked(grad, dim, index, zero):
    x = at_least_1d(grad)
    return (
        _slices(x, wrap_dim(dim, x.ndim), index).set(0, unique_indices=True).reshape(grad.shape) if grad.size else grad
    )


@op("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    out="alone", variants="function method inplace out", check=check_range(IndexError, "index_copy_(): " + _OUTSIDE),
    vjp={"self": _blank, "source": _take_slices}, saved="dim index source? source_dim",
    backward={"self": _blank, "source": _derivatives_places.slices},
    jvp={"self": lambda dot, dim, index: _blank(dot, dim, index),
         "source": lambda dot, self, dim, index:
             index_copy.kernel(jnp.zeros(self.shape, dot.dtype), dim, index, dot)},  # type: ignore[has-type]
         autocast={"cpu": "promote"},
    )  # fmt: skip
def index_copy(self, dim, index, source):
    """``input`` with the slices of ``source`` in place of those at ``index`` along ``dim``."""
    dim = wrap_dim(dim, self.ndim)
    _demand_copy(self, dim, index, source)
    if not self.size or not source.size:
        return self
    x = at_least_1d(self)
    return (
        _slices(x, dim, index)
        .set(source.reshape((*x.shape[:dim], index.size, *x.shape[dim + 1 :])))
        .reshape(self.shape)
    )


def _fill_slices(self, dim, index, value):
    dim = wrap_dim(dim, self.ndim)
    if index.dtype != int64.np:
        raise IndexError(f"index_fill_(): Expected dtype int64 for index, but got {from_np(index.dtype).name}.")
    if index.ndim > 1:
        raise RuntimeError(f"Index has to be a vector/scalar (index_fill_ got {index.ndim} dimensions)")
    value = jnp.asarray(value)
    if value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if jnp.iscomplexobj(value) and not jnp.iscomplexobj(self):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    if not self.size or not index.size:
        return self
    return _slices(at_least_1d(self), dim, index).set(_number(self, value)).reshape(self.shape)


_fill_check = check_range(IndexError, _OUTSIDE, negative=True)


def _filling(self, dim, index, value):
    """``check`` of filling with an element, which the dtype is to hold."""
    bad, error = _fill_check(self, dim, index=index)
    over, overflow = _overflow.exceeds(self, value)
    if over is None:
        return bad, error
    return bad | over, lambda: overflow() if over else error()


def _touched(grad, dim, index):
    return spelled("index_fill.int_Scalar", _fill_slices, aten.zeros_like(grad), dim, index, 1) != 0


@op("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", node="IndexFillBackward1",
    out="alone", layout=result_layouts.like_first, variants="function method inplace", check=_filling, vjp={
        "self": _blank,
        "value": lambda grad, dim, index: jnp.sum(jnp.where(_touched(grad, dim, index), grad, 0)),
    })  # fmt: skip
def index_fill_tensor(self, dim, index, value):
    """``input`` with every slice at ``index`` along ``dim`` filled with ``value``."""
    return _fill_slices(self, dim, index, value)


@op("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    out="alone", layout=result_layouts.like_first, variants="function method inplace",
    held="value:negative", check=_fill_check, vjp={"self": _blank})  # fmt: skip
def index_fill_number(self, dim, index, value):
    return _fill_slices(self, dim, index, value)


def _along(index, dim, shape):
    """A vector of indices spread over the shape of ``source``."""
    return jnp.broadcast_to(index.reshape((1,) * dim + (-1,) + (1,) * (len(shape) - dim - 1)), shape)


@op("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    out="alone", variants="function method inplace out", check=_in_self, vjp={
        "self, source": lambda grad, self, dim, index, source, reduce, include_self, result: _reduce_grad(
            grad, self, dim, _along(index, wrap_dim(dim, self.ndim), at_least_1d(source).shape), source, reduce,
            include_self, result)}, backward=_derivatives_places.INDEX)  # fmt: skip
def index_reduce(self, dim, index, source, reduce, include_self):
    """As ``scatter_reduce``, of whole slices; ``reduce`` is "prod", "mean", "amax" or "amin"."""
    dim = wrap_dim(dim, self.ndim)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    _demand_slices("index_reduce", self, dim, index, source)
    if self.ndim < 2:
        refuse("index_func_", self, "b", "c")
    source = at_least_1d(source)
    return _reduced(self, dim, _along(index, dim, source.shape), source, reduce, include_self)


def _check_put(self, index, **_):
    if not index.size:
        return False, None
    return out_of_range(index, self.size), lambda: IndexError(
        f"out of range: tried to access index {first_outside(index, self.size)} on a tensor of {self.size} elements."
    )


def _put_source(grad, index, source_aval):
    return grad.reshape(-1)[index.reshape(-1)].reshape(source_aval.shape)


@op("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    out="alone", layout=result_layouts.like_first, variants="function method inplace", check=_check_put, vjp={
        "self": lambda grad, index, accumulate: grad if accumulate
        else _blank(grad.reshape(-1), 0, index.reshape(-1)).reshape(grad.shape),
        "source": _put_source,
    }, saved="accumulate index source?", backward=_derivatives.PUT)  # fmt: skip
def put(self, index, source, accumulate):
    """``input``, seen as one row, with ``source`` written (or added) at ``index``."""
    demand_long("put_", index)
    if self.dtype != source.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{from_np(self.dtype).scalar_name} and source.dtype = {from_np(source.dtype).scalar_name}"
        )
    if index.size != source.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.size}, index.numel() = {index.size}"
        )
    if not index.size:
        return self
    x, source, at = self.reshape(-1), source.reshape(-1), index.reshape(-1)
    if accumulate and self.dtype != bool:
        return widely(lambda x, y: x.at[at].add(y), x, source).reshape(self.shape)
    return (x.at[at].max(source) if accumulate else x.at[at].set(source)).reshape(self.shape)
