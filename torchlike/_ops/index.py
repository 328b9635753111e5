"""Reading and writing at index tensors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base import result_layouts
from torchlike._base.dims import broadcast_shapes, wrap_dim
from torchlike._base.dtypes import from_np, int64
from torchlike._decl.op import op
from torchlike._decl.words import aten, spelled
from torchlike._executor.sparse import Wanted
from torchlike._ops import _composed, _derivatives, _overflow
from torchlike._ops._elementwise import widely
from torchlike._ops.shape import cast


def out_of_range(index, size):
    """Whether any element of ``index`` is neither in [0, size) nor, negative, in [-size, 0)."""
    return jnp.any((index >= size) | (index < -size))


def first_outside(index, size):
    """The first number of a host array of indices that is out of range, as a Python int, or None."""
    index = np.asarray(index)
    bad = (index >= size) | (index < -size)
    return int(index[bad][0]) if bad.any() else None


def _at(indices):
    return tuple(slice(None) if i is None else i for i in indices)


def _common(indices):
    """Check that the index tensors broadcast together; their common shape."""
    shapes = [i.shape for i in indices if i is not None]
    try:
        return broadcast_shapes(*shapes)
    except RuntimeError:
        spelt = ", ".join(str(list(s)) for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {spelt}"
        ) from None


def _check_indices(self, indices, values=None, accumulate=False):
    where = [(dim, i) for dim, i in enumerate(indices) if i is not None and i.size]
    if not where:
        return False, None
    shape = self.shape

    def error():
        for dim, i in where:
            found = first_outside(i, shape[dim])
            if found is not None and not shape[dim]:
                return IndexError("index is out of bounds for dimension with size 0")
            if found is not None:
                return IndexError(f"index {found} is out of bounds for dimension {dim} with size {shape[dim]}")

    return functools.reduce(jnp.logical_or, [out_of_range(i, shape[dim]) for dim, i in where]), error


def _index_grad(grad, self_aval, indices):
    return aten.index_put(aten.new_zeros(grad, self_aval.shape, options=True), _trimmed(indices), grad, True)


@op("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", variants="", node="IndexBackward", check=_check_indices,
    saved="indices self_sym_sizes", vjp={"self": _index_grad}, jvp="kernel")  # fmt: skip
def index(self, indices):
    _common(indices)
    if any(n == 0 for n, i in zip(self.shape, indices, strict=False) if i is not None):
        return jnp.zeros(_selected(self, indices), self.dtype)
    return self[_at(indices)]


def _selected(self, indices):
    """The shape of ``self[indices]``: the common shape of the indices, in front unless they are neighbours."""
    given = [d for d, i in enumerate(indices) if i is not None]
    rest = [n for d, n in enumerate(self.shape) if d not in given]
    lead = given[0] if given[-1] - given[0] == len(given) - 1 else 0
    return (*rest[:lead], *_common(indices), *rest[lead:])


@jax.custom_jvp
def _put(self, values, indices):
    return self.at[_at(indices)].set(values)


@_put.defjvp
def _put_jvp(primals, tangents):
    # Where an index comes twice each of its values gets the gradient of the place, as in PyTorch.
    self, values, indices = primals
    at = _at(indices)
    kept = tangents[0].at[at].set(0, unique_indices=True)  # one constant: duplicates do no harm
    return _put(self, values, indices), kept.at[at].add(tangents[1])


def _placed(self, values, indices):
    """``values`` broadcast to what the indices select."""
    shape = _selected(self, indices)
    try:
        fits = broadcast_shapes(values.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of "
            f"shape {list(shape)}"
        )
    return jnp.broadcast_to(values, shape)


def _kept_by_put(grad, indices, values_aval, accumulate):
    """The gradient with zeros at the places that were written, unless what was there was added to."""
    if accumulate:
        return grad
    zeros = aten.zeros([*values_aval.shape], grad)
    compute = lambda grad, at, zeros: grad.at[_at(at)].set(0, unique_indices=True) if grad.size else grad  # noqa: E731
    return spelled("index_put", compute, grad, _trimmed(indices), zeros)


def _of_values(grad, indices):
    return aten["index.Tensor"](grad, _trimmed(indices))


def _trimmed(indices):
    indices = list(indices)
    while indices and indices[-1] is None:
        indices.pop()
    return indices


@op("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    variants="inplace", out="alone repeated", node="IndexPutBackward", layout=result_layouts.like_first,
    check=_check_indices, jvp="kernel", vjp={
        "self": _kept_by_put,
        "values": _of_values,
    },
    saved="accumulate indices", autocast={"cuda": "promote"})  # fmt: skip
def index_put(self, indices, values, accumulate):
    values = _placed(self, values, indices)
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{from_np(self.dtype).scalar_name} for the destination and "
            f"{from_np(values.dtype).scalar_name} for the source."
        )
    if not self.size or not values.size:
        return self
    if not accumulate:
        return _put(self, values, list(indices))
    if self.dtype == bool:
        return self.at[_at(indices)].max(values)
    return widely(lambda x, y: x.at[_at(indices)].add(y), self, values)


@op("_index_true(Tensor self, Tensor index, int dim, int width) -> Tensor", variants="", node="IndexBackward",
    saved="self_sym_sizes")  # fmt: skip
def index_true(self, index, dim, width):
    """``self[mask]``: ``index`` says where the mask, which covers ``width`` dimensions from ``dim``, is true."""
    flat = self.reshape((*self.shape[:dim], -1, *self.shape[dim + width :])) if self.size else self
    if not self.size or not index.size:
        return jnp.zeros((*self.shape[:dim], index.size, *self.shape[dim + width :]), self.dtype)
    return jnp.take(flat, index, axis=dim, mode="clip", unique_indices=True, indices_are_sorted=True)


def _spread(mask, dim, ndim):
    """The mask as booleans, with dimensions of size 1 before and after its own."""
    return (mask != 0).reshape((1,) * dim + mask.shape + (1,) * (ndim - dim - mask.ndim))


def _index_mask_calls(name):
    return lambda aten, self, mask, values, dim: aten[name](self, [*[None] * dim, mask], values)


@op("_index_mask(Tensor self, Tensor mask, Tensor values, int dim) -> Tensor", variants="inplace", out="number part",
    aten={"calls": _index_mask_calls("index_put"), "calls_inplace": _index_mask_calls("index_put_")},
    node="IndexPutBackward", vjp={
        "self": lambda grad, mask, dim: jnp.where(_spread(mask, dim, grad.ndim), 0, grad),
        "values": lambda grad, mask, dim, values_aval: jnp.sum(
            jnp.where(_spread(mask, dim, grad.ndim), grad, 0)).reshape(values_aval.shape),
    })  # fmt: skip
def index_mask(self, mask, values, dim):
    """``self`` with one value where ``mask``, which covers the dimensions from ``dim``, is true."""
    if jnp.iscomplexobj(values) and not jnp.iscomplexobj(self):
        raise RuntimeError(
            f"value cannot be converted to type {from_np(self.dtype).name} without overflow: it is complex"
        )
    return jnp.where(_spread(mask, dim, self.ndim), cast(values.reshape(()), self.dtype), self)


@op("_changed(Tensor self, Tensor new, int[] dims) -> Tensor", variants="", vjp={})
def changed(self, new, dims):
    """Along each of ``dims`` the element of ``new`` that differs from ``self``, if one does."""
    differs = (self != new) & ~((self != self) & (new != new))
    for dim in dims:
        at = jnp.argmax(differs, dim, keepdims=True)
        new, differs = jnp.take_along_axis(new, at, dim), jnp.take_along_axis(differs, at, dim)
    return new


# -- reading along a dimension -------------------------------------------------------------------


def check_range(error, text, negative=False, name="index"):
    """A ``check`` that every index lies in its dimension; ``text`` may name {i}, {dim} and {n}."""

    def check(self, dim, **arguments):
        index = arguments[name]
        dim = wrap_dim(dim, self.ndim)
        n = self.shape[dim] if self.ndim else 1
        if not index.size:
            return False, None
        low = -n if negative else 0

        def raised():
            found = np.asarray(index)
            found = found[(found >= n) | (found < low)]
            return error(text.format(i=int(found.reshape(-1)[0]), dim=dim, n=n))

        return jnp.any((index >= n) | (index < low)), raised

    return check


def demand_index(name, index, kinds=("int32", "int64")):
    """RuntimeError unless the index tensor has one of these dtypes."""
    if index.size and index.dtype.name not in kinds:
        raise RuntimeError(
            f"{name}(): Expected dtype {'/'.join(kinds)} for index, but got "
            f"{from_np(index.dtype).name}; convert it with .long()"
        )


def at_least_1d(x):
    return x if x.ndim else x.reshape(1)


def demand_fits(name, self, dim, index):
    """RuntimeError unless ``index`` has the dimensions of ``self`` and, but for ``dim``, no larger sizes."""
    if max(index.ndim, 1) != max(self.ndim, 1):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as input tensor; {name}() got "
            f"{index.ndim} for index and "
            f"{self.ndim} for input"
        )
    pairs = zip(at_least_1d(index).shape, at_least_1d(self).shape, strict=True)
    for d, (n, m) in enumerate(pairs):
        if d != dim and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no "
                "larger than self "
                f"{list(self.shape)} apart from dimension {dim} (in {name}())"
            )


def take_along(x, dim, index):
    """``x`` at ``index`` along ``dim``, cut to the size of ``index`` in the other dimensions."""
    shape = index.shape
    x, index = at_least_1d(x), at_least_1d(index)
    if not index.size or not x.size:
        return jnp.zeros(shape, x.dtype)
    limits = [n if d == dim else m for d, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))]
    x = jax.lax.slice(x, [0] * x.ndim, limits)
    return jnp.take_along_axis(x, index, axis=dim).reshape(shape)


def _gather_grad(grad, dim, index, self_aval):
    return aten.scatter_add(aten.new_zeros(grad, self_aval.shape), dim, index, grad)


_OUTSIDE = "index {i} is out of bounds for dimension {dim} with size {n}"


@op("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
    out="apart",
    variants="function method out", check=check_range(RuntimeError, _OUTSIDE),
    vjp={"self": lambda grad, dim, index, self_aval: _gather_grad(grad, dim, index, self_aval)}, jvp="kernel",
    saved="dim index self? sparse_grad")  # fmt: skip
def gather(self, dim, index, sparse_grad):
    """``input`` at ``index`` along ``dim``: ``out[i][j] = input[index[i][j]][j]`` for ``dim=0``.

    ``index`` (int32 or int64) has as many dimensions as ``input`` and, but for ``dim``, no larger sizes.
    RuntimeError for an index out of range.

    >>> import torchlike as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[1], [0]]))
    tensor([[2],
            [3]])
    """
    dim = wrap_dim(dim, self.ndim)
    if sparse_grad:
        raise Wanted("gather(): sparse_grad=True is not supported here")
    demand_index("gather", index)
    if index.size:
        demand_fits("gather", self, dim, index)
    return take_along(self, dim, index)


@op("take_along_dim(Tensor self, Tensor indices, int dim) -> Tensor", variants="", node="GatherBackward",
    saved={"dim": "dim", "index": "indices", "self?": "self", "sparse_grad": lambda: False,
           "~indices": "indices"}, aten={"out": None, "calls": _composed.take_along_dim})  # fmt: skip
def take_around(self, indices, dim):
    """As ``gather``, with indices taken modulo the length."""
    n = self.shape[dim] if self.ndim else 1
    return widely(lambda x: take_along(x, dim, indices % n if n else indices), self)  # gradients are summed so


_in_slices = check_range(IndexError, "index out of range in self: {i} in dimension {dim} with size {n}")
_in_nothing = check_range(RuntimeError, "INDICES element is out of DATA bounds, id={i} axis_dim={n}")


def _check_select(self, dim, index):
    return (_in_slices if self.size else _in_nothing)(self, dim, index=index)


def _slices_taken(shape, places, dim):
    if not -len(shape) <= dim < len(shape) or places.ndim != 1 or places.dtype.kind != "i" or (places < 0).any():
        return None
    return (*[slice(None)] * (dim % len(shape)), places)


@op("index_select(Tensor self, int dim, Tensor index) -> Tensor", out="apart", variants="function method out",
    check=_check_select, taken=_slices_taken,
    vjp={"self": lambda grad, dim, index, self_aval:
         aten.index_add(aten.new_zeros(grad, self_aval.shape, options=True), dim, index, grad)}, jvp="kernel",
    saved="dim index! self_sym_sizes")  # fmt: skip
def index_select(self, dim, index):
    """The slices of ``input`` along ``dim`` at the numbers in the vector ``index``.

    >>> import torchlike as torch
    >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1]))
    tensor([[2],
            [4]])
    """
    dim = wrap_dim(dim, self.ndim)
    demand_index("index_select", index)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not self.ndim:
        if index.size != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)")
        return self
    if not self.shape[dim]:
        if index.size:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        return jnp.zeros((*self.shape[:dim], index.size, *self.shape[dim + 1 :]), self.dtype)
    return jnp.take(self, index.reshape(-1), axis=dim)


def _check_flat(self, index, **_):
    n = self.size
    if not index.size:
        return False, None
    if not n:
        return True, IndexError("take(): tried to take from an empty tensor")
    return out_of_range(index, n), lambda: IndexError(
        f"out of range: tried to access index {first_outside(index, n)} on a tensor of {n} elements."
    )


def demand_long(name, index):
    """RuntimeError unless the index tensor is int64."""
    if index.dtype != int64.np:
        raise RuntimeError(f"{name}(): Expected a long tensor for index, but got {from_np(index.dtype).scalar_name}")


@op("take(Tensor self, Tensor index) -> Tensor", out="apart", variants="function method out", check=_check_flat,
    backward=_derivatives.take, saved="index self?")  # fmt: skip
def take(self, index):
    """The elements of ``input``, seen as one row, at ``index``; negative numbers count from the end.

    >>> import torchlike as torch
    >>> torch.take(torch.tensor([[4, 3], [2, 1]]), torch.tensor([0, -1]))
    tensor([4, 1])
    """
    demand_long("take", index)
    return self.reshape(-1)[index] if index.size and self.size else jnp.zeros(index.shape, self.dtype)


# -- embeddings ----------------------------------------------------------------------------------


@jax.custom_jvp
def _per_use(grad, uses):
    """A gradient divided by how often its row is used; PyTorch's second derivative divides nothing."""
    return grad / uses


