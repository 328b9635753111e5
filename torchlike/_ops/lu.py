"""Linear algebra: LU factorizations and what is solved with them."""

import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._decl.op import op
from torchlike._ops import _composed
from torchlike._ops import _derivatives_matrices as _derivatives
from torchlike._ops._square import (
    demand_pivots,
    diagonal,
    first_bad,
    first_zero,
    lu_pivots,
    matrices,
    pivots_outside,
    system,
    transpose,
)


def _lu(name, a):
    matrices(name, a)
    k = min(a.shape[-2:])
    if not a.size:
        rows = jnp.broadcast_to(jnp.arange(a.shape[-2]), a.shape[:-1])
        return a, jnp.zeros((*a.shape[:-2], k), jnp.int32), rows
    return lax.linalg.lu(a)


def _must_pivot(name, pivot):
    if not pivot:
        raise NotImplementedError(f"{name}: pivot=False is not supported (in PyTorch it is for CUDA only)")


def _zero_pivot(name):
    """A ``check`` that no pivot is zero, of what PyTorch would divide by."""

    def check(A, pivot, check_errors=True):
        if not check_errors or not A.size:
            return None, None
        info = first_zero(lu_pivots(A))

        def error():
            batch, k = first_bad(info)
            return RuntimeError(
                f"torch.{name}: {batch}U[{k},{k}] is zero: lu_solve would divide by it. torch.linalg.lu and "
                "torch.linalg.lu_factor_ex factor the matrix all the same"
            )

        return jnp.any(info != 0), error

    return check


@op(
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    aten={"calls": _composed.lu_factor},
    node="LinalgLuFactorExBackward",
    variants="out",
    nondiff=(1,),
    check=_zero_pivot("linalg.lu_factor"),
    saved="LU! pivots! pivot ~A",
    backward=_derivatives.lu_factor,
    columns=(0,),
)
def lu_factor(A, pivot):
    """(LU, pivots): both triangular factors in one matrix, and the row exchanges, counted from 1.

    RuntimeError if an element of the diagonal of U is zero.

    >>> import torchlike as torch
    >>> torch.linalg.lu_factor(torch.tensor([[1., 2.], [4., 4.]])).pivots
    tensor([2, 2], dtype=torch.int32)
    """
    _must_pivot("linalg.lu_factor", pivot)
    factors, pivots, _ = _lu("torch.lu_factor", A)
    return factors, (pivots + 1).astype(jnp.int32)


@op(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False)"
    " -> (Tensor LU, Tensor pivots, Tensor info)",
    variants="out",
    nondiff=(1, 2),
    check=_zero_pivot("linalg.lu_factor_ex"),
    saved="LU! pivots! pivot ~A",
    backward=_derivatives.lu_factor,
    columns=(0,),
)
def lu_factor_ex(A, pivot, check_errors):
    """(LU, pivots, info): info is 0, or the place of the first zero pivot."""
    _must_pivot("linalg.lu_factor_ex", pivot)
    factors, pivots, _ = _lu("torch.lu_factor", A)
    return factors, (pivots + 1).astype(jnp.int32), first_zero(diagonal(factors))


def _triangles(factors):
    k = min(factors.shape[-2:])
    low = jnp.tril(factors[..., :, :k], -1) + jnp.eye(factors.shape[-2], k, dtype=factors.dtype)
    return low, jnp.triu(factors[..., :k, :])


@op("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", variants="out", nondiff=(0,),
    saved="P! L! U! pivot ~A", backward=_derivatives.lu)  # fmt: skip
def lu(A, pivot):
    """(P, L, U) with ``A = P @ L @ U``: a permutation, a lower and an upper triangular matrix.

    >>> import torchlike as torch
    >>> torch.linalg.lu(torch.tensor([[1., 2.], [4., 4.]])).U
    tensor([[4., 4.],
            [0., 1.]])
    """
    _must_pivot("linalg.lu", pivot)
    factors, _, order = _lu("linalg.lu", A)
    return (_permutation(order, A.dtype), *_triangles(factors))


