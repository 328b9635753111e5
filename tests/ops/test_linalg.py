"""Linear algebra: values, derivatives (through what does not depend on signs and phases), errors."""

import math

import jax
import numpy as np
import pytest
import torch
from both import agree, agree_error
from oracle import check

import torchlike

nan, inf = float("nan"), float("inf")
rng = np.random.RandomState(11)
A = rng.randn(3, 3) + 2 * np.eye(3)
BATCH = rng.randn(2, 3, 3) + 2 * np.eye(3)
TALL, WIDE = rng.randn(5, 3), rng.randn(3, 5)
B, V = rng.randn(3, 2), rng.randn(3)
LOW = np.tril(rng.rand(3, 3)) + np.eye(3)
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
ZERO = np.zeros((3, 3))
INTS = np.arange(9).reshape(3, 3)
EMPTY = np.zeros((2, 0, 0))


def complex_of(x):
    return x + 0.5j * rng.randn(*x.shape)


def lam(text, names="x"):
    return eval(f"lambda t, {names}: {text}", {"nan": nan, "inf": inf})


def cases(text):
    return [c.strip() for line in text.split("\n") for c in line.split("|")]


ONE = """L.inv(x) | x.inverse() | L.det(x) | x.det() | L.slogdet(x) | x.slogdet()[1]
L.matrix_power(x, 3) | x.matrix_power(0)
L.matrix_power(x, -2) | L.matrix_power(x, 1) | L.matrix_exp(x) | L.inv_ex(x)[0] | L.lu_factor(x)
L.lu(x) | L.lu_factor_ex(x)
L.pinv(x) | L.svdvals(x) | L.norm(x) | L.cond(x) | L.cond(x, 1) | L.cond(x, "fro") | L.cond(x, -2)
L.matrix_norm(x)
L.matrix_norm(x, "nuc") | L.matrix_norm(x, 2) | L.matrix_norm(x, -2) | L.matrix_norm(x, 1)
L.matrix_norm(x, -1)
L.matrix_norm(x, inf) | L.matrix_norm(x, -inf, keepdim=True) | L.cholesky(x @ x.mH)
L.cholesky(x @ x.mH, upper=True)
t.cholesky(x @ x.mH) | L.cholesky_ex(x @ x.mH)[0] | L.eigvalsh(x + x.mH) | L.eigvalsh(x + x.mH, UPLO="U")
L.eigh(x + x.mH)[1].abs() | L.svd(x)[0].abs() | L.svd(x)[2].abs() | L.svd(x)[1] | t.svd(x)[1]
L.qr(x)[0].abs() | L.qr(x)[1].abs()
t.logdet(x @ x.mH) | L.pinv(x @ x.mH, hermitian=True) | L.eigvals(x).abs().sum(-1) | t.pinverse(x)"""
NOT_SECOND = ("eigvals(", ".abs()", "lu(", "lu_factor", "L.cond(x, -2)", "-2)")


@pytest.mark.parametrize("case", cases(ONE))
@pytest.mark.parametrize("array", [A, BATCH, complex_of(A)], ids=["matrix", "batch", "complex"])
def test_square(case, array):
    second = array is A and not any(n in case for n in NOT_SECOND)
    # PyTorch cannot differentiate its own condition numbers but those of order 2 and -2.
    grad = case not in ("L.cond(x, 1)", 'L.cond(x, "fro")')
    check(
        lam(case.replace("L.", "t.linalg.")),
        array,
        stride=False,
        grad=grad,
        gradgrad=second,
        jit=array is A,
        tol=10,
    )


RECTANGULAR = """L.pinv(x) | L.svdvals(x) | L.svd(x, full_matrices=False)[0].abs()
L.svd(x, full_matrices=False)[2].abs()
L.matrix_norm(x, "nuc") | L.norm(x, 2) | L.norm(x, inf) | L.norm(x, 1, dim=0) | L.norm(x, dim=(0, 1))
L.qr(x)[1].abs()
L.qr(x)[0].abs() | L.matrix_norm(x, 1, dim=(1, 0)) | L.lu(x)[2] | L.lu_factor(x)[0] | L.cond(x)
t.svd(x)[2].abs()
L.svd(x)[1] | t.lu_unpack(*L.lu_factor(x))[1]"""


