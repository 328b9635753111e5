"""Linear algebra: QR, singular values, eigenvalues, and what is computed from them."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._base.dims import broadcast_shapes
from torchlike._base.dtypes import from_np
from torchlike._decl import rules
from torchlike._decl.op import op
from torchlike._ops import _composed, _composed_sums, _derivatives_matrices
from torchlike._ops._square import (
    adjoint,
    demand_tolerances,
    diagonal,
    floating,
    matrices,
    mm,
    not_converged,
    not_finite,
    same_dtype,
    square,
)

# -- QR ----------------------------------------------------------------------------------------------


def _qr(a, complete):
    """(Q, R); a wide matrix is the factorization of its first square part, applied to the rest."""
    m, n = a.shape[-2:]
    if not a.size:
        k = m if complete else min(m, n)
        return jnp.broadcast_to(jnp.eye(m, k, dtype=a.dtype), (*a.shape[:-2], m, k)), jnp.zeros(
            (*a.shape[:-2], k, n), a.dtype
        )
    if m >= n:
        return _full_qr(a) if complete and m > n else lax.linalg.qr(a, full_matrices=False)
    q, r = lax.linalg.qr(a[..., :m], full_matrices=False)
    return q, lax.concatenate([r, mm(adjoint(q), a[..., m:])], a.ndim - 1)


@jax.custom_jvp
def _full_qr(a):
    return tuple(lax.linalg.qr(a, full_matrices=True))


@_full_qr.defjvp
def _full_qr_jvp(values, dots):
    raise rules.NoDerivative(
        "The QR decomposition is not differentiable when mode='complete' and nrows > ncols, because "
        "the last columns of Q "
        "are not determined; use mode='reduced', or .detach() the matrix"
    )


@jax.custom_jvp
def _r_alone(a):
    return jnp.zeros((0,), a.dtype), _qr(a, False)[1]


@_r_alone.defjvp
def _r_alone_jvp(values, dots):
    raise rules.NoDerivative(
        "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
        "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
    )


@op(
    'linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    variants="out",
    saved="Q! R! mode ~A",
    backward={"A": (_derivatives_matrices.qr, {"when": lambda A_aval: _derivatives_matrices.has_qr(A_aval)})},
    autocast={"cpu": "fp32"},
    columns=(0, 1),
)
def linalg_qr(A, mode):
    """(Q, R): orthonormal columns and an upper triangular matrix with ``A = Q @ R``.

    ``mode``: "reduced", "complete" (Q is square) or "r" (Q is empty, and there is no derivative). Tall matrices are
    differentiable in the reduced mode only.

    >>> import torchlike as torch
    >>> Q, R = torch.linalg.qr(torch.tensor([[3., 1.], [4., 2.]]))
    >>> R.abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """
    if mode not in ("reduced", "r", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    matrices("linalg.qr", A)
    return _r_alone(A) if mode == "r" else _qr(A, mode == "complete")


@op("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", node="LinalgQrBackward",
    variants="function method out", aten={"out": "Q", "calls": _composed.qr},
    saved={"Q!": "Q", "R!": "R", "mode": lambda some: "reduced" if some else "complete", "~self": "self"},
    backward={"self": (_derivatives_matrices.qr, {"when": lambda self_aval: _derivatives_matrices.has_qr(self_aval)})},
    autocast={"cpu": "fp32"},
    columns=(0, 1))  # fmt: skip
def qr(self, some):
    """(Q, R); the older form of ``torch.linalg.qr`` (``some=False``: Q is square)."""
    matrices("linalg.qr", self)
    return _qr(self, not some)


@op("geqrf(Tensor self) -> (Tensor a, Tensor tau)", variants="function method out", saved="", aten={"out": "a"},
    out="cast safely", autocast={"cpu": "fp32"},
    vjp={"self": rules.undefined(NotImplementedError("the derivative for 'geqrf' is not implemented."))},
    columns=(0,))  # fmt: skip
def geqrf(self):
    """(a, tau): the QR factorization as Householder reflections.

    ``a`` has R in its upper triangle and the vectors of the reflections below it, ``tau`` their scales;
    ``torch.linalg.householder_product(a, tau)`` is Q.

    >>> import torchlike as torch
    >>> a, tau = torch.geqrf(torch.tensor([[3., 1.], [4., 2.]]))
    >>> a.triu().abs()
    tensor([[5.0000, 2.2000],
            [0.0000, 0.4000]])
    """
    if self.dtype.itemsize < 4 or not jnp.issubdtype(self.dtype, jnp.inexact):
        raise NotImplementedError(f"\"geqrf_cpu\" not implemented for '{from_np(self.dtype).scalar_name}'")
    matrices("geqrf", self)
    if not self.size:
        return self, jnp.zeros((*self.shape[:-2], min(self.shape[-2:])), self.dtype)
    a, tau = jnp.linalg.qr(self, mode="raw")
    return jnp.swapaxes(a, -1, -2), tau


# -- singular values ---------------------------------------------------------------------------------


def _svd(a, full):
    if a.size:
        return tuple(lax.linalg.svd(_finite(a), full_matrices=full))
    m, n, batch = a.shape[-2], a.shape[-1], a.shape[:-2]
    k = min(m, n)
    eyes = [
        jnp.broadcast_to(jnp.eye(*s, dtype=a.dtype), (*batch, *s))
        for s in ((m, m if full else k), (n if full else k, n))
    ]
    return eyes[0], jnp.zeros((*batch, k), jnp.real(a).dtype), eyes[1]


def _finite(a):
    """``a``, or NaN in matrices that are not finite: LAPACK's iterations may not end for infinite ones."""
    return jnp.where(jnp.all(jnp.isfinite(a), (-2, -1), keepdims=True), a, jnp.nan)


