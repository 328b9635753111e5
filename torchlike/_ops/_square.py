"""Checks that the operators of linear algebra share, and small helpers on batches of matrices."""

import math

import jax.numpy as jnp
from jax import lax

from torchlike._base.dims import broadcast_shapes
from torchlike._decl.naming import naming
from torchlike._decl.words import aten, spelled
from torchlike._ops._axes import is_floating, type_name
from torchlike._ops.matmul import precision


class _LinAlgError(RuntimeError):
    """A matrix that an operation of linear algebra cannot deal with: singular, not positive-definite, not "
    "finite."""


def matrices(name, x, what="A", low=False):
    """RuntimeError unless ``x`` holds matrices of a floating dtype that LAPACK knows; with ``low``, of any."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {what} must have at least 2 dimensions, got {x.ndim}.")
    floating(name, x, low)


def demand_pivots(name, what, factors, pivots):
    """RuntimeError unless there is a pivot for each row of the matrices ``factors``."""
    if pivots.shape != factors.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected {what}.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead of {list(factors.shape[:-1])}"
        )


def demand_tolerances(name, self, **tolerances):
    """RuntimeError unless the tolerances are real, and one for each matrix or for all."""
    for which, x in tolerances.items():
        if x is None:
            continue
        if jnp.iscomplexobj(x):
            raise RuntimeError(
                f"torch.{name}: {which} tensor of complex type is not supported. Got {type_name(x)}; use its .real"
            )
        broadcast_shapes(jnp.shape(x), self.shape[:-2])


# Where PyTorch refuses 16-bit floats, and in the second table integers, by the name of a kernel that has none of them.
_OF_INTEGERS = {
    "cholesky": "cholesky_cpu", "linalg.eigh": "linalg_eigh_cpu", "linalg.lu": "lu_cpu", "torch.lu_factor": "lu_cpu",
    "linalg.solve_triangular": "triangular_solve_cpu", "cholesky_inverse": "cholesky_inverse_out_cpu",
    "cholesky_solve": "cholesky_solve_cpu", "torch.linalg.householder_product": "orgqr_cpu",
    "triangular_solve": "triangular_solve_cpu",
}  # fmt: skip
_OF_HALVES = {
    "linalg.cholesky": "cholesky_cpu", "linalg.cholesky_ex": "cholesky_cpu", "linalg.eig": "linalg_eig_out_cpu",
    "linalg.qr": "geqrf_cpu", "linalg.svd": "linalg_svd_cpu", "linalg.det": "lu_cpu", "linalg.solve": "lu_cpu",
    **_OF_INTEGERS,
}  # fmt: skip


def floating(name, x, low=False):
    """An error unless the dtype is float32, float64 or complex, or with ``low`` any floating one."""
    halves = not low and is_floating(x) and jnp.real(x).dtype not in (jnp.float32, jnp.float64)
    kernel = _OF_HALVES.get(name) if halves else None if is_floating(x) else _OF_INTEGERS.get(name)
    if kernel is not None:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{type_name(x)}' ({name}; use .float())")
    if not is_floating(x):
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(x)}; use .float()"
        )
    if halves:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {type_name(x)}; use .float()")


def square(name, x, what="A", low=False):
    """As ``matrices``, and they must be square."""
    matrices(name, x, what, low)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{name}: {what} must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )


def same_dtype(name, a, b, first="A", second="B"):
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected {first} and {second} to have the same dtype, but found {first} of type "
            f"{type_name(a)} "
            f"and {second} of type {type_name(b)} instead"
        )


def mm(a, b):
    """The product of batches of matrices."""
    if naming() and max(a.ndim, b.ndim) > 2:
        return _stacks(a, b)
    return jnp.matmul(a, b, precision=precision())


def _stacks(a, b):
    """As :func:`mm`, in the words of PyTorch."""
    batch = [*broadcast_shapes(a.shape[:-2], b.shape[:-2])]
    a, b = (aten.view(aten.expand(x, [*batch, *x.shape[-2:]]), [math.prod(batch), *x.shape[-2:]]) for x in (a, b))
    return aten._unsafe_view(aten.bmm(a, b), [*batch, a.shape[-2], b.shape[-1]])


def transpose(x):
    return spelled("transpose.int", jnp.swapaxes, x, -2, -1)


def adjoint(x):
    """The conjugate transpose."""
    return jnp.conj(transpose(x)) if jnp.iscomplexobj(x) else transpose(x)


def diagonal(x):
    return jnp.diagonal(x, axis1=-2, axis2=-1)


def eye_like(x):
    """The identity of the last dimension of ``x``, in its dtype."""
    return jnp.eye(x.shape[-1], dtype=x.dtype)


def broadcast_batches(a, b):
    """Both with the same leading dimensions."""
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.broadcast_to(a, batch + a.shape[-2:]), jnp.broadcast_to(b, batch + b.shape[-2:])


def first_zero(pivots):
    """For each batch the 1-based place of the first zero, 0 if there is none; int32."""
    if not pivots.shape[-1]:
        return jnp.zeros(pivots.shape[:-1], jnp.int32)
    zero = pivots == 0
    return jnp.where(jnp.any(zero, -1), jnp.argmax(zero, -1) + 1, 0).astype(jnp.int32)


def lu_pivots(a):
    """The diagonal of U in the pivoted LU factorization; zero where the matrix is singular."""
    return diagonal(lax.linalg.lu(a)[0])


def pivots_outside(name, pivots, factors):
    """For a ``check``: whether a pivot, counted from 1, names no row of the factors."""
    n = factors.shape[-2]
    if not pivots.size:
        return None, None
    return jnp.any((pivots < 1) | (pivots > n)), RuntimeError(
        f"Pivots given to {name} must all be greater or equal to 1, and smaller or equal to the number of rows, {n}: "
        "those that the factorization gave"
    )


def first_bad(info):
    """(batch prefix for a message, value) of the first non-zero in an array of infos."""
    flat = info.reshape(-1)
    i = int(jnp.argmax(flat != 0))
    return (f"(Batch element {i}): " if info.ndim else ""), int(flat[i])


def is_vector(a, b):
    """Whether B holds vectors: one dimension, or the batch of A with one dimension more."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])