_per_use.defjvp(lambda primals, tangents: (_per_use(*primals), tangents[0]))


def _embedding_grad(grad, indices, weight_aval, padding_idx, scale_grad_by_freq):
    rows, width = weight_aval.shape
    flat = indices.reshape(-1)

    def summed(grad):
        if scale_grad_by_freq:
            grad = _per_use(grad, jnp.zeros(rows, grad.dtype).at[flat].add(1)[flat][:, None])
        if padding_idx >= 0:
            grad = jnp.where((flat == padding_idx)[:, None], 0, grad)
        return jnp.zeros((rows, width), grad.dtype).at[flat].add(grad)

    return widely(summed, grad.reshape(flat.size, width))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _looked_up(weight, indices, padding_idx, scale_grad_by_freq):
    """Rows whose derivative in a function of jax is that of :func:`_embedding_grad`, too."""
    return weight[indices]


@_looked_up.defjvp
def _looked_up_jvp(padding_idx, scale_grad_by_freq, primals, tangents):
    weight, indices = primals
    change = tangents[0][indices]
    if scale_grad_by_freq:
        change = change / jnp.zeros(weight.shape[0], change.dtype).at[indices].add(1)[indices][..., None]
    if padding_idx >= 0:
        change = jnp.where((indices == padding_idx)[..., None], 0, change)
    return _looked_up(weight, indices, padding_idx, scale_grad_by_freq), change