def _without_diagonal(x):
    return jnp.where(jnp.eye(x.shape[-1], dtype=bool), 0, x)


def _gaps(values, used):
    """The matrix of ``values[j] - values[i]``, with ones where it is not to be divided by."""
    gap = values[..., None, :] - values[..., :, None]
    return jnp.where(jnp.eye(values.shape[-1], dtype=bool) | ~used, 1, gap)


def _turning(vectors, grads):
    """How much the loss changes as each column of ``vectors`` is multiplied by exp(i phi)."""
    return jnp.imag(jnp.sum(jnp.conj(vectors) * grads, -2))


def _ill_defined(name, what, change, beside=0.0):
    """(bad flag, error) of a loss that depends on the phases of complex vectors, to PyTorch's tolerance."""
    bad = ~jnp.all(jnp.abs(change + beside) <= 0.01 + 0.01 * jnp.abs(beside))
    return bad, RuntimeError(
        f"{name}_backward: complex {what} are defined up to a factor exp(i phi), and the loss depends on it, "
        "so that it is ill-defined. Use what does not, such as their absolute values or U @ diag(S) @ Vh."
    )


def _phase(name):
    def check(grads, eigenvectors):
        if jnp.iscomplexobj(eigenvectors):
            return _ill_defined(name, "eigenvectors", _turning(eigenvectors, grads[1]))
        return None

    return check


def _svd_phase(grads, U, S, Vh):
    if not jnp.iscomplexobj(U):
        return None
    k = S.shape[-1]
    u, v, g_u, g_v = (x[..., :, :k] for x in (U, adjoint(Vh), grads[0], adjoint(grads[2])))
    return _ill_defined("svd", "singular vectors", 2 * _turning(u, g_u), 2 * _turning(v, g_v))


