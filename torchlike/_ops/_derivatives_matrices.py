"""As ``_derivatives``, of factorizations, determinants, inverses and what is solved with factors."""

import jax.numpy as jnp
import numpy as np

from torchlike._decl.words import aten, unseen
from torchlike._ops._derivatives import shaped
from torchlike._ops._elementwise import conj


def adjoint(x):
    return conj(aten["transpose.int"](x, -2, -1))


def product(a, b):
    """``a @ b`` of matrices, or of stacks of them."""
    if a.ndim == b.ndim == 2:
        return aten.mm(a, b)
    batch = [*np.broadcast_shapes(a.shape[:-2], b.shape[:-2])]
    a, b = (aten.view(aten.expand(t, [*batch, *t.shape[-2:]]), [int(np.prod(batch)), *t.shape[-2:]]) for t in (a, b))
    return aten._unsafe_view(aten.bmm(a, b), [*batch, a.shape[-2], b.shape[-1]])


def _narrow(x, dim, start, end):
    return aten["slice.Tensor"](x, dim, start, end)


def _differences(values):
    """The matrix of ``values[j] - values[i]``, with ones in its diagonal."""
    rows = aten.unsqueeze(values, -1)
    gaps = aten.unsqueeze(values, -2) - rows
    aten["fill_.Scalar"](aten.diagonal(gaps, 0, -2, -1), 1)
    return gaps


def _triangular(a, b, upper, left=True, unit=False):
    named = {"upper": upper} | ({} if left else {"left": False}) | ({"unitriangular": True} if unit else {})
    return aten.linalg_solve_triangular(a, b, **named)


# -- eigenvalues, singular values ------------------------------------------------------------------------


def _eigh(grads, eigenvalues, eigenvectors):
    to_values, to_vectors = grads
    turned = adjoint(eigenvectors)
    if to_vectors is None:
        scaled = eigenvectors * aten.unsqueeze(to_values, -2)
        return product(scaled, turned)
    inner = product(turned, to_vectors)
    aten.diagonal(inner, 0, -2, -1)
    inner = aten["mul.Scalar"](inner - adjoint(inner), 0.5)
    inner = aten["div_.Tensor"](inner, _differences(eigenvalues))
    if to_values is not None:
        inner = shaped("diagonal_scatter", inner, inner, to_values, 0, -2, -1)
    return product(eigenvectors, product(inner, adjoint(eigenvectors)))


EIGH = {"self": (_eigh, {"when": lambda self_aval: self_aval.dtype.kind != "c"})}


def _skew(x):
    return x - adjoint(x)


def _svd(grads, U, S, Vh, full_matrices):
    to_u, to_s, to_v = grads
    m, k, n = U.shape[-2], S.shape[-1], Vh.shape[-1]
    if full_matrices:
        Vh, U = _narrow(Vh, -2, 0, k), _narrow(U, -1, 0, k)
        to_v = None if to_v is None else _narrow(to_v, -2, 0, k)
        to_u = None if to_u is None else _narrow(to_u, -1, 0, k)
    if to_u is None and to_v is None:
        if m >= n:
            return product(U, aten.unsqueeze(to_s, -1) * Vh)
        return product(U * aten.unsqueeze(to_s, -2), Vh)
    of_u = None if to_u is None else _skew(product(adjoint(U), to_u))
    of_v = None if to_v is None else _skew(product(Vh, adjoint(to_v)))
    inner = _between(of_u, of_v, S)
    inner = inner if to_s is None else inner + aten.diag_embed(to_s)
    if m > k and to_u is not None:
        inner = product(U, inner)
        rest = to_u / aten.unsqueeze(S, -2)
        beside = product(U, product(adjoint(U), rest))
        return product((inner + rest) - beside, Vh)
    if n > k and to_v is not None:
        inner = product(inner, Vh)
        rest = to_v / aten.unsqueeze(S, -1)
        beside = product(product(rest, adjoint(Vh)), Vh)
        return product(U, (inner + rest) - beside)
    return product(U, product(inner, Vh)) if m >= n else product(product(U, inner), Vh)


def _between(of_u, of_v, S):
    """What the turns of the vectors change between them."""
    gaps = _differences(S * S)
    if of_u is None:
        turned = of_v / gaps
        return aten.unsqueeze(S, -1) * turned
    if of_v is None:
        columns = aten.unsqueeze(S, -2)
        return of_u / gaps * columns
    rows = aten.unsqueeze(S, -1) * of_v
    columns = of_u * aten.unsqueeze(S, -2)
    return (columns + rows) / gaps