def _check_rows(weight, indices, **_):
    n = weight.shape[0]
    if not indices.size:
        return False, None
    return jnp.any((indices >= n) | (indices < 0)), lambda: IndexError(
        f"index out of range in self: embedding() got indices from {int(np.min(indices))} to "
        f"{int(np.max(indices))} for a "
        f"table of {n} rows"
    )


@op("embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False)"
    " -> Tensor", variants="function", check=_check_rows, vjp={"weight": _embedding_grad},
    backward=("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
              "bool scale_grad_by_freq) -> Tensor", {"num_weights": lambda weight_aval: weight_aval.shape[0]}),
    saved="indices padding_idx scale_grad_by_freq sparse weight_sym_argsize_0")  # fmt: skip
def embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse):
    """The rows of ``weight`` at ``indices``; row ``padding_idx`` gets no gradient."""
    if indices.dtype.name not in ("int32", "int64"):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            "Long, Int; but got "
            f"torch.{from_np(indices.dtype).scalar_name}Tensor instead (while checking arguments for embedding)"
        )
    if weight.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but embedding() got shape {list(weight.shape)}")
    if sparse:
        raise Wanted("embedding(): sparse=True is not supported here")
    if not weight.shape[0]:
        return jnp.zeros((*indices.shape, weight.shape[1]), weight.dtype)
    if padding_idx < 0 and not scale_grad_by_freq:
        return weight[indices]
    return _looked_up(weight, indices, padding_idx, scale_grad_by_freq)