def _svd_vjp(grads, U, S, Vh):
    """After Townsend, "Differentiating the singular value decomposition" (2016), for complex matrices too.

    Infinite where singular values are equal, unless the gradients of the vectors are zero.
    """
    g_u, g_s, g_v = grads[0], grads[1], adjoint(grads[2])
    k = S.shape[-1]
    u, v, g_u, g_v = U[..., :, :k], adjoint(Vh)[..., :, :k], g_u[..., :, :k], g_v[..., :, :k]
    used = jnp.any(g_u != 0) | jnp.any(g_v != 0)
    s = jnp.where(used, S, 1)
    x, y = mm(adjoint(u), g_u), mm(adjoint(v), g_v)
    gap = _gaps(S * S, used)
    turn_u, turn_v = (_without_diagonal(z - adjoint(z)) / gap for z in (x, y))
    inner = turn_u * s[..., None, :] + s[..., :, None] * turn_v
    inner = jnp.where(used, inner, 0) + _embedded(g_s.astype(inner.dtype))
    if jnp.iscomplexobj(x):
        inner = inner + jnp.where(used, _embedded(1j * jnp.imag(diagonal(x)) / s), 0)
    out = mm(mm(u, inner), adjoint(v))
    for here, g, other, left in ((u, g_u, v, True), (v, g_v, u, False)):
        if here.shape[-2] > k:
            rest = (g - mm(here, mm(adjoint(here), g))) / s[..., None, :]
            out = out + jnp.where(used, mm(rest, adjoint(other)) if left else mm(other, adjoint(rest)), 0)
    return out


def _embedded(d):
    return jnp.where(jnp.eye(d.shape[-1], dtype=bool), d[..., None, :], 0)


@op(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    aten={"out": "U", "calls": _composed_sums.svd},
    variants="out",
    check=not_finite("linalg.svd"),
    vjp={"A": rules.checked(_svd_vjp, _svd_phase)},
    backward=_derivatives_matrices.SVD,
    saved={
        "S_sym_argsize_minus_1": lambda A_aval: min(A_aval.shape[-2:]),
        **{n: n for n in ("S", "U", "Vh", "full_matrices")},
    },
    autocast={"cpu": "fp32"},
    columns=(0, 2),
)
def linalg_svd(A, full_matrices, driver):
    """(U, S, Vh) with ``A = U @ diag(S) @ Vh``: the singular values in descending order, and their vectors.

    Raises LinAlgError for a matrix that is not finite.

    >>> import torchlike as torch
    >>> torch.linalg.svd(torch.tensor([[3., 0.], [0., 4.]])).S
    tensor([4., 3.])
    """
    _no_driver("linalg.svd", driver)
    matrices("linalg.svd", A)
    return _svd(A, full_matrices)


def _no_driver(name, driver):
    if driver is not None:
        raise RuntimeError(
            f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )


@op("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", variants="out", node="LinalgSvdBackward",
    check=not_finite("linalg.svd"), vjp={"A": lambda grad, A: _svdvals_vjp(grad, A)},
    aten={"out": "out", "calls": _composed_sums.svdvals},
    saved={"S": "result", "result!": None, "~A": "A"}, autocast={"cpu": "fp32"})  # fmt: skip
def linalg_svdvals(A, driver):
    """The singular values in descending order.

    >>> import torchlike as torch
    >>> torch.linalg.svdvals(torch.tensor([[3., 0.], [0., 4.]]))
    tensor([4., 3.])
    """
    _no_driver("linalg.svdvals", driver)
    matrices("linalg.svd", A)
    return _svdvals(A)


def _svdvals(a):
    return (
        lax.linalg.svd(_finite(a), compute_uv=False)
        if a.size
        else jnp.zeros((*a.shape[:-2], min(a.shape[-2:])), jnp.real(a).dtype)
    )


def _svdvals_vjp(grad, A):
    u, s, vh = _svd(A, False)
    return _svd_vjp([jnp.zeros_like(u), grad, jnp.zeros_like(vh)], u, s, vh)


# -- eigenvalues -------------------------------------------------------------------------------------


def _demand_uplo(uplo):
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _hermitian(a, lower):
    """The matrix of one triangle, which alone is read, as in PyTorch; gradients are Hermitian, as there."""
    return jnp.tril(a) + adjoint(jnp.tril(a, -1)) if lower else jnp.triu(a) + adjoint(jnp.triu(a, 1))


_hermitian.defjvp(lambda lower, primals, tangents: (
    _hermitian(*primals, lower), (tangents[0] + adjoint(tangents[0])) / 2))  # fmt: skip


def _eigh(name, a, uplo):
    square(name, a)
    _demand_uplo(uplo)
    if not a.size:
        return jnp.zeros(a.shape[:-1], jnp.real(a).dtype), a
    vectors, values = lax.linalg.eigh(_hermitian(a, uplo in "Ll"), symmetrize_input=False)
    return values, vectors


