"""The derivative of the determinant: the matrix of cofactors, exact for singular matrices too.

With ``A = U diag(s) V^H`` and ``X' = U^H X V`` the determinant of ``A + X`` is ``det(U) det(V^H)`` times that
of ``diag(s) + X'``, a polynomial in ``X'`` whose coefficients are products of singular values.
"""

import jax
import jax.numpy as jnp
from jax import lax


def cofactors(a):
    """``det(A) inv(A)^T`` of square matrices, with the value that it tends to where there is no inverse."""
    if a.shape[-1] == 1:
        return jnp.ones_like(a)
    return lax.cond(_regular(a), _by_inverse, _by_singular_values, a)


def _regular(a):
    """Whether no pivot of any of the matrices is lost to rounding."""
    pivots = jnp.abs(jnp.diagonal(lax.linalg.lu(a)[0], axis1=-2, axis2=-1))
    least = pivots.shape[-1] * jnp.finfo(a.dtype).eps * jnp.max(pivots, -1)
    return jnp.all(jnp.min(pivots, -1) > least)


def _by_inverse(a):
    return jnp.linalg.det(a)[..., None, None] * jnp.swapaxes(jnp.linalg.inv(a), -1, -2)


def _factors(a):
    """(det(U V^H), conj(U), s, conj(V^H)) of the singular value decomposition."""
    u, s, vh = jnp.linalg.svd(a)
    return (jnp.linalg.det(u) * jnp.linalg.det(vh))[..., None, None], jnp.conj(u), s, jnp.conj(vh)


def _products(s):
    """Before each value the product of those in front, and after it of those behind."""
    one = jnp.ones_like(s[..., :1])
    before = jnp.cumprod(jnp.concatenate([one, s[..., :-1]], -1), -1)
    behind = jnp.flip(jnp.cumprod(jnp.concatenate([one, jnp.flip(s[..., 1:], -1)], -1), -1), -1)
    return before, behind


def _pair_products(s):
    """[i, j]: the product of all values but the i-th and the j-th; 0 on the diagonal."""
    before, behind = _products(s)
    n = s.shape[-1]
    row, column = lax.broadcasted_iota(int, (n, n), 0), lax.broadcasted_iota(int, (n, n), 1)
    between = jnp.cumprod(jnp.where(column > row, s[..., None, :], 1), -1)
    between = jnp.concatenate([jnp.ones_like(between[..., :1]), between[..., :-1]], -1)
    upper = jnp.where(column > row, before[..., :, None] * between * behind[..., None, :], 0)
    return upper + jnp.swapaxes(upper, -1, -2)


@jax.custom_jvp
def _by_singular_values(a):
    phase, u, s, vh = _factors(a)
    before, behind = _products(s)
    return phase * ((u * (before * behind)[..., None, :]) @ vh)


@_by_singular_values.defjvp
def _by_singular_values_jvp(primals, tangents):
    phase, u, s, vh = _factors(_differentiated_twice(primals[0]))
    moved = jnp.swapaxes(u, -1, -2) @ tangents[0] @ jnp.swapaxes(vh, -1, -2)
    pairs = _pair_products(s)
    trace = jnp.einsum("...ij,...jj->...i", pairs, moved)
    change = jnp.eye(s.shape[-1], dtype=moved.dtype) * trace[..., None] - pairs * jnp.swapaxes(moved, -1, -2)
    return _by_singular_values(primals[0]), phase * (u @ change @ vh)


@jax.custom_jvp
def _differentiated_twice(a):
    """``a``; a third derivative, for which the rule above holds the factors fixed, is NaN rather than wrong."""
    return a


_differentiated_twice.defjvps(lambda da, result, a: da * jnp.nan)
