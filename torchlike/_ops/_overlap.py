"""Writes through views whose elements share memory."""

import jax.numpy as jnp
import numpy as np
from jax import lax


def _bits(x):
    return lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}") if jnp.issubdtype(x.dtype, jnp.floating) else x


def _differ(new, old):
    """Where the bits differ: of equal NaN, or zeros of either sign, too."""
    if jnp.iscomplexobj(new):
        return _differ(new.real, old.real) | _differ(new.imag, old.imag)
    return _bits(new) != _bits(old)


def put(value, new, read):
    """The value with ``new`` in the places that ``read`` shows; of elements that share one, what was changed."""
    n = value.size
    if not new.size or not n:
        return value
    where = read(lax.iota(np.int32 if n < 2**31 - 1 else np.int64, n).reshape(value.shape)).reshape(-1)
    shared = jnp.zeros(n, np.int32).at[where].add(1)[where] > 1
    kept = shared & ~_differ(new, read(value)).reshape(-1)
    flat = value.reshape(-1).at[jnp.where(kept, n, where)].set(new.reshape(-1), mode="drop")
    return flat.reshape(value.shape)