def system(name, a, b, left, vector=False):
    same_dtype(name, a, b)
    square(name, a)
    if not b.ndim:
        raise RuntimeError(f"{name}: The input tensor B must have at least 1 dimension, got 0.")
    if vector:
        if not left:
            raise RuntimeError(f"{name}: Vector broadcasting of the left hand side is not supported for left=False.")
        b = b[..., None]
    n = b.shape[-2 if left else -1]
    if n != a.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and "
            f"{b.shape[-2]}x{b.shape[-1]})"
        )
    return broadcast_batches(a, b)


def not_finite(name):
    """The check of matrices that must be finite."""

    def check(**arguments):
        a = next(iter(arguments.values()))
        bad = ~jnp.all(jnp.isfinite(a), (-2, -1))

        def error():
            batch, _ = first_bad(bad)
            return _LinAlgError(
                f"{name}: {batch}The algorithm failed to converge because the input matrix contained non-finite values."
            )

        return jnp.any(bad), error

    return check


def not_converged(name, values, vectors):
    """The check of eigenvalues and their vectors, which are all NaN where LAPACK has not found them."""
    lost = jnp.all(jnp.isnan(values), -1) & jnp.all(jnp.isnan(vectors), (-2, -1))

    def error():
        batch, _ = first_bad(lost)
        return _LinAlgError(
            f"{name}: {batch}The algorithm failed to converge because the input matrix is ill-conditioned or has too "
            "many repeated eigenvalues."
        )

    return (jnp.any(lost) if values.shape[-1] > 2 else jnp.zeros((), bool)), error