def _converged(self, UPLO):
    return not_converged("linalg.eigh", *_eigh("linalg.eigh", self, UPLO))


def _eigh_vjp(grads, values, vectors):
    """Hermitian; infinite where eigenvalues are equal, unless the gradient of the vectors is zero."""
    g_values, g_vectors = grads
    used = jnp.any(g_vectors != 0)
    turned = mm(adjoint(vectors), g_vectors)  # whose skew part alone counts: the matrix stays Hermitian
    inner = _without_diagonal((turned - adjoint(turned)) / 2) / _gaps(values, used)
    inner = jnp.where(used, inner, 0) + _embedded(g_values.astype(inner.dtype))
    return mm(mm(vectors, inner), adjoint(vectors))


@op(
    'linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)', check=_converged,
    aten={"calls": _composed.eigh}, variants="out", autocast={"cpu": "fp32"}, columns=(1,),
    vjp={
        "self": rules.checked(
            lambda grads, eigenvalues, eigenvectors: _eigh_vjp(grads, eigenvalues, eigenvectors), _phase("linalg_eigh")
        )
    },
    backward=_derivatives_matrices.EIGH,
)  # fmt: skip
def linalg_eigh(self, UPLO):
    """(eigenvalues, eigenvectors) of Hermitian matrices, in ascending order; only one triangle is read.

    >>> import torchlike as torch
    >>> torch.linalg.eigh(torch.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([1., 2.])
    """
    return _eigh("linalg.eigh", self, UPLO)


@op("linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
    variants="out", node="LinalgEighBackward", aten={"calls": _composed.eigvalsh}, check=_converged,
    vjp={"self": lambda grad, self, UPLO: _eigvalsh_vjp(grad, self, UPLO)},
    saved={"eigenvalues": "result", "result!": None, "~self": "self"}, autocast={"cpu": "fp32"})  # fmt: skip
def linalg_eigvalsh(self, UPLO):
    """The eigenvalues of Hermitian matrices, in ascending order; only one triangle is read.

    >>> import torchlike as torch
    >>> torch.linalg.eigvalsh(torch.tensor([[2., 0.], [0., 1.]]))
    tensor([1., 2.])
    """
    return _eigh("linalg.eigh", self, UPLO)[0]


def _eigvalsh_vjp(grad, A, UPLO):
    values, vectors = _eigh("linalg.eigh", A, UPLO)
    return _eigh_vjp([grad, jnp.zeros_like(vectors)], values, vectors)


def _eig(a):
    square("linalg.eig", a)
    c = a.astype(jnp.promote_types(a.dtype, jnp.complex64))
    if not a.size:
        return jnp.zeros(c.shape[:-1], c.dtype), c
    values, vectors = lax.linalg.eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    return values.astype(c.dtype), vectors.astype(c.dtype)


def _eig_finite(**arguments):
    (a,) = arguments.values()
    return ~jnp.all(jnp.isfinite(a)), RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")


def _eig_vjp(grads, values, vectors):
    """For vectors of length one; infinite where eigenvalues are equal."""
    g_values, g_vectors = grads
    used = jnp.any(g_vectors != 0)
    back = adjoint(vectors)
    x = mm(back, g_vectors)
    x = x - mm(back, vectors) * jnp.real(diagonal(x))[..., None, :]
    inner = _without_diagonal(x) / jnp.conj(_gaps(values, used))
    inner = jnp.where(used, inner, 0) + _embedded(g_values.astype(inner.dtype))
    return jnp.linalg.solve(back, mm(inner, back))


@op(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    out="cast safely",
    variants="out",
    check=_eig_finite,
    vjp={
        "self": rules.checked(
            lambda grads, eigenvalues, eigenvectors: _eig_vjp(grads, eigenvalues, eigenvectors), _phase("linalg_eig")
        )
    },
    autocast={"cpu": "fp32"},
    columns=(1,),
)
def linalg_eig(self):
    """(eigenvalues, eigenvectors) of square matrices, both complex, in no particular order. Only on the CPU.

    >>> import torchlike as torch
    >>> torch.linalg.eig(torch.tensor([[2., 0.], [0., 1.]])).eigenvalues
    tensor([2.+0.j, 1.+0.j])
    """
    return _eig(self)


