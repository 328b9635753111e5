"""The Cholesky factor and its derivatives: backwards of a Hermitian matrix, forwards of what it is given."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._ops._square import adjoint, mm


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


def cholesky_vjp(grad, low, upper):
    """Symmetric, as for a function of Hermitian matrices. After Murray, arXiv:1602.07527, section 2.

    Imaginary parts of the diagonal, where L has none, go on as they are, as in PyTorch.
    """
    if upper:
        grad, low = adjoint(grad), adjoint(low)
    inner = jnp.tril(mm(adjoint(low), grad))  # a NaN of what L has no part of is one of the whole, as in PyTorch
    inner = 0.5 * (inner + adjoint(jnp.tril(inner, -1)))
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