@pytest.mark.parametrize("case", cases(RECTANGULAR))
@pytest.mark.parametrize("array", [TALL, WIDE], ids=["tall", "wide"])
def test_rectangular(case, array):
    check(
        lam(case.replace("L.", "t.linalg.")),
        array,
        stride=False,
        gradgrad="pinv" in case or "norm" in case,
        jit=False,
        tol=10,
    )


def product(case, names, *arrays, **options):
    check(
        lam(case.replace("L.", "t.linalg."), names),
        *arrays,
        stride=False,
        **{"tol": 10, "jit": False, **options},
    )


SOLVES = [
    ("L.solve(x, y)", A, B),
    ("L.solve(x, y)", A, V),
    ("L.solve(x, y)", BATCH, B),
    ("L.solve(x, y)", BATCH, rng.randn(2, 3)),
    ("L.solve(x, y)", A, rng.randn(4, 3, 2)),
    ("L.solve(x, y, left=False)", A, B.T.copy()),
    ("L.solve_ex(x, y)[0]", A, B),
    ("L.solve_triangular(x, y, upper=True)", A, B),
    ("L.solve_triangular(x, y, upper=False, unitriangular=True)", A, B),
    ("L.solve_triangular(x, y, upper=True, left=False)", BATCH, B.T.copy()),
    ("t.cholesky_solve(y, x)", LOW, B),
    ("t.cholesky_inverse(x) @ y", LOW, B),
    ("t.triangular_solve(y, x)[0]", A, B),
    ("t.triangular_solve(y, x, transpose=True, upper=False)[0]", A, B),
    ("L.lu_solve(*L.lu_factor(x), y)", A, B),
    ("L.lu_solve(*L.lu_factor(x), y, adjoint=True)", A, B),
    ("L.lu_solve(*L.lu_factor(x), y, left=False)", A, B.T.copy()),
    ("t.lu_solve(y, *L.lu_factor(x))", BATCH, B),
    ("L.lstsq(x, y).solution", TALL, rng.randn(5, 2)),
    ("L.lstsq(x, y).solution", WIDE, rng.randn(3, 2)),
    ("L.lstsq(x, y)", A, B),
    ("L.lstsq(x, y, driver='gelsd')[0]", TALL, rng.randn(5)),
    ("L.lstsq(x, y).solution", TALL[None].repeat(2, 0), rng.randn(2, 5)),
    ("L.lstsq(x, y).solution", TALL[None], np.random.RandomState(1).randn(2, 5, 2)),
    ("L.lstsq(x, y).solution", np.random.RandomState(2).randn(2, 1, 5, 3), np.random.RandomState(3).randn(1, 3, 5, 2)),
    ("L.tensorsolve(x, y)", rng.randn(2, 3, 6), rng.randn(2, 3)),
    ("L.householder_product(x, y)", TALL, rng.randn(3)),
]


@pytest.mark.parametrize("case, x, y", SOLVES, ids=[f"{s[0]}-{i}" for i, s in enumerate(SOLVES)])
def test_systems(case, x, y):
    product(case, "x, y", x, y, jit=True)


@pytest.mark.parametrize("case, x, y", SOLVES[:18], ids=[f"{s[0]}-{i}" for i, s in enumerate(SOLVES[:18])])
def test_complex_systems(case, x, y):
    x = complex_of(x)
    if "cholesky" in case:
        x = np.tril(x) - 1j * np.diag(np.diag(x).imag)  # a factor's diagonal is real
    product(case, "x, y", x, complex_of(y), gradgrad=False)


RCONDS = [("gels", 0.9), ("gelsd", 1.0), ("gelsd", -1.0), ("gelsd", 0.0), ("gelss", -1.0), ("gelss", 0.4)]