@op("linalg_eigvals(Tensor self) -> Tensor", out="cast safely eigenvalues", variants="out", node="LinalgEigBackward",
    check=_eig_finite, aten={"calls": _composed.eigvals},
    vjp={"self": lambda grad, self: _eigvals_vjp(grad, self)},
    saved={"eigenvalues": "result", "result!": None, "~self": "self"}, autocast={"cpu": "fp32"})  # fmt: skip
def linalg_eigvals(self):
    """The eigenvalues of square matrices, complex, in no particular order. Only on the CPU.

    >>> import torchlike as torch
    >>> torch.linalg.eigvals(torch.tensor([[2., 0.], [0., 1.]]))
    tensor([2.+0.j, 1.+0.j])
    """
    return _eig(self)[0]


def _eigvals_vjp(grad, self):
    values, vectors = _eig(self)
    return _eig_vjp([grad, jnp.zeros_like(vectors)], values, vectors)


# -- what singular values and eigenvalues are for ----------------------------------------------------


def _cutoff(atol, rtol, largest, shape):
    """The larger of the absolute and the relative tolerance; the default is relative, none beside ``atol`` "
    "> 0."""
    default = jnp.finfo(largest.dtype).eps * max(shape[-2:])
    if rtol is None:
        relative = default if atol is None else jnp.where(atol > 0, 0, default)
    else:
        relative = rtol
    absolute = 0 if atol is None else atol
    return jnp.maximum(jnp.asarray(absolute, largest.dtype), jnp.asarray(relative, largest.dtype) * largest)


