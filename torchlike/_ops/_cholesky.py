"""The Cholesky factor and its derivatives: backwards of a Hermitian matrix, forwards of what it is given."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._decl.words import spelled
from torchlike._ops._square import adjoint, diagonal, mm


def lower(x):
    """The Hermitian matrix that the lower triangle stands for."""
    return jnp.tril(x) + adjoint(jnp.tril(x, -1))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def cholesky_factor(x, upper):
    """L with ``L @ L.mH = A``, of the lower triangle of A; ``upper``: L.mH, of the upper one."""
    if not x.size:
        return x
    low = lax.linalg.cholesky(lower(adjoint(x) if upper else x), symmetrize_input=False)
    return adjoint(low) if upper else low


@cholesky_factor.defjvp
def _derivative(upper, values, dots):
    """For derivatives of derivatives, which go backwards mostly: the adjoint of :func:`cholesky_vjp`."""
    low = cholesky_factor(*values, upper)
    return low, cholesky_jvp(0.5 * (dots[0] + adjoint(dots[0])), low, upper)


def _tril(x, k=0):
    return spelled("tril", jnp.tril, x, k)


def cholesky_vjp(grad, low, upper):
    """Symmetric, as for a function of Hermitian matrices. After Murray, arXiv:1602.07527, section 2.

    Imaginary parts of the diagonal, where L has none, go on as they are, as in PyTorch.
    """
    if upper:
        grad, low = adjoint(grad), adjoint(low)
    inner = _tril(mm(adjoint(low), grad))  # a NaN of what L has no part of is one of the whole, as in PyTorch
    inner = 0.5 * (inner + adjoint(_tril(inner, -1)))
    left = lax.linalg.triangular_solve(low, inner, left_side=True, lower=True, conjugate_a=True, transpose_a=True)
    return lax.linalg.triangular_solve(low, left, left_side=False, lower=True)


def cholesky_jvp(dot, low, upper):
    """Of the whole tangent, as it is, where the gradient is symmetric. After Murray, section 3.1."""
    if not dot.size:
        return dot
    low = adjoint(low) if upper else low
    half = lax.linalg.triangular_solve(low, dot, left_side=True, lower=True)
    inner = jnp.tril(
        lax.linalg.triangular_solve(low, half, left_side=False, lower=True, conjugate_a=True, transpose_a=True)
    )
    found = mm(low, inner - 0.5 * jnp.where(jnp.eye(inner.shape[-1], dtype=bool), inner, 0))
    return adjoint(found) if upper else found


def reached(x, low):
    """(factor, order) of each matrix, whose ``low`` is NaN where a leading minor is not positive: of the first such.

    The order, int32, is 0 where all are positive. Otherwise the factor is what LAPACK leaves, which computes up to 100
    rows column by column: columns before that minor's, its pivot, and from there on the matrix. In larger ones it has
    computed some of those, too.
    """
    orders = jnp.zeros(x.shape[:-2], jnp.int32)
    if not x.size:
        return low, orders
    bad, n = jnp.any(jnp.isnan(jnp.real(diagonal(low))), -1), x.shape[-1]

    def search():
        def step(k, state):
            rest, factor, order = state  # Gaussian elimination without pivoting: a pivot is a ratio of minors
            pivot = jnp.real(lax.dynamic_index_in_dim(diagonal(rest), k, -1, keepdims=False))
            column = lax.dynamic_index_in_dim(rest, k, -1, keepdims=False)
            row = lax.dynamic_index_in_dim(rest, k, -2, keepdims=False)
            fine = pivot > 0
            safe = jnp.where(fine, pivot, 1)[..., None]
            places = jnp.arange(n)
            known = lax.dynamic_index_in_dim(factor, k, -1, keepdims=False)
            found = jnp.where(fine[..., None], column / jnp.sqrt(safe).astype(x.dtype), known)
            found = jnp.where((places == k) & ~fine[..., None], pivot[..., None].astype(x.dtype), found)
            found = jnp.where((order == 0)[..., None], found, known)
            factor = lax.dynamic_update_index_in_dim(factor, found, k, -1)
            order = jnp.where((order == 0) & ~fine, k + 1, order)
            return rest - column[..., :, None] * row[..., None, :] / safe[..., None], factor, order

        _, factor, order = lax.fori_loop(0, n, step, (lower(x), lower(x), orders))
        # the elimination rounds otherwise than the factorization, which alone says whether it failed
        order = jnp.where(bad, jnp.where(order == 0, n, order), 0).astype(jnp.int32)
        return jnp.where(bad[..., None, None], jnp.tril(factor), low), order

    return lax.cond(jnp.any(bad), search, lambda: (low, orders))