@pytest.mark.parametrize(("driver", "rcond"), RCONDS)
def test_least_squares_cut_off(driver, rcond):
    full, lacking = [[2.0, 1.0], [1.0, 3.0], [0.5, 1.0]], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.0]]
    for a in (full,) if driver == "gels" else (full, lacking):
        agree(
            lambda t, a=a: list(
                t.linalg.lstsq(t.tensor(a), t.tensor([[1.0], [-0.5], [2.0]]), rcond=rcond, driver=driver)[:3]
            )
        )


def test_least_squares_results():
    for driver in ("gels", "gelsy", "gelsd", "gelss"):
        product(f"L.lstsq(x, y, driver='{driver}')", "x, y", TALL, rng.randn(5, 2), gradgrad=False)
    product("L.lstsq(x, y, driver='gelsd')", "x, y", SINGULAR[:, :2], B, grad=False)
    product("L.lstsq(x, y, driver='gelss')[:3]", "x, y", TALL[None].repeat(2, 0), rng.randn(2, 5), grad=False)


def test_degenerate_values_have_gradients():
    product("L.svdvals(x)", "x", np.eye(3), gradgrad=False)
    product("L.svd(x)[1].sum()", "x", np.eye(3), gradgrad=False)
    product("L.eigvalsh(x).prod()", "x", np.eye(3), gradgrad=False)
    product("L.eigh(x)[0]", "x", np.eye(3), gradgrad=False)
    product("L.matrix_norm(x, 'nuc')", "x", np.eye(3), gradgrad=False)
    x = torchlike.from_numpy(SINGULAR).requires_grad_()
    torchlike.linalg.det(x).backward()
    cofactors = [[4, 4, -4], [-2, -2, 2], [0, 0, 0]]
    np.testing.assert_allclose(x.grad.numpy(), cofactors, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["inv", "det", "slogdet", "cholesky", "eigvalsh", "svdvals", "matrix_exp", "pinv", "matrix_rank"]
)
def test_empty(name):
    check(lambda t, x: getattr(t.linalg, name)(x), EMPTY, stride=False, gradgrad=False)


def test_empty_rectangles():
    for shape in ((0, 3), (3, 0)):
        check(lambda t, x: t.linalg.svd(x), np.zeros(shape), stride=False, gradgrad=False)
        check(lambda t, x: t.linalg.svdvals(x), np.zeros(shape), stride=False, gradgrad=False)
        check(lambda t, x: t.linalg.qr(x), np.zeros(shape), stride=False, gradgrad=False)
        check(lambda t, x: t.linalg.pinv(x), np.zeros(shape), stride=False, gradgrad=False)


RANKS = """L.matrix_rank(x) | L.matrix_rank(x, atol=0.5) | L.matrix_rank(x, rtol=0.5)
L.matrix_rank(x, tol=1e-3)
L.matrix_rank(x, hermitian=True) | L.matrix_rank(x, 0.1, True)
L.matrix_rank(x, atol=t.tensor(0.2, dtype=t.float64), rtol=0.1)
L.pinv(x, atol=0.5) | L.pinv(x, rtol=0.5) | L.pinv(x, 0.4) | L.pinv(x, rcond=0.5) | t.pinverse(x, 0.4)"""


@pytest.mark.parametrize("case", cases(RANKS))
def test_tolerances(case):
    matrix = np.diag([2.0, 0.9, 0.3, 1e-17])
    product(case, "x", matrix, grad=False)


def test_reconstruction():
    for array in (TALL, WIDE, complex_of(TALL)):
        x = torchlike.from_numpy(array)
        u, s, vh = torchlike.linalg.svd(x, full_matrices=False)
        q, r = torchlike.linalg.qr(x)
        for got in (u @ torchlike.diag(s).to(x.dtype) @ vh, q @ r):
            np.testing.assert_allclose(got.numpy(), array, atol=1e-12)
    values, vectors = torchlike.linalg.eig(torchlike.from_numpy(A))
    np.testing.assert_allclose((vectors @ torchlike.diag(values) @ vectors.inverse()).numpy(), A, atol=1e-10)
    full = torchlike.linalg.svd(torchlike.from_numpy(TALL))
    assert full.U.shape == (5, 5) and full.Vh.shape == (3, 3)
    assert [tuple(m.shape) for m in torchlike.linalg.qr(torchlike.from_numpy(TALL), mode="complete")] == [
        (5, 5),
        (5, 3),
    ]
    assert [tuple(m.shape) for m in torchlike.linalg.qr(torchlike.from_numpy(TALL), mode="r")] == [
        (0,),
        (3, 3),
    ]