def _largest(s):
    return jnp.max(s, -1) if s.shape[-1] else jnp.zeros(s.shape[:-1], s.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _pinv(a, atol, rtol, hermitian):
    if hermitian:
        values, u = _eigh("linalg.pinv", a, "L")
        s, vh = jnp.abs(values), adjoint(u)
    else:
        u, values, vh = _svd(a, False)
        s = values
    keep = s > _cutoff(atol, rtol, _largest(s), a.shape)[..., None]
    inverse = jnp.where(keep, 1 / jnp.where(keep, values, 1), 0)
    return mm(adjoint(vh) * inverse[..., None, :], adjoint(u))


@_pinv.defjvp
def _pinv_jvp(hermitian, primals, tangents):
    """The formula below, of any order: singular vectors have no derivative where singular values are equal."""
    self, dot = primals[0], tangents[0]
    result = _pinv(*primals, hermitian)
    p, pt, change = result, adjoint(result), adjoint(dot)
    right, left = mm(p, mm(pt, change)), mm(change, mm(pt, p))
    return result, right - mm(mm(right, self), p) + left - mm(p, mm(self, left)) - mm(p, mm(dot, p))


def _pinv_vjp(grad, self, result):
    """After Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), eq. 4.12, transposed."""
    p, pt, gt = result, adjoint(result), adjoint(grad)
    out = -mm(pt, mm(grad, pt))
    right = mm(gt, mm(p, pt))
    left = mm(mm(pt, p), gt)
    return out + right - mm(self, mm(p, right)) + left - mm(mm(left, p), self)


@op(
    "linalg_pinv(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    aten={"own": True, "calls": _composed_sums.pinv},
    variants="out",
    out="cast safely",
    numbers="atol rtol",
    policy="self",
    check=not_finite("linalg.svd"),
    vjp={"self": _pinv_vjp},
    backward=_derivatives_matrices.pinv,
    edges=lambda: (0,),
    autocast="rounded",
)
def linalg_pinv(self, atol, rtol, hermitian):
    """The pseudo-inverse; singular values up to max(atol, rtol * the largest) count as zero.

    ``rtol`` is by default the precision of the dtype times the longer side, 0 beside an ``atol``.

    >>> import torchlike as torch
    >>> torch.linalg.pinv(torch.tensor([[2., 0.], [0., 0.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    if self.ndim >= 2 and not self.size:  # whatever the shapes of the tolerances
        return jnp.swapaxes(self, -1, -2)
    if hermitian:
        square("linalg.eigh", self)
    elif self.ndim < 2:
        raise RuntimeError(f"linalg.pinv: expected a tensor with 2 or more dimensions, got {self.ndim}")
    floating("linalg.pinv", self)
    demand_tolerances("linalg.pinv", self, atol=atol, rtol=rtol)
    return _pinv(self, atol, rtol, hermitian)


@op(
    "linalg_matrix_rank(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, bool hermitian=False) -> Tensor",
    aten={"own": True, "calls": _composed_sums.matrix_rank},
    variants="out",
    out="cast safely",
    numbers="atol rtol",
    policy="self",
    vjp={},
    check=not_finite("linalg.svd"),
    autocast={"cpu": "fp32"},
)
def linalg_matrix_rank(self, atol, rtol, hermitian):
    """How many singular values are above max(atol, rtol * the largest), as int64. Tolerances as in ``pinv``.

    >>> import torchlike as torch
    >>> torch.linalg.matrix_rank(torch.ones(2, 2))
    tensor(1)
    """
    matrices("linalg.matrix_rank", self)
    demand_tolerances("linalg.matrix_rank", self, atol=atol, rtol=rtol)
    s = jnp.abs(_eigh("linalg.eigh", self, "L")[0]) if hermitian else _svdvals(self)
    return jnp.sum(s > _cutoff(atol, rtol, _largest(s), self.shape)[..., None], -1, dtype=jnp.int64)


def _lstsq_vjp(grads, self, b, solution):
    """The solution is ``pinv(self) @ b``; the residuals do not change with it to first order."""
    vector = b.ndim == self.ndim - 1
    grad, rhs, x = (x[..., None] if vector else x for x in (grads[0], b, solution))
    p = _pinv(self, None, None, False)
    to_b = mm(adjoint(p), grad)
    to_a = _pinv_vjp(mm(grad, adjoint(rhs)), self, p)
    off = 2 * (mm(self, x) - rhs) * grads[1][..., None, :]
    to_a, to_b = to_a + mm(off, adjoint(x)), to_b - off
    return to_a, to_b[..., 0] if vector else to_b


@op(
    "_lstsq(Tensor self, Tensor b, float? rcond=None)"
    " -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    variants="",
    node="LinalgLstsqBackward",
    nondiff=(2, 3),
    vjp={"self, b": lambda grads, self, b, solution: _lstsq_vjp(grads, self, b, solution)},
    autocast={"cpu": "fp32"},
    columns=(0,),
    layout=result_layouts.least_squares,
)
def lstsq(self, b, rcond):
    """The least-squares solution of least norm, squared residuals, ranks and singular values."""
    name = "torch.linalg.lstsq"
    matrices(name, self, "input")
    if not b.ndim:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    same_dtype(name, self, b, "input", "other")
    vector = b.ndim == self.ndim - 1
    rhs = b[..., None] if vector else b
    if rhs.ndim != self.ndim:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and their difference at most 1"
        )
    if rhs.shape[-2] != self.shape[-2]:
        raise RuntimeError(
            f"{name}: input.size(-2) should match other.size({-1 if vector else -2}), got {self.shape[-2]} and "
            f"{rhs.shape[-2]}"
        )
    if vector and rhs.shape[:-2] != self.shape[:-2]:
        raise RuntimeError(f"{name}: a vector for each matrix is expected, got {self.shape} and {b.shape}")
    broadcast_shapes(self.shape[:-2], rhs.shape[:-2])  # or its error
    u, s, vh = _svd(self, False)
    keep = s > _cutoff(None, rcond, _largest(s), self.shape)[..., None]
    inverse = jnp.where(keep, 1 / jnp.where(keep, s, 1), 0)
    x = mm(adjoint(vh) * inverse[..., None, :], mm(adjoint(u), rhs))
    off = jnp.abs(mm(self, x) - rhs)
    return x[..., 0] if vector else x, jnp.sum(off * off, -2), jnp.sum(keep, -1, dtype=jnp.int64), s