SVD = {"A": (_svd, {"when": lambda A_aval: A_aval.dtype.kind != "c"})}


# -- QR, LU ----------------------------------------------------------------------------------------------


def has_qr(aval):
    """Whether :func:`qr` is the derivative: not of wide complex matrices."""
    return aval.dtype.kind != "c" or aval.shape[-2] >= aval.shape[-1]


def qr(grads, Q, R):
    to_q, to_r = grads
    m, k, n = Q.shape[-2], Q.shape[-1], R.shape[-1]
    inner = None if to_q is None else product(adjoint(Q), to_q)
    if to_r is not None:
        of_r = product(to_r, adjoint(R))
        inner = of_r if inner is None else of_r - inner
    else:
        inner = -inner
    if m >= n:
        return _tall_qr(Q, R, inner, to_q)
    inner = -inner
    inner = aten.tril(_skew(inner))
    inner = product(Q, inner)
    first = _triangular(adjoint(_narrow(R, -1, 0, k)), inner, False, left=False)
    rest = aten.new_zeros(first, [*first.shape[:-1], n - m])
    whole = aten.cat([first, rest], -1)
    return whole if to_r is None else whole + product(Q, to_r)


def _tall_qr(Q, R, inner, to_q):
    inner = aten.triu(inner)
    inner = inner + adjoint(inner)
    middle = aten.diagonal(inner, 0, -2, -1)
    aten["mul_.Scalar"](jnp.real(middle) if jnp.iscomplexobj(middle) else middle, 0.5)
    whole = product(Q, inner)
    whole = whole if to_q is None else whole + to_q
    return _triangular(adjoint(R), whole, False, left=False)


def _lu(to_l, to_u, P, L, U):
    m, k, n = L.shape[-2], L.shape[-1], U.shape[-1]
    if m == n:
        inner = None if to_l is None else aten.tril(product(adjoint(L), to_l), -1)
        if to_u is not None:
            of_u = aten.triu(product(to_u, adjoint(U)))
            inner = of_u if inner is None else inner + of_u
        inner = _triangular(adjoint(U), inner, False, left=False)
        return product(P, _triangular(adjoint(L), inner, True, unit=True))
    return product(P, _wide_lu(to_l, to_u, L, U, k, n) if m < n else _tall_lu(to_l, to_u, L, U, m, k))


def _wide_lu(to_l, to_u, L, U, k, n):
    inner = None if to_l is None else product(adjoint(L), to_l)
    if to_u is not None:
        of_u = product(aten.triu(to_u), adjoint(U))
        inner = -of_u if inner is None else inner - of_u
    inner = aten.tril(inner, -1)
    inner = _triangular(adjoint(_narrow(U, -1, 0, k)), inner, False, left=False)
    if to_u is None:
        inner = _triangular(adjoint(L), inner, True, unit=True)
        return aten.cat([inner, aten.zeros_like(_narrow(U, -1, k, n))], -1)
    inner = inner + aten.triu(_narrow(to_u, -1, 0, k))
    inner = aten.cat([inner, _narrow(to_u, -1, k, n)], -1)
    return _triangular(adjoint(L), inner, True, unit=True)


def _tall_lu(to_l, to_u, L, U, m, k):
    inner = None if to_u is None else product(to_u, adjoint(U))
    if to_l is not None:
        turned = adjoint(L)
        of_l = product(turned, aten.tril(to_l, -1))
        inner = -of_l if inner is None else inner - of_l
    inner = aten.triu(inner)
    inner = _triangular(adjoint(_narrow(L, -2, 0, k)), inner, True, unit=True)
    if to_l is None:
        inner = _triangular(adjoint(U), inner, False, left=False)
        return aten.cat([inner, aten.zeros_like(_narrow(L, -2, k, m))], -2)
    inner = inner + aten.tril(_narrow(to_l, -2, 0, k), -1)
    inner = aten.cat([inner, _narrow(to_l, -2, k, m)], -2)
    return _triangular(adjoint(U), inner, False, left=False)


def lu(grads, P, L, U):
    return _lu(grads[1], grads[2], P, L, U)


def lu_factor(grads, LU, pivots):
    P, L, U = aten.lu_unpack(LU, pivots)
    k = min(LU.shape[-2:])
    to_l, to_u = _narrow(grads[0], -1, 0, k), _narrow(grads[0], -2, 0, k)
    return _lu(to_l, to_u, P, L, U)