def test_low_rank():
    torchlike.manual_seed(0)
    x = torchlike.from_numpy(rng.randn(20, 3) @ rng.randn(3, 10))
    u, s, v = torchlike.svd_lowrank(x, q=4)
    np.testing.assert_allclose((u * s @ v.T).numpy(), x.numpy(), atol=1e-10)
    u, s, v = torchlike.pca_lowrank(x, q=3)
    np.testing.assert_allclose((u * s @ v.T).numpy(), (x - x.mean(0)).numpy(), atol=1e-10)


ERRORS = [
    ("L.inv(x)", ZERO, "singular"),
    ("L.inv(x)", TALL, "5 by 3"),
    ("L.inv(x)", V, "at least 2"),
    ("L.inv(x)", INTS, "floating"),
    ("L.inv(x)", A.astype(np.float16), "precision"),
    ("L.inv(x)", np.stack([A, ZERO]), r"Batch element 1\): The diagonal element 1"),
    ("L.solve(x, x[0])", SINGULAR * 0, "singular"),
    ("L.solve(x, x[:2])", A, "Incompatible shapes"),
    ("L.solve(x, x.float())", A, "same dtype"),
    ("L.cholesky(x)", -np.eye(3), "leading minor of order 1"),
    ("L.cholesky(x)", np.diag([1.0, 2.0, -1.0]), "order 3"),
    ("L.cholesky(x)", np.stack([np.eye(2), np.diag([1.0, -1.0])]), r"Batch element 1\): .*order 2"),
    ("t.cholesky(x)", -np.eye(3), "positive-definite"),
    ("L.cholesky(x)", TALL, "square"),
    ("L.svd(x)", np.full((2, 2), nan), "non-finite"),
    ("L.svdvals(x)", np.full((3, 2, 2), [[[1.0]], [[nan]], [[nan]]]), "Batch element 1.: The algorithm failed"),
    ("L.lstsq(x, x[:, 0][:2])", TALL, r"should match other.size\(-1\)"),
    ("L.svd(x)", V, "at least 2"),
    ("L.eigh(x)", TALL, "square"),
    ("L.eigh(x, UPLO='X')", A, "UPLO"),
    ("L.eig(x)", np.full((2, 2), inf), "infs or NaNs"),
    ("L.qr(x, mode='x')", A, "mode"),
    ("L.det(x)", TALL, "square"),
    ("L.matrix_power(x, 2)", TALL, "square"),
    ("L.matrix_power(x, -1)", ZERO, "singular"),
    ("L.matrix_norm(x, 3)", A, "Order 3 not supported"),
    ("L.matrix_norm(x)", V, "at least 2"),
    ("L.matrix_norm(x, dim=(0, 0))", A, "different"),
    ("L.matrix_norm(x, dim=(0,))", A, "2-tuple"),
    ("L.norm(x, 2)", BATCH, "1D or 2D"),
    ("L.norm(x, 1, dim=(0, 1, 2))", BATCH, "length 1 or 2"),
    ("L.cond(x, 3)", A, "norm type"),
    ("L.cond(x, 1)", TALL, "square"),
    ("L.lstsq(x, x[:2])", TALL, "size"),
    ("L.lstsq(x, x, driver='x')", TALL, "driver"),
    ("L.solve_triangular(x, x[0], upper=True)", A, "at least 2"),
    ("t.cholesky_solve(x[0], x)", A, "at least 2"),
    ("L.tensorinv(x, ind=0)", A, "positive"),
    ("L.svd(x, driver='gesvd')", A, "driver"),
    ("L.matrix_exp(x)", TALL, "square"),
    ("L.lu_factor(x)", V, "at least 2"),
    ("L.svdvals(x)", INTS, "floating"),
]


