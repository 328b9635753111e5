"""Linear algebra: LDL factorizations of symmetric and Hermitian matrices, and what is solved with them.

After Bunch and Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems" (1977), in
LAPACK's format: exchanges are counted from 1, and negative for both columns of a block of two.
"""

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._ops import _composed_sums
from torchlike._ops._axes import type_name
from torchlike._ops._square import broadcast_batches, demand_pivots, pivots_outside, square

_ALPHA = (1 + 17**0.5) / 8


def _swapped(x, i, j):
    """``x`` with two rows exchanged."""
    rows = jnp.arange(x.shape[0])
    return x[jnp.where(rows == i, j, jnp.where(rows == j, i, rows))]


def _pivot(w, k):
    """(place of the pivot of column k, whether it is a block of two, whether there is none)."""
    n = w.shape[0]
    rows = jnp.arange(n)
    size = jnp.abs(w) if not jnp.iscomplexobj(w) else jnp.abs(jnp.real(w)) + jnp.abs(jnp.imag(w))  # as LAPACK
    here = size[k, k]
    column = jnp.where(rows > k, size[:, k], -1)
    far = jnp.argmax(column)
    largest = jnp.maximum(column[far], 0)
    row = jnp.max(jnp.where((rows >= k) & (rows != far), size[far], -1))
    none = (largest == 0) & ((here == 0) | jnp.isnan(here))
    plain = none | (here >= _ALPHA * largest) | (here * row >= _ALPHA * largest * largest)
    single = plain | (size[far, far] >= _ALPHA * row)
    return jnp.where(plain, k, far), ~single, none


def _factor_one(a, hermitian):
    n = a.shape[0]
    rows = jnp.arange(n)
    turned = jnp.conj if hermitian else (lambda x: x)
    w = jnp.tril(a) + turned(jnp.tril(a, -1)).T
    w = jnp.where(jnp.eye(n, dtype=bool), jnp.real(w).astype(w.dtype), w) if hermitian else w

    def step(state):
        k, w, pivots, info = state
        place, double, none = _pivot(w, k)
        last = k + double
        moved = _swapped(_swapped(w, last, place).T, last, place).T
        w = jnp.where((rows >= k) & (rows >= k)[:, None], moved, w)
        after = rows > last
        first, second = jnp.where(after, w[:, k], 0), jnp.where(after & double, w[:, jnp.minimum(k + 1, n - 1)], 0)
        corner = w[jnp.minimum(k + 1, n - 1), k]
        d0, d1, off = w[k, k], jnp.where(double, w[last, last], 1), jnp.where(double, corner, 0)
        det = d0 * d1 - off * turned(off)
        det = jnp.where(det == 0, 1, det)
        l0, l1 = (first * d1 - second * off) / det, (second * d0 - first * turned(off)) / det
        update = jnp.outer(first, turned(l0)) + jnp.outer(second, turned(l1))
        w = jnp.where(none, w, w - jnp.where(after & after[:, None], update, 0))
        w = jnp.where(after[:, None] & (rows == k) & ~none, l0[:, None], w)
        w = jnp.where(after[:, None] & (rows == k + 1) & double, l1[:, None], w)
        taken = (rows == k) | (double & (rows == k + 1))
        pivots = jnp.where(taken, jnp.where(double, -place - 1, place + 1), pivots)
        return k + 1 + double, w, pivots, jnp.where((info == 0) & none, k + 1, info)

    start = jnp.asarray(0), w, jnp.zeros(n, rows.dtype), jnp.asarray(0, rows.dtype)
    _, w, pivots, info = lax.while_loop(lambda state: state[0] < n, step, start)
    return jnp.tril(w), pivots.astype(jnp.int32), info.astype(jnp.int32)


def _over_batches(function, *arrays, dims):
    batch = arrays[0].shape[: arrays[0].ndim - dims[0]]
    flat = [x.reshape(-1, *x.shape[x.ndim - d :]) for x, d in zip(arrays, dims, strict=True)]
    return jax.tree.map(lambda x: x.reshape(batch + x.shape[1:]), jax.vmap(function)(*flat))


def _factored(a, hermitian):
    if a.dtype.itemsize < 4 and jnp.issubdtype(a.dtype, jnp.floating):
        raise NotImplementedError(f"\"ldl_factor_kernel_cpu\" not implemented for '{from_np(a.dtype).scalar_name}'")
    square("torch.linalg.ldl_factor_ex", a)
    if not a.size:
        return a, jnp.zeros(a.shape[:-1], jnp.int32), jnp.zeros(a.shape[:-2], jnp.int32)
    return _over_batches(lambda x: _factor_one(x, hermitian and jnp.iscomplexobj(x)), a, dims=(2,))


def _singular(name):
    def check(**arguments):
        info = _factored(next(iter(arguments.values())), arguments["hermitian"])[2]
        wanted = arguments.get("check_errors", True)
        return wanted & jnp.any(info != 0), RuntimeError(
            f"torch.linalg.{name}: the matrix is singular: a block of D is zero; ldl_factor_ex tells which in info"
        )

    return check