def lu_unpack(grads, LU_data_aval):
    _, to_l, to_u = grads
    m, n = LU_data_aval.shape[-2:]
    k = min(m, n)
    if to_l is None:
        high = aten.triu(to_u)
        return high if m <= n else aten.cat([high, aten.zeros([*high.shape[:-2], m - n, n], high)], -2)
    if to_u is None:
        low = aten.tril(to_l, -1)
        return low if m >= n else aten.cat([low, aten.zeros([*low.shape[:-1], n - m], low)], -1)
    high = aten.triu(_narrow(to_u, -1, 0, k) if m < n else to_u)
    both = aten.tril(_narrow(to_l, -2, 0, k) if m > n else to_l, -1) + high
    if m == n:
        return both
    return aten.cat([both, _narrow(to_u, -1, k, n) if m < n else _narrow(to_l, -2, k, m)], -1 if m < n else -2)


# -- what is solved --------------------------------------------------------------------------------------


def _factors(A):
    """(factors, pivots) of a matrix, which PyTorch has saved."""
    return tuple([unseen(lambda a, i=i: aten.linalg_lu_factor_ex(a)[i], A) for i in (0, 1)])


def _spread(x, n):
    """Diagonal matrices of the same number, transposed."""
    x = aten.expand(aten.unsqueeze(x, -1), [*x.shape, n])
    return aten["transpose.int"](aten.diag_embed(x), -2, -1)


def _by_factors(A, b, repaired):
    """The solution with the adjoint of ``A``; ``repaired``: with small numbers in place of zero pivots."""
    complex_ = jnp.iscomplexobj(A)
    factors, pivots = _factors(A if complex_ else unseen(lambda a: jnp.swapaxes(a, -1, -2), A))
    if repaired:
        zero = aten["eq.Scalar"](aten.diagonal(factors, 0, -2, -1), 0.0)
        real = unseen(jnp.real, factors)
        none, eps = (aten.scalar_tensor(x, real) for x in (0.0, float(np.finfo(A.dtype).eps)))
        factors = factors + aten.diag_embed(aten["where.self"](zero, eps, none))
    return aten.linalg_lu_solve(factors, pivots, b, **({"adjoint": True} if complex_ else {}))


def det(grad, A, result):
    if not A.size:
        return aten.zeros_like(A)
    return _by_factors(A, _spread(grad * conj(result), A.shape[-1]), True)


def slogdet(grads, A, sign):
    to_sign, to_log = grads
    if jnp.iscomplexobj(A):
        if to_sign is not None:
            turn = aten["mul.Scalar"](jnp.imag(conj(to_sign) * sign), 1j)
            to_log = -turn if to_log is None else to_log - turn
        else:
            to_log = to_log.astype(A.dtype)
    if to_log is None:
        return aten.zeros_like(A)
    return _by_factors(A, _spread(to_log, A.shape[-1]), False)


def _solve(grad, A, B_aval, result, left, needs):
    vector = A.ndim == 1 + len(B_aval.shape) and A.shape[:-1] == B_aval.shape
    factors, pivots = _factors(A)
    grad = aten.unsqueeze(grad, -1) if vector else grad
    to_b = aten.linalg_lu_solve(factors, pivots, grad, **({} if left else {"left": False}), adjoint=True)
    to_a = None
    if "A" in needs:
        turned = adjoint(aten.unsqueeze(result, -1) if vector else result)
        to_a = -(product(to_b, turned) if left else product(turned, to_b))
    return to_a, (aten["squeeze.dim"](to_b, -1) if vector else to_b) if "B" in needs else None


SOLVE = {"A, B": _solve}
SOLVE_EX = {"A, B": lambda grads, A, B_aval, result, left, needs: _solve(grads[0], A, B_aval, result, left, needs)}


def _by_triangle(grad, self, result, upper, left, unitriangular, needs):
    to_b = _triangular(adjoint(self), grad, not upper, left, unitriangular)
    to_a = None
    if "self" in needs:
        turned = adjoint(result)
        to_a = -(product(to_b, turned) if left else product(turned, to_b))
        to_a = _triangle(to_a, upper, unitriangular)
    return to_a, to_b if "B" in needs else None


def _triangle(x, upper, unit):
    return aten["triu" if upper else "tril"](x, *([1 if upper else -1] if unit else []))