@pytest.mark.parametrize("case, array, match", ERRORS, ids=[f"{e[0]}-{i}" for i, e in enumerate(ERRORS)])
def test_errors(case, array, match):
    f = lam(case.replace("L.", "t.linalg."))
    with pytest.raises(Exception) as expected:
        f(torch, torch.from_numpy(np.array(array)))
    with pytest.raises(Exception, match=match) as got:
        f(torchlike, torchlike.from_numpy(np.array(array)))
    wanted = torchlike.linalg.LinAlgError if expected.type is torch.linalg.LinAlgError else expected.type
    assert got.type is wanted


def test_info_instead_of_errors():
    for case in ("L.inv_ex(x).info", "L.solve_ex(x, x).info", "L.lu_factor_ex(x).info"):
        product(case, "x", np.stack([A, ZERO]), grad=False)
    product(
        "L.cholesky_ex(x).info",
        "x",
        np.stack([np.eye(3), np.diag([1.0, 1.0, -1.0]), np.array([[1.0, 0, 0], [2, 1, 0], [0, 0, 1]])]),
        grad=False,
    )
    product("L.cholesky_ex(x, upper=True).info", "x", np.diag([-1.0, 1.0]), grad=False)


def _reached(n, bad, kind):
    """A matrix with a leading minor of order ``bad`` that is not positive; its upper triangle is another one's."""
    roots = np.random.RandomState(n).randn(2, n, n)
    x = roots[0] @ roots[0].T + n * np.eye(n) + np.triu(roots[1], 1) * (1j if kind.startswith("c") else 1)
    x[bad - 1, bad - 1] = -3
    return x.astype(kind)


@pytest.mark.parametrize("kind", ["float64", "complex128", "float32"])
@pytest.mark.parametrize(("n", "bad"), [(1, 1), (3, 1), (3, 2), (3, 3), (20, 11)])
def test_factors_as_far_as_they_exist(n, bad, kind):
    """What LAPACK leaves: a program may go on with the leading minor, and with the pivot that was not positive."""
    product("L.cholesky_ex(x)", "x", _reached(n, bad, kind), grad=False)
    product(
        "L.cholesky_ex(x, upper=True)", "x", np.stack([_reached(n, bad, kind), n * np.eye(n, dtype=kind)]), grad=False
    )
    spoilt = _reached(n, bad, kind)
    spoilt[bad - 1, bad - 1] = np.nan
    product("L.cholesky_ex(x)", "x", spoilt, grad=False)


def test_info_is_not_zero_where_there_is_no_factor():
    roots = np.random.RandomState(3).randn(200, 8, 4).astype("float32")
    x = torchlike.from_numpy(roots @ roots.swapaxes(1, 2) + 3e-7 * np.eye(8, dtype="float32"))  # zero but for rounding
    factor, info = torchlike.linalg.cholesky_ex(x)
    gap = (factor @ factor.mT - x).abs().flatten(1).amax(1)
    assert (info > 0).any() and not factor.isnan().any() and (gap[info == 0] < 1e-5).all()


def test_the_exponential_of_large_matrices_is_exact_to_the_last_digits():
    """A matrix whose powers turn the plane: sine and cosine of angles between powers of two."""
    angle = np.array([3.0, 5.0, 6.2, 9.9, 40.0, 700.0])
    turn = angle[:, None, None] * np.array([[0.0, 1.0], [-1.0, 0.0]])
    for kind, digits in (("float64", 1e-15), ("float32", 6e-7)):
        got = torchlike.matrix_exp(torchlike.from_numpy(turn.astype(kind))).numpy()
        wrong = np.abs(got[:, 0] - np.stack([np.cos(angle), np.sin(angle)], 1)).max(1)
        assert (wrong < digits * (4 + angle)).all()


def test_one_triangle_is_read():
    upper = np.triu(A @ A.T) + np.tril(rng.randn(3, 3), -1)
    product("L.cholesky(x, upper=True)", "x", upper, gradgrad=False)
    product("L.eigvalsh(x, UPLO='U')", "x", upper, gradgrad=False)
    product("L.cholesky(x)", "x", upper.T.copy(), gradgrad=False)


