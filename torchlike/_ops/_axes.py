"""Which axes a reduction runs over, and how its gradient is spread over them again."""

import jax.numpy as jnp
from jax import lax

from torchlike._base.dims import wrap_dim, wrap_dims
from torchlike._base.dtypes import from_np
from torchlike._decl.words import aten
from torchlike._ops.shape import cast as cast_to


def axes_of(dim, ndim):
    """The axes meant by ``dim``: all of them for None and for an empty list."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(wrap_dims((dim,) if isinstance(dim, int) else dim, ndim)) if ndim else _scalar_axes(dim)


def _scalar_axes(dim):
    wrap_dims((dim,) if isinstance(dim, int) else dim, 0)
    return ()


def axis_of(dim, ndim):
    """One wrapped axis; a 0-dim tensor takes 0 and -1."""
    return wrap_dim(dim, ndim)


def reduced_axis(dim, ndim):
    """One wrapped axis, of a reduction that PyTorch refuses for more than 64 dimensions."""
    return wrap_dims((dim,), ndim)[0]


def spread(x, axes, keepdim):
    """A reduced value with its axes back as ones, so that it broadcasts against the input."""
    for axis in () if keepdim else sorted(axes):
        x = aten.unsqueeze(x, axis)
    return x


def count(shape, axes):
    """How many elements are reduced to one."""
    n = 1
    for a in axes:
        n *= shape[a]
    return n


def cast(x, dtype):
    """``x`` as a torch dtype (None: as it is)."""
    return x if dtype is None or x.dtype == dtype.np else cast_to(x, dtype.np)


def type_name(x):
    """The C-style name that PyTorch's messages use for a dtype: Float, Long, ComplexFloat."""
    return from_np(x.dtype).scalar_name


def is_floating(x):
    """Whether the values are real or complex floating point."""
    return jnp.issubdtype(x.dtype, jnp.inexact)


def refuse(name, x, *kinds, hint="cast it with .to(dtype)"):
    """NotImplementedError if the dtype of ``x`` is of one of the numpy ``kinds``."""
    kind = "f" if jnp.issubdtype(x.dtype, jnp.floating) else x.dtype.kind
    if kind in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{type_name(x)}' (dtype {from_np(x.dtype)}); {hint}")


def put_along(shape, axis, indices, values, unique=True):
    """Zeros with ``values`` added at ``indices`` along ``axis``, the other places in order."""
    at = tuple(lax.broadcasted_iota(indices.dtype, indices.shape, i) for i in range(len(shape)))
    at = (*at[:axis], indices, *at[axis + 1 :])
    return jnp.zeros(shape, values.dtype).at[at].add(values, mode="promise_in_bounds", unique_indices=unique)