SOLVE_TRIANGULAR = {"self, B": _by_triangle}


def _triangular_solve(grads, A, solution, upper, transpose, unitriangular, needs):
    to_x, to_copy = grads
    to_b = to_a = None
    if to_x is not None:
        to_b = aten.triangular_solve(to_x, conj(A), upper, not transpose, unitriangular)[0]
        if "A" in needs:
            inner = product(conj(solution), aten["transpose.int"](to_b, -2, -1)) if transpose else (
                product(to_b, adjoint(solution)))  # fmt: skip
            to_a = _triangle(-inner, upper, unitriangular)
    if to_copy is not None and "A" in needs:
        to_a = to_copy if to_a is None else to_a + to_copy
    return to_b if "self" in needs else None, to_a


TRIANGULAR_SOLVE = {"self, A": _triangular_solve}


def _cholesky_solve(grad, self, input2, result, upper, needs):  # PyTorch saves self, too
    to_self = aten.cholesky_solve(grad, input2, *([True] if upper else []))
    to_factor = None
    if "input2" in needs:
        inner = product(to_self, adjoint(result))
        inner = inner + adjoint(inner)
        to_factor = -(product(input2, inner) if upper else product(inner, input2))
    return to_self if "self" in needs else None, to_factor


CHOLESKY_SOLVE = {"self, input2": _cholesky_solve}


def cholesky_inverse(grad, self, result, upper):
    inner = product(result, product(grad + adjoint(grad), result))
    return -(product(self, inner) if upper else product(inner, self))


def _lu_solve(grad, LU, pivots, result, left, adjoint_, needs):
    to_b = to_lu = None
    if "B" in needs:
        named = ({} if left else {"left": False}) | ({} if adjoint_ else {"adjoint": True})
        to_b = aten.linalg_lu_solve(LU, pivots, grad, **named)
    if "LU" in needs:
        to_lu = (_to_factors_straight if left != adjoint_ else _to_factors_turned)(grad, LU, pivots, result, left)
    return to_lu, to_b


def _to_factors_straight(grad, LU, pivots, result, left):
    _, L, U = aten.lu_unpack(LU, pivots, True, False)
    inner = -(product(grad, adjoint(result)) if left else product(adjoint(grad), result))
    to_u = _triangular(adjoint(U), inner, False)
    inner = product(to_u, adjoint(U))
    to_l = _triangular(adjoint(L), inner, True, unit=True)
    low = aten.tril(to_l, -1)
    return low + aten.triu(to_u)


def _to_factors_turned(grad, LU, pivots, result, left):
    P, L, U = aten.lu_unpack(LU, pivots)
    turned = aten["transpose.int"](P, -2, -1)
    if left:
        inner = product(turned, result)
        inner = product(inner, adjoint(grad))
    else:
        inner = product(product(turned, adjoint(result)), grad)
    inner = -product(inner, P)
    to_l = _triangular(adjoint(L), inner, True, left=False, unit=True)
    inner = product(adjoint(L), to_l)
    high = aten.triu(_triangular(adjoint(U), inner, False, left=False))
    return aten.tril(to_l, -1) + high


LU_SOLVE = {
    "LU, B": lambda grad, LU, pivots, result, left, adjoint, needs: _lu_solve(
        grad, LU, pivots, result, left, adjoint, needs
    )
}


# -- functions of matrices -------------------------------------------------------------------------------


def matrix_exp(grad, self):
    turned, n = adjoint(self), self.shape[-1]
    top = aten.cat([turned, grad], -1)
    below = aten.cat([aten.zeros_like(turned), turned], -1)
    found = aten.linalg_matrix_exp(aten.cat([top, below], -2))
    return _narrow(_narrow(found, -2, 0, n), -1, n, 2 * n)


def pinv(grad, self, result):
    m, n = self.shape[-2:]
    turned, grad = adjoint(result), adjoint(grad)
    if m <= n:
        k = product(grad, result)
        k_turned = product(k, turned)
        beside = product(product(turned, result), grad - product(k, self))
        first = product(product(self, result), k_turned)
        return -adjoint(product(result, k)) + k_turned - first + beside
    k = product(result, grad)
    turned_k = product(turned, k)
    first = product(product(turned_k, result), self)
    beside = product(product(grad - product(self, k), result), turned)
    return -adjoint(product(k, result)) + beside + turned_k - first
