"""Reading and writing at index tensors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from torchlike._base.dims import broadcast_shapes
from torchlike._base.dtypes import from_np
from torchlike._decl.op import op


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


@op("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", variants="", node="IndexBackward", check=_check_indices)
def index(self, indices):
    _common(indices)
    if any(n == 0 for n, i in zip(self.shape, indices, strict=False) if i is not None):
        shape = jax.eval_shape(lambda x, *i: x[_at(i)], jax.ShapeDtypeStruct(self.shape, self.dtype), *indices).shape
        return jnp.zeros(shape, self.dtype)
    return self[_at(indices)]


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
    _common(indices)
    like = jax.ShapeDtypeStruct(self.shape, self.dtype)
    shape = jax.eval_shape(lambda x, *i: x[_at(i)], like, *indices).shape
    lead = values.ndim - len(shape)
    if lead > 0 and all(n == 1 for n in values.shape[:lead]):
        values = values.reshape(values.shape[lead:])
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


@op("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    variants="inplace", node="IndexPutBackward", check=_check_indices)  # fmt: skip
def index_put(self, indices, values, accumulate):
    if values.dtype != self.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{from_np(self.dtype).scalar_name} for the destination and {from_np(values.dtype).scalar_name} for the source."
        )
    values = _placed(self, values, indices)
    if not self.size or not values.size:
        return self
    if not accumulate:
        return _put(self, values, list(indices))
    if self.dtype == bool:
        return self.at[_at(indices)].max(values)
    return self.at[_at(indices)].add(values)


def _spread(mask, dim, ndim):
    """The mask as booleans, with dimensions of size 1 before and after its own."""
    return (mask != 0).reshape((1,) * dim + mask.shape + (1,) * (ndim - dim - mask.ndim))


@op("_index_mask(Tensor self, Tensor mask, Tensor values, int dim) -> Tensor", variants="inplace",
    node="IndexPutBackward", vjp={
        "self": lambda grad, mask, dim: jnp.where(_spread(mask, dim, grad.ndim), 0, grad),
        "values": lambda grad, mask, dim, values_aval: jnp.sum(
            jnp.where(_spread(mask, dim, grad.ndim), grad, 0)).reshape(values_aval.shape),
    })  # fmt: skip
def index_mask(self, mask, values, dim):
    """``self`` with one value where ``mask``, which covers the dimensions from ``dim``, is true."""
    return jnp.where(_spread(mask, dim, self.ndim), values.reshape(()), self)
