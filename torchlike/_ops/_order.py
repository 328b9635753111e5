"""Sorting with the places of elements.

XLA's CPU compiler calls a comparison for each two of several arrays that it sorts, and sorts one array of integers four
times as fast. So there the bits of an element, in an order of integers, and its place are one number of 64 bits.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._ops._axes import is_floating
from torchlike._ops._elementwise import is_large

_MANY = 1 << 14  # elements; the program for fewer is the shorter one, which compiles in half of the time
_LARGEST = 0x7FFFFFFF


def packs(x, axis):
    """Whether elements and places of ``x`` are sorted as one number each, on CPUs."""
    return is_large(x, _MANY) and x.dtype.itemsize <= 4 and x.shape[axis] < 2**30


def ranked(x, axis, descending=False):
    """(values, places) in order along ``axis``: NaN is largest, and equal elements are in the order of places."""
    if packs(x, axis):
        return lax.platform_dependent(
            x, cpu=lambda x: _packed(x, axis, descending), default=lambda x: _pairs(x, axis, descending)
        )
    return _pairs(x, axis, descending)


def _pairs(x, axis, descending):
    places = lax.broadcasted_iota(jnp.int64, x.shape, axis)
    if not descending:
        return lax.sort((x, places), dimension=axis, num_keys=1, is_stable=True)
    # Reversed before and after, so that equal elements keep their order.
    pair = (lax.rev(x, (axis,)), lax.rev(places, (axis,)))
    return tuple(lax.rev(v, (axis,)) for v in lax.sort(pair, dimension=axis, num_keys=1, is_stable=True))


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _packed(x, axis, descending):
    key, negative_zero = _key(jnp.moveaxis(x, axis, -1))
    key = ~key if descending else key
    place = lax.broadcasted_iota(jnp.int64, key.shape, key.ndim - 1) << 1 | negative_zero
    order = lax.sort(key.astype(jnp.int64) << 32 | place, dimension=key.ndim - 1, is_stable=False)
    order = jnp.moveaxis(order, -1, axis)
    key = (order >> 32).astype(jnp.int32)
    return _unkeyed(~key if descending else key, order & 1 == 1, x.dtype), (order & 0xFFFFFFFF) >> 1


@_packed.defjvp
def _packed_jvp(axis, descending, values, dots):
    ordered, places = _packed(*values, axis, descending)
    return (ordered, places), (jnp.take_along_axis(dots[0], places, axis), jnp.zeros(places.shape, jax.dtypes.float0))


def _key(x):
    """(integers of 32 bits that are in the order of the elements, which of these are -0, a key of which 0 has)."""
    if not is_floating(x):
        if x.dtype == jnp.uint32:
            return lax.bitcast_convert_type(x ^ 0x80000000, jnp.int32), 0
        return x.astype(jnp.int32), 0
    bits = lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)
    magnitude = bits & _LARGEST
    key = jnp.where(bits < 0, -magnitude, magnitude)
    return jnp.where(magnitude > 0x7F800000, _LARGEST, key), (bits != 0) & (magnitude == 0)


def _unkeyed(key, negative_zero, dtype):
    """The elements of such keys."""
    if dtype == jnp.uint32:
        return lax.bitcast_convert_type(key, jnp.uint32) ^ 0x80000000
    if not jnp.issubdtype(dtype, jnp.floating):
        return key.astype(dtype)
    negative = jnp.int32(-(2**31))
    bits = jnp.where(key < 0, -key | negative, jnp.where(negative_zero, negative, key))
    return lax.bitcast_convert_type(bits, jnp.float32).astype(dtype)