def _check_classes(self, num_classes):
    if not self.size:
        return False, None

    def error():
        if int(np.min(self)) < 0:
            return RuntimeError("Class values must be non-negative.")
        return RuntimeError(
            f"Class values must be smaller than num_classes. (one_hot: {int(np.max(self))} with {num_classes})"
        )

    return jnp.any((self < 0) | (self >= num_classes)), error


@op("one_hot(Tensor self, int num_classes=-1) -> Tensor", aten={"out": None}, variants="", check=_check_classes)
def one_hot(self, num_classes):
    return (self[..., None] == jnp.arange(num_classes)).astype(np.int64)


# -- masks ---------------------------------------------------------------------------------------


def demand_mask(name, mask):
    if mask.dtype != bool:
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {from_np(mask.dtype).name}")


def _filled(self, mask, value):
    demand_mask("masked_fill_", mask)
    shape = broadcast_shapes(self.shape, mask.shape)
    value = jnp.asarray(value)
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if jnp.iscomplexobj(value) and not jnp.iscomplexobj(self) and self.dtype != bool:
        name = {"float32": "float", "float64": "double", "int32": "int", "int64": "int64_t"}.get(
            self.dtype.name, self.dtype.name
        )
        raise RuntimeError(
            f"value cannot be converted to type {name} without overflow (masked_fill got a complex value)"
        )
    return jnp.broadcast_to(jnp.where(mask, cast(value, self.dtype), self), shape)


