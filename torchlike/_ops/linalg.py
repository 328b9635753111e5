"""Linear algebra: inverses, determinants, linear systems, Cholesky and LU factorizations."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from torchlike._base import result_layouts
from torchlike._decl.op import op
from torchlike._ops import _composed, _composed_sums
from torchlike._ops import _derivatives_matrices as _derivatives
from torchlike._ops._axes import is_floating
from torchlike._ops._cholesky import cholesky_factor, cholesky_jvp, cholesky_vjp, reached
from torchlike._ops._cofactors import cofactors
from torchlike._ops._square import (
    _LinAlgError,
    adjoint,
    broadcast_batches,
    diagonal,
    eye_like,
    first_bad,
    first_zero,
    is_vector,
    lu_pivots,
    matrices,
    mm,
    square,
    system,
    transpose,
)

# -- inverses and determinants -----------------------------------------------------------------------


def _inverse(a):
    return jnp.linalg.inv(a) if a.size else a


def _inverse_vjp(grad, result):
    right = mm(grad, adjoint(result))
    return -mm(adjoint(result), right)


def _singular_inverse(name):
    def check(check_errors=True, **arguments):
        if not check_errors:
            return None, None
        (a,) = arguments.values()
        info = first_zero(lu_pivots(a)) if a.size else jnp.zeros((), jnp.int32)

        def error():
            batch, k = first_bad(info)
            return _LinAlgError(
                f"{name}: {batch}The diagonal element {k} is zero, the inversion could not be completed "
                "because the "
                "input matrix is singular."
            )

        return jnp.any(info != 0), error

    return check


@op(
    "linalg_inv(Tensor A) -> Tensor",
    aten={"calls": _composed.inv},
    variants="out",
    node="LinalgInvExBackward",
    check=_singular_inverse("linalg.inv"),
    vjp={"A": _inverse_vjp},
    saved={"inverse": "result"},
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def linalg_inv(A):
    """The inverse of square matrices. Raises LinAlgError if one is singular.

    >>> import torchlike as torch
    >>> torch.linalg.inv(torch.tensor([[2., 0.], [0., 4.]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    square("linalg.inv", A)
    return _inverse(A)


@op("inverse(Tensor self) -> Tensor", node="LinalgInvExBackward", check=_singular_inverse("linalg.inv"),
    variants="function method out", vjp={"self": _inverse_vjp}, saved={"inverse": "result"},
    autocast={"cpu": "fp32"},
    columns=(0,))  # fmt: skip
def inverse(self):
    """The inverse of square matrices; another name of ``torch.linalg.inv``."""
    square("linalg.inv", self)
    return _inverse(self)


@op("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    aten={"out": "inverse"}, variants="out",
    nondiff=(1,), vjp={"A": lambda grads, inverse: _inverse_vjp(grads[0], inverse)},
    check=_singular_inverse("linalg.inv_ex"),
    autocast={"cpu": "fp32"},
    columns=(0,))  # fmt: skip
def linalg_inv_ex(A, check_errors):
    """(inverse, info): info is 0, or the place of the first zero pivot, an error with ``check_errors``."""
    square("linalg.inv_ex", A)
    return _inverse(A), first_zero(lu_pivots(A)) if A.size else jnp.zeros(A.shape[:-2], jnp.int32)


def _det(name, a):
    square(name, a)
    return jnp.linalg.det(a) if a.shape[-1] else jnp.ones(a.shape[:-2], a.dtype)


def _det_vjp(grad, a):
    return grad[..., None, None] * jnp.conj(cofactors(a)) if a.size else jnp.zeros_like(a)


def _determinant(schema, variants):
    def det(A):
        """The determinant of square matrices.

        >>> import torchlike as torch
        >>> torch.linalg.det(torch.tensor([[1., 2.], [3., 4.]]))
        tensor(-2.)
        """
        return _det("linalg.det", A)

    def det_self(self):
        """The determinant of square matrices."""
        return _det("linalg.det", self)

    kernel, name = (det, "A") if "Tensor A" in schema else (det_self, "self")
    formula = {
        "A": lambda grad, A: _det_vjp(grad, A),
        "self": lambda grad, self: _det_vjp(grad, self),
    }
    saved = {f"{name}!": None, "A": name, "result!": "result"}
    facts = {"calls": _composed.det} if "out" in variants else {"out": None, "calls": _composed.det}
    backward = {"A": _derivatives.det, "self": lambda grad, self, result: _derivatives.det(grad, self, result)}[name]
    return op(
        schema, variants=variants, node="LinalgDetBackward", vjp={name: formula[name]}, saved=saved, aten=facts,
        backward=backward,
    )(kernel)  # fmt: skip


linalg_det = _determinant("linalg_det(Tensor A) -> Tensor", "out")
det = _determinant("det(Tensor self) -> Tensor", "function method")


def _slogdet(a):
    square("linalg.slogdet", a)
    real = jnp.real(a).dtype
    if not a.shape[-1]:
        return jnp.ones(a.shape[:-2], a.dtype), jnp.zeros(a.shape[:-2], real)
    sign, log = jnp.linalg.slogdet(a)
    return (sign if jnp.iscomplexobj(sign) else jnp.where(jnp.isnan(log), 0, sign)), log


@op("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", variants="out", saved="A! sign!",
    aten={"calls": _composed.slogdet}, backward=_derivatives.slogdet)  # fmt: skip
def linalg_slogdet(A):
    """(sign, logabsdet): the sign of the determinant and the logarithm of its magnitude.

    >>> import torchlike as torch
    >>> torch.linalg.slogdet(torch.tensor([[0., 1.], [1., 0.]])).sign
    tensor(-1.)
    """
    return _slogdet(A)


@op("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", node="LinalgSlogdetBackward",
    aten={"calls": _composed.slogdet},
    variants="function method out", saved={"A": "self", "sign!": "sign", "self!": None},
    backward=lambda grads, self, sign: _derivatives.slogdet(grads, self, sign))  # fmt: skip
def slogdet(self):
    """(sign, logabsdet) of the determinant; another name of ``torch.linalg.slogdet``."""
    return _slogdet(self)


@op("logdet(Tensor self) -> Tensor", aten={"out": None, "calls": _composed.logdet}, node="WhereBackward",
    saved={"self!": None})  # fmt: skip
def logdet(self):
    """The logarithm of the determinant; NaN where that is negative.

    >>> import torchlike as torch
    >>> torch.logdet(torch.eye(2))
    tensor(0.)
    """
    sign, log = _slogdet(self)
    if jnp.iscomplexobj(sign):
        return log + jnp.log(sign)
    return jnp.where(sign < 0, jnp.nan, log)


# -- linear systems ----------------------------------------------------------------------------------


def _solve(name, A, B, left):
    vector = is_vector(A, B) if B.ndim else False
    a, b = system(name, A, B, left, vector)
    if not b.size:
        return jnp.squeeze(b, -1) if vector else b
    out = jnp.linalg.solve(a, b) if left else transpose(jnp.linalg.solve(transpose(a), transpose(b)))
    return jnp.squeeze(out, -1) if vector else out


def _solve_vjp(grad, A, B_aval, result, left):
    vector = is_vector(A, B_aval)
    if vector:
        grad, result = grad[..., None], result[..., None]
    a, grad = broadcast_batches(adjoint(A), grad)
    if not grad.size:
        return jnp.zeros(A.shape, A.dtype), jnp.zeros(B_aval.shape, A.dtype)
    if left:
        to_b = jnp.linalg.solve(a, grad)
        to_a = -mm(to_b, adjoint(result))
    else:
        to_b = transpose(jnp.linalg.solve(transpose(a), transpose(grad)))
        to_a = -mm(adjoint(result), to_b)
    return to_a, jnp.squeeze(to_b, -1) if vector else to_b


def _singular_system(A, B, left, check_errors=True):
    if not check_errors:
        return None, None
    if not A.size or A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        return jnp.zeros((), bool), RuntimeError("")
    info = first_zero(lu_pivots(A))

    def error():
        batch, _ = first_bad(info)
        return _LinAlgError(f"torch.linalg.solve: {batch}The solver failed because the input matrix is singular.")

    return jnp.any(info != 0), error


@op(
    "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    aten={"calls": _composed.solve},
    variants="out",
    node="LinalgSolveExBackward",
    check=_singular_system,
    vjp={"A, B": _solve_vjp},
    backward=_derivatives.SOLVE,
    autocast={"cpu": "fp32"},
    columns=(0,),
    layout=result_layouts.solved,
)
def linalg_solve(A, B, left):
    """The X with ``A @ X = B`` (``X @ A = B`` with ``left=False``); batches are broadcast.

    B may be a vector. Raises LinAlgError if A is singular.

    >>> import torchlike as torch
    >>> torch.linalg.solve(torch.tensor([[2., 0.], [0., 4.]]), torch.tensor([1., 1.]))
    tensor([0.5000, 0.2500])
    """
    return _solve("linalg.solve", A, B, left)


@op(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)",
    aten={"out": "out", "calls": _composed_sums.solve_ex},
    variants="out",
    nondiff=(1,),
    check=_singular_system,
    vjp={"A, B": lambda grads, A, B_aval, result, left: _solve_vjp(grads[0], A, B_aval, result, left)},
    backward=_derivatives.SOLVE_EX,
    columns=(0,),
    layout=result_layouts.solved,
)
def linalg_solve_ex(A, B, left, check_errors):
    """(result, info): as ``torch.linalg.solve``; info is not 0 where A is singular, an error with ``check_errors``."""
    out = _solve("linalg.solve_ex", A, B, left)
    return out, first_zero(lu_pivots(A)) if A.size else jnp.zeros(A.shape[:-2], jnp.int32)


def _triangular(a, b, left, upper, unit, trans=False):
    if not b.size:
        return b
    a, b = broadcast_batches(a, b)
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, transpose_a=trans, unit_diagonal=unit)


@op(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor",
    variants="out",
    saved="left result! self unitriangular upper ~B",
    backward=_derivatives.SOLVE_TRIANGULAR,
    columns=(0,),
)
def solve_triangular(self, B, upper, left, unitriangular):
    """The X with ``A @ X = B`` (``X @ A = B`` with ``left=False``) for triangular A.

    The other triangle of A is not read.

    >>> import torchlike as torch
    >>> A, B = torch.tensor([[2., 9.], [0., 4.]]), torch.tensor([[2.], [4.]])
    >>> torch.linalg.solve_triangular(A, B, upper=True)
    tensor([[-3.5000],
            [ 1.0000]])
    """
    name = "linalg.solve_triangular"
    square(name, self)
    matrices(name, B, "B")
    a, b = system(name, self, B, left)
    return _triangular(a, b, left, upper, unitriangular)


@op("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)"
    " -> (Tensor solution, Tensor cloned_coefficient)", aten={"out": "X X M"}, variants="function method out",
    saved="A! self! solution! transpose unitriangular upper", autocast={"cpu": "fp32"},
    backward=_derivatives.TRIANGULAR_SOLVE,
    columns=(0, 1))  # fmt: skip
def triangular_solve(self, A, upper, transpose, unitriangular):
    """(solution, coefficient) of ``A @ X = b`` for triangular A; ``torch.linalg.solve_triangular`` is the "
    "newer form."""
    for what, x in (("b", self), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {what} to have at least 2 dimensions, but it has {x.ndim}"
            )
    a, b = system("triangular_solve", A, self, True)
    return _triangular(a, b, True, upper, unitriangular, transpose), a


# -- Cholesky ----------------------------------------------------------------------------------------


def _not_positive(name):
    def check(self, upper, check_errors=True):
        if not check_errors:
            return None, None
        if self.ndim < 2 or self.shape[-1] != self.shape[-2] or not self.size:
            return jnp.zeros((), bool), RuntimeError("")
        low = cholesky_factor(self, upper)
        bad = jnp.any(jnp.isnan(jnp.real(diagonal(low))))

        def error():
            batch, k = first_bad(reached(adjoint(self), adjoint(low))[1] if upper else reached(self, low)[1])
            return _LinAlgError(
                f"{name}: {batch}The factorization could not be completed because the input is not "
                "positive-definite "
                f"(the leading minor of order {k} is not positive-definite)."
            )

        return bad, error

    return check


@op(
    "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    aten={"calls": _composed.cholesky},
    variants="out",
    node="LinalgCholeskyExBackward",
    check=_not_positive("linalg.cholesky"),
    vjp={"self": lambda grad, result, upper: cholesky_vjp(grad, result, upper)},
    jvp={"self": lambda dot, result, upper: cholesky_jvp(dot, result, upper)},
    saved={"L": "result", "upper": "upper"},
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def linalg_cholesky(self, upper):
    """The lower triangular L with ``L @ L.mH = A`` of Hermitian positive-definite matrices (``upper``: L.mH).

    Only one triangle is read; the gradient is symmetric. Raises LinAlgError if A is not positive-definite.

    >>> import torchlike as torch
    >>> torch.linalg.cholesky(torch.tensor([[4., 2.], [2., 5.]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    square("linalg.cholesky", self)
    return cholesky_factor(self, upper)


@op(
    "cholesky(Tensor self, bool upper=False) -> Tensor",
    out="cast safely",
    variants="function method out",
    check=_not_positive("cholesky"),
    vjp={"self": lambda grad, result, upper: cholesky_vjp(grad, result, upper)},
    jvp={"self": lambda dot, result, upper: cholesky_jvp(dot, result, upper)},
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def cholesky(self, upper):
    """The Cholesky factor; the older name of ``torch.linalg.cholesky``."""
    square("cholesky", self)
    return cholesky_factor(self, upper)


@op(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    aten={"out": "L"},
    variants="out",
    nondiff=(1,),
    check=_not_positive("linalg.cholesky_ex"),
    vjp={"self": lambda grads, L, upper: cholesky_vjp(grads[0], L, upper)},
    jvp={"self": lambda dot, L, upper: cholesky_jvp(dot, L, upper)},
    autocast={"cpu": "fp32"},
    columns=(0,),
)
def linalg_cholesky_ex(self, upper, check_errors):
    """(L, info): info is 0, or the order of the first leading minor that is not positive.

    L is what was computed until then, as LAPACK leaves it. With ``check_errors`` that is an error.
    """
    square("linalg.cholesky_ex", self)
    low = cholesky_factor(self, upper)
    if not upper:
        return reached(self, low)
    factor, order = reached(adjoint(self), adjoint(low))
    return adjoint(factor), order


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _solve_by_factor(factor, b, upper):
    return _by_factor(factor, b, upper)


@_solve_by_factor.defjvp
def _solve_by_factor_jvp(upper, values, dots):
    """With ``A = L @ L.mH``: the whole factor takes part, as in PyTorch, not its triangle alone."""
    (factor, b), (to_factor, to_b) = values, dots
    x = _solve_by_factor(factor, b, upper)
    half = mm(adjoint(to_factor), factor) if upper else mm(to_factor, adjoint(factor))
    return x, _solve_by_factor(factor, to_b - mm(half + adjoint(half), x), upper)


@op("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", variants="function method out",
    out="cast safely", saved="input2 result! self upper", autocast={"cpu": "fp32"},
    vjp=_derivatives.CHOLESKY_SOLVE,
    columns=(0,))  # fmt: skip
def cholesky_solve(self, input2, upper):
    """The X with ``A @ X = B`` where ``input2`` is the Cholesky factor of A.

    >>> import torchlike as torch
    >>> torch.cholesky_solve(torch.tensor([[4.], [8.]]), 2 * torch.eye(2))
    tensor([[1.],
            [2.]])
    """
    for what, x in (("b", self), ("u", input2)):
        if x.ndim < 2:
            raise RuntimeError(
                f"{what} should have at least 2 dimensions, but has {x.ndim} dimensions instead (cholesky_solve)"
            )
    low, b = system("cholesky_solve", input2, self, True)
    return _solve_by_factor(low, b, upper)


def _by_factor(factor, b, upper):
    if not b.size:
        return b
    low = adjoint(factor) if upper else factor
    half = lax.linalg.triangular_solve(low, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(low, half, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


def _zero_on_diagonal(self, upper):
    if not self.size or self.ndim < 2:
        return None, None
    info = first_zero(diagonal(self))

    def error():
        batch, k = first_bad(info)
        return _LinAlgError(
            f"cholesky_inverse: {batch}The diagonal element {k} is zero, the inversion could not be completed because "
            "the input matrix is singular."
        )

    return jnp.any(info != 0), error


@op("cholesky_inverse(Tensor self, bool upper=False) -> Tensor", out="cast safely", variants="function method out",
    check=_zero_on_diagonal,
    saved="result! self! upper", autocast={"cpu": "fp32"}, vjp={"self": _derivatives.cholesky_inverse},
    columns=(0,))  # fmt: skip
def cholesky_inverse(self, upper):
    """The inverse of the matrix whose Cholesky factor is given.

    >>> import torchlike as torch
    >>> torch.cholesky_inverse(2 * torch.eye(2))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.2500]])
    """
    square("cholesky_inverse", self)
    return _solve_by_factor(self, jnp.broadcast_to(eye_like(self), self.shape), upper)


# -- functions of matrices ---------------------------------------------------------------------------


def _power(name, x, n):
    if n >= 0 and not is_floating(x):  # of whole numbers, but inverses of none
        square(name, x.astype(jnp.float32), low=True)
        if x.dtype == bool and n > 1:
            raise NotImplementedError("\"linalg_matrix_power\" not implemented for 'Bool'; use .int()")
    else:
        square(name if n >= 0 else "linalg.inv", x, low=n >= 0)
    if n < 0:
        x, n = _inverse(x), -n
    out = jnp.broadcast_to(eye_like(x), x.shape) if n == 0 else None
    while n:
        if n & 1:
            out = x if out is None else mm(out, x)
        n >>= 1
        x = mm(x, x) if n else x
    return out


def _singular_power(self, n):
    if n >= 0 or self.ndim < 2 or self.shape[-1] != self.shape[-2]:
        return jnp.zeros((), bool), RuntimeError("")
    return _singular_inverse("linalg.inv")(A=self)


def _class_of_power(n):
    """What autocast does: products in the lower precision, inverses in float32; both, where they are multiplied."""
    return "fp32_rounded" if n < -1 else "fp32" if n < 0 else "lower_precision_fp" if n > 1 else None


@op(
    "linalg_matrix_power(Tensor self, int n) -> Tensor",
    aten={"out": "out", "calls": _composed_sums.matrix_power},
    variants="out",
    node="MmBackward",
    check=_singular_power,
    saved="",
    autocast=_class_of_power,
    columns=(0,),
    layout=result_layouts.inverted,
)
def linalg_matrix_power(self, n):
    """The ``n``-th power of square matrices; of the inverse if ``n`` is negative.

    >>> import torchlike as torch
    >>> torch.linalg.matrix_power(torch.tensor([[1., 1.], [0., 1.]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    return _power("linalg.matrix_power", self, n)


@op("matrix_power(Tensor self, int n) -> Tensor", variants="function method out", node="MmBackward",
    check=_singular_power, autocast=_class_of_power,
    columns=(0,), layout=result_layouts.inverted)  # fmt: skip
def matrix_power(self, n):
    """The ``n``-th power of square matrices; another name of ``torch.linalg.matrix_power``."""
    return _power("linalg.matrix_power", self, n)


_SQUARINGS = 48


def _exp(x):
    """Scaled until the approximant is exact to the last digits, and squared: jax scales by one power of two less."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32)) if is_floating(x) else x
    square("linalg.matrix_exp", wide)
    if not x.size:
        return x
    norm = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(wide), -2), -1))
    largest = 5.37 if norm.dtype == jnp.float64 else 3.92
    times = jnp.clip(jnp.ceil(jnp.log2(norm / largest)), 0, _SQUARINGS)
    times = jnp.where(times == times, times, 0)[..., None, None]  # NaN in one matrix is none of the others' business
    most = jnp.max(times)

    def step(y, i):
        return lax.cond(i < most, lambda y: jnp.where(i < times, mm(y, y), y), lambda y: y, y), None

    base = jax.scipy.linalg.expm(wide * jnp.exp2(-times).astype(norm.dtype), max_squarings=0)
    return lax.scan(step, base, jnp.arange(_SQUARINGS))[0].astype(x.dtype)


@op("linalg_matrix_exp(Tensor self) -> Tensor", variants="", saved="self!", backward=_derivatives.matrix_exp)
def linalg_matrix_exp(self):
    """The exponential of square matrices.

    >>> import torchlike as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return _exp(self)


@op("matrix_exp(Tensor self) -> Tensor", aten={"out": None, "calls": _composed.renamed("linalg_matrix_exp")},
    node="LinalgMatrixExpBackward")  # fmt: skip
def matrix_exp(self):
    """The exponential of square matrices; another name of ``torch.linalg.matrix_exp``."""
    return _exp(self)