def _permutation(order, dtype):
    """The P with ``P @ x`` putting row j of ``x`` at ``order[j]``."""
    n = order.shape[-1]
    return (jnp.arange(n)[:, None] == order[..., None, :]).astype(dtype)


def _order(pivots, n):
    """The row order that a sequence of exchanges (counted from 1) makes of n rows."""
    return lax.linalg.lu_pivots_to_permutation(pivots - 1, n)


@op("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True)"
    " -> (Tensor P, Tensor L, Tensor U)", variants="function out", nondiff=(0,), backward=_derivatives.lu_unpack,
    check=lambda LU_data, LU_pivots, unpack_data, unpack_pivots:
    pivots_outside("lu_unpack", LU_pivots, LU_data) if unpack_pivots else (None, None))  # fmt: skip
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """(P, L, U) of what ``torch.linalg.lu_factor`` gives; what is not unpacked is empty."""
    if LU_pivots.dtype != jnp.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, got "
            f"{LU_pivots.dtype}; it is returned by torch.linalg.lu_factor"
        )
    if unpack_pivots and (pivots := LU_pivots.shape[:-1]) != LU_data.shape[:-2]:
        raise RuntimeError(f"torch.lu_unpack: LU_pivots have the batch {list(pivots)}, LU_data {LU_data.shape[:-2]}")
    none = jnp.zeros((0,), LU_data.dtype)
    p = _permutation(_order(LU_pivots, LU_data.shape[-2]), LU_data.dtype) if unpack_pivots else none
    return (p, *_triangles(LU_data)) if unpack_data else (p, none, none)


@op(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor",
    variants="out",
    check=lambda LU, pivots, B, left, adjoint: pivots_outside("lu_solve", pivots, LU),
    saved="LU! adjoint left pivots! result! ~B",
    backward=_derivatives.LU_SOLVE,
    edges=lambda: (0, 2),
    columns=(0,),
    layout=result_layouts.solved,
)
def lu_solve(LU, pivots, B, left, adjoint):
    """The X with ``A @ X = B`` from the factors of A that ``torch.linalg.lu_factor`` gives.

    ``left=False``: ``X @ A = B``; ``adjoint=True``: the conjugate transpose of A in its place.

    >>> import torchlike as torch
    >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2., 0.], [0., 4.]]))
    >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[2.], [4.]]))
    tensor([[1.],
            [1.]])
    """
    name = "linalg.lu_solve"
    if pivots.dtype != jnp.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32, got {pivots.dtype}")
    matrices(name, B, "B")
    a, b = system(name, LU, B, left)
    if pivots.shape[-1:] != LU.shape[-1:]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix, {LU.shape[-1]}, got "
            f"pivots with shape {list(pivots.shape)}"
        )
    demand_pivots(name, "LU", LU, pivots)
    if not b.size:
        return b
    order = jnp.broadcast_to(_order(pivots, LU.shape[-1]), (*b.shape[:-2], LU.shape[-1]))
    if not left:  # X A = B is A^T X^T = B^T
        out = _lu_back(a, order, transpose(b), True, False) if not adjoint else _lu_plain(a, order, transpose(b), True)
        return transpose(out)
    return _lu_back(a, order, b, True, True) if adjoint else _lu_plain(a, order, b, False)


def _lu_plain(a, order, b, conjugate):
    """Solve with P L U (with its conjugate)."""
    a = jnp.conj(a) if conjugate and jnp.iscomplexobj(a) else a
    y = jnp.take_along_axis(b, order[..., None], -2)
    y = lax.linalg.triangular_solve(a, y, left_side=True, lower=True, unit_diagonal=True)
    return lax.linalg.triangular_solve(a, y, left_side=True, lower=False)


def _lu_back(a, order, b, trans, conjugate):
    """Solve with the (conjugate) transpose of P L U."""
    y = lax.linalg.triangular_solve(a, b, left_side=True, lower=False, transpose_a=trans, conjugate_a=conjugate)
    y = lax.linalg.triangular_solve(
        a, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=trans, conjugate_a=conjugate
    )
    return jnp.take_along_axis(y, jnp.argsort(order, -1)[..., None], -2)
