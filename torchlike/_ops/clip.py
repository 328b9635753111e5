"""Norms of all gradients together, and scaling by them."""

import jax.numpy as jnp

from torchlike._ops.distance import vector_norm


def total_norm(arrays, *, ord):
    """The norm of the norms of the arrays: that of all elements together, except for order 0."""
    norms = [vector_norm.kernel(a, ord, None, False, None) for a in arrays]
    dtype = jnp.result_type(*(n.dtype for n in norms))
    return vector_norm.kernel(jnp.stack([n.astype(dtype) for n in norms]), ord, None, False, None)


def scaled(arrays, most, norm):
    """The arrays times ``min(1, most / (norm + 1e-6))``."""
    factor = jnp.asarray(most).astype(norm.dtype) / (norm + 1e-6)
    factor = jnp.where(factor > 1, 1, factor)
    return [a * factor.astype(a.real.dtype) for a in arrays]


def clipped(arrays, most, *, ord):
    """(:func:`total_norm`, :func:`scaled`)."""
    norm = total_norm(arrays, ord=ord)
    return norm, scaled(arrays, most, norm)


def limited(arrays, most):
    """Each element kept within +-most."""
    limits = [jnp.asarray(most).astype(a.dtype) for a in arrays]
    return [jnp.minimum(jnp.maximum(a, -m), m) for a, m in zip(arrays, limits, strict=True)]