def _undefined(name):
    return rules.undefined(RuntimeError(f"derivative for aten::{name} is not implemented"))


@op(
    "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    aten={"out": "out", "calls": _composed_sums.ldl_factor},
    variants="out",
    nondiff=(1,),
    check=_singular("ldl_factor"),
    vjp={"self": _undefined("linalg_ldl_factor_ex")},
    saved="",
    columns=(0,),
)
def ldl_factor(self, hermitian):
    """(LD, pivots): both factors of ``A = L @ D @ L.mT`` in one matrix, and the exchanges; only a triangle is read.

    ``hermitian``: ``A = L @ D @ L.mH``. D has blocks of one and two; RuntimeError where one is zero.

    >>> import torchlike as torch
    >>> torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    return _factored(self, hermitian)[:2]


@op(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False)"
    " -> (Tensor LD, Tensor pivots, Tensor info)",
    variants="out",
    nondiff=(1, 2),
    check=_singular("ldl_factor_ex"),
    vjp={"self": _undefined("linalg_ldl_factor_ex")},
    saved="",
    columns=(0,),
)
def ldl_factor_ex(self, hermitian, check_errors):
    """(LD, pivots, info): info is 0, or the place of the first zero block of D."""
    return _factored(self, hermitian)


def _solve_one(factors, pivots, b, hermitian):
    n = factors.shape[0]
    rows = jnp.arange(n)
    turned = jnp.conj if hermitian else (lambda x: x)
    pivots = pivots.astype(rows.dtype)
    places = jnp.abs(pivots) - 1
    doubles = jnp.cumsum(pivots < 0) % 2 == 1  # the first columns of blocks of two
    starts = (pivots > 0) | doubles

    def down(k, b):
        double = doubles[k]
        last = jnp.minimum(k + double, n - 1)
        next_ = jnp.minimum(k + 1, n - 1)
        moved = _swapped(b, last, places[k])
        first, second = (jnp.where(rows > last, factors[:, i], 0) for i in (k, next_))
        moved = moved - jnp.outer(first, moved[k]) - jnp.outer(jnp.where(double, second, 0), moved[next_])
        d0, d1 = factors[k, k], jnp.where(double, factors[next_, next_], 1)
        off = jnp.where(double, factors[next_, k], 0)
        det = d0 * d1 - off * turned(off)
        x0 = (moved[k] * d1 - turned(off) * moved[next_]) / det
        x1 = (moved[next_] * d0 - off * moved[k]) / det
        moved = jnp.where((rows == k)[:, None], x0, jnp.where(((rows == k + 1) & double)[:, None], x1, moved))
        return jnp.where(starts[k], moved, b)

    def up(i, b):
        k = n - 1 - i
        double = doubles[k]
        last, next_ = jnp.minimum(k + double, n - 1), jnp.minimum(k + 1, n - 1)
        first, second = (jnp.where(rows > last, turned(factors[:, j]), 0) for j in (k, next_))
        moved = jnp.where((rows == k)[:, None], b - first @ b, b)
        moved = jnp.where(((rows == k + 1) & double)[:, None], moved - second @ b, moved)
        return jnp.where(starts[k], _swapped(moved, last, places[k]), b)

    return lax.fori_loop(0, n, up, lax.fori_loop(0, n, down, b))


@op(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    variants="out",
    check=lambda LD, pivots, B, hermitian: pivots_outside("ldl_solve", jnp.abs(pivots), LD),
    vjp={"LD, B": _undefined("linalg_ldl_solve")},
    saved="",
    columns=(0,),
)
def ldl_solve(LD, pivots, B, hermitian):
    """The X with ``A @ X = B`` from the factors of A that ``torch.linalg.ldl_factor`` gives.

    >>> import torchlike as torch
    >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[4., 2.], [2., 3.]]))
    >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[6.], [5.]]))
    tensor([[1.],
            [1.]])
    """
    name = "torch.linalg.ldl_solve"
    square(name, LD)
    if B.ndim < 2:
        raise IndexError(f"{name}: B must have at least 2 dimensions, got {B.ndim}")
    if LD.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-1]} by {LD.shape[-1]} but each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    demand_pivots(name, "LD", LD, pivots)
    if not jnp.issubdtype(pivots.dtype, jnp.integer):
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {type_name(pivots)}")
    if LD.dtype != B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {type_name(B)} and A of type "
            f"{type_name(LD)} instead."
        )
    factors, b = broadcast_batches(LD, B)
    if not b.size:
        return b
    order = jnp.broadcast_to(pivots, factors.shape[:-1])
    complex_ = hermitian and jnp.iscomplexobj(factors)
    return _over_batches(lambda f, p, x: _solve_one(f, p, x, complex_), factors, order, b, dims=(2, 1, 2))