def test_not_differentiable_qr():
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete'"):
        torchlike.linalg.qr(torchlike.from_numpy(TALL).requires_grad_(), mode="complete").R.sum().backward()


def test_out():
    x = torchlike.from_numpy(A)
    out = torchlike.empty(3, 3, dtype=torchlike.float64)
    assert torchlike.linalg.inv(x, out=out) is out
    np.testing.assert_allclose((out @ x).numpy(), np.eye(3), atol=1e-12)
    s = torchlike.linalg.svd(
        x, out=(torchlike.empty_like(x), torchlike.empty(3, dtype=x.dtype), torchlike.empty_like(x))
    ).S
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(A)[1])


def test_singular_under_jit_gives_infinities():
    got = jax.jit(lambda v: torchlike.linalg.inv(torchlike.from_jax_array(v)).jax())(ZERO)
    assert not np.isfinite(np.asarray(got)).any()


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool"])
def test_powers_of_whole_numbers(kind):
    def powers(t):
        x = t.tensor([[3, 1, 0], [2, 1, 3], [1, 0, 2]], dtype=getattr(t, kind))
        found = [t.matrix_power(x, n) for n in ((0, 1) if kind == "bool" else (0, 1, 2, 5))]
        return [(y.tolist(), str(y.dtype)) for y in found]

    agree(powers)
    agree_error(lambda t: t.matrix_power(t.ones(2, 2, dtype=getattr(t, kind)), -1), "linalg.inv: Expected a floating")


def test_the_sign_of_a_determinant_that_is_nan_is_zero():
    nan = math.nan
    for rows in ([[nan, 1.0], [1.0, 2.0]], [[4.0, 2.0, 0.0], [2.0, nan, 0.0], [0.0, 0.0, 9.0]]):
        agree(lambda t, rows=rows: [str(x.item()) for x in t.linalg.slogdet(t.tensor(rows))])
        agree(lambda t, rows=rows: str(t.logdet(t.tensor(rows)).item()))


def test_grad_fn_names():
    def names(t):
        x, L = t.eye(2, requires_grad=True), t.linalg
        results = (
            L.inv(x),
            L.det(x),
            L.slogdet(x)[1],
            L.solve(x, x),
            L.cholesky(x),
            L.qr(x)[0],
            L.svd(x)[1],
            L.svdvals(x),
            L.eigh(x)[0],
            L.eigvalsh(x),
            L.eig(x)[0],
            L.pinv(x),
            L.matrix_exp(x),
            L.lu_factor(x)[0],
            L.solve_triangular(x, x, upper=True),
            L.lstsq(x, x)[0],
            x.inverse(),
            x.det(),
            t.cholesky_solve(x, x),
            L.vector_norm(x),
            L.matrix_norm(x, 2),
        )
        return [r.grad_fn.name() for r in results]

    assert names(torchlike) == names(torch)


def test_names():
    missing = {n for n in dir(torch.linalg) if not n.startswith("_")} - set(dir(torchlike.linalg))
    assert missing <= {"common_notes"}


@pytest.mark.parametrize("p", [None, 1, -2, "fro"])
def test_cond_of_nothing(p):
    check(lambda t, x: t.linalg.cond(x, p), EMPTY, jit=False, grad=False)
    for shape in ((0, 0), (2, 0), (0, 3, 3)) if p != "fro" else ((0, 0),):
        check(lambda t, x, shape=shape: t.linalg.cond(x.new_zeros(shape), p), EMPTY, jit=False, grad=False)


WITHOUT_ELEMENTS = [
    lambda t: t.linalg.pinv(t.ones(3, 0), rcond=t.ones(3, 0, 1)),
    lambda t: t.linalg.pinv(t.ones(2, 0, 3), atol=t.ones(5), hermitian=True),
]


@pytest.mark.parametrize("f", WITHOUT_ELEMENTS)
def test_pseudo_inverses_without_elements(f):
    agree(f)