def _unmasked(grad, mask):
    return aten["masked_fill.Scalar"](grad, mask, 0)


@op("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", variants="inplace", vjp={"self": _unmasked},
    out="number part repeated")  # fmt: skip
def masked_fill_number(self, mask, value):
    return _filled(self, mask, value)


@op("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", variants="inplace",
    out="number part repeated", node="MaskedFillBackward1",
    check=lambda self, mask, value: _overflow.exceeds(self, value),
    vjp={"self": _unmasked, "value": lambda grad, mask: aten.sum(jnp.where(mask, grad, 0))})  # fmt: skip
def masked_fill_tensor(self, mask, value):
    return _filled(self, mask, value)


@op("_masked_select(Tensor self, Tensor mask, Tensor index) -> Tensor", variants="", node="MaskedSelectBackward",
    aten={"calls": lambda aten, self, mask, index: aten.masked_select(self, mask)},
    backward=_derivatives.masked_select, out="apart", saved="mask! self?")  # fmt: skip
def masked_select(self, mask, index):
    """Elements of ``self``, broadcast with ``mask``, at flat positions."""
    shape = broadcast_shapes(self.shape, mask.shape)
    return jnp.broadcast_to(self, shape).reshape(-1)[index] if index.size else jnp.zeros(0, self.dtype)


def _check_source(self, mask, source):
    count = jnp.sum(jnp.broadcast_to(mask, broadcast_shapes(self.shape, mask.shape)))
    return count > source.size, lambda: RuntimeError(
        "masked_scatter: expected self and source: Number of elements of source < number of ones in "
        f"mask ({source.size} "
        f"and {int(count)})"
    )


@op("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", variants="function method inplace", out="part",
    check=_check_source, saved="mask source_sym_sizes", backward=_derivatives.MASKED_SCATTER)  # fmt: skip
def masked_scatter(self, mask, source):
    """``input`` with the elements of ``source``, in order, where ``mask`` is true."""
    demand_mask("masked_scatter_", mask)
    if source.dtype != self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{from_np(self.dtype).scalar_name} and {from_np(source.dtype).scalar_name}"
        )
    shape = broadcast_shapes(self.shape, mask.shape)
    mask, self = jnp.broadcast_to(mask, shape), jnp.broadcast_to(self, shape)
    if not source.size:
        return self
    position = jnp.clip(jnp.cumsum(mask.reshape(-1)) - 1, 0, source.size - 1)
    return jnp.where(mask, source.reshape(-1)[position].reshape(shape), self)


@op("nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", vjp={})
def nonzero_static(self, size, fill_value):
    """The first ``size`` rows of ``nonzero()``; missing ones are filled."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer (got {size})")
    if not self.ndim:
        return jnp.zeros((size, 0), np.int64)
    if not self.size:
        return jnp.full((size, self.ndim), fill_value, np.int64)
    return jnp.stack(jnp.nonzero(self, size=size, fill_value=fill_value), 1).astype(np.int64)
