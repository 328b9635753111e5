"""Matrix products in every combination of ranks, index notation, and element by element."""

import itertools

import jax
import numpy as np
import pytest
import torch
from both import agree
from oracle import check, check_error

import torchlike
from torchlike._ops import distance, similarity
from torchlike.interop import to_jax

nan, inf = float("nan"), float("inf")
rng = np.random.RandomState(7)
A, B, C = rng.randn(3, 4), rng.randn(4, 2), rng.randn(3, 2)
BATCH, OTHER = rng.randn(5, 3, 4), rng.randn(5, 4, 2)
V, W = rng.randn(4), rng.randn(3)
SHAPES = {"1": (4,), "2": (4, 4), "3": (2, 4, 4), "3 of one": (1, 4, 4), "4": (3, 1, 4, 4), "wide": (2, 4, 3)}


def lam(text, names="x, y, z"):
    return eval(f"lambda t, {names}: {text}", {"nan": nan, "inf": inf})


def cases(text):
    return [c.strip() for line in text.split("\n") for c in line.split("|")]


def complex_of(x):
    return np.asarray(x + 1j * rng.permutation(x.ravel()).reshape(x.shape))


@pytest.mark.parametrize("left, right", list(itertools.product([k for k in SHAPES if k != "wide"], SHAPES)))
def test_matmul_of_all_ranks(left, right):
    check(
        lambda t, x, y: x @ y,
        rng.randn(*SHAPES[left]),
        rng.randn(*SHAPES[right]),
        stride=False,
        gradgrad=False,
    )


PRODUCTS = [
    ("t.mm(x, y)", A, B),
    ("x.bmm(y)", BATCH, OTHER),
    ("x.mv(y)", A, V),
    ("t.dot(x, y)", V, V[::-1].copy()),
    ("x.vdot(y)", V, V * 2),
    ("t.inner(x, y)", A, rng.randn(2, 5, 4)),
    ("x.inner(y)", V, V),
    ("t.inner(x, y)", A, np.array(2.0)),
    ("t.inner(x, t.tensor(2.5)) * y", A, np.array(2.0)),
    ("t.inner(t.tensor(2), y)", V, W),
    ("t.outer(x, y)", V, W),
    ("x.ger(y)", V, W),
    ("t.matmul(x, y)", BATCH, B),
    ("x.matmul(y)", A, OTHER),
    ("t.kron(x, y)", A, B),
    ("t.kron(x, y)", A, V),
    ("t.tensordot(x, y)", BATCH, rng.randn(3, 4, 2)),
    ("t.tensordot(x, y, 1)", A, B),
    ("t.tensordot(x, y, 0)", V, W),
    ("t.tensordot(x, y, ([1, 0], [0, 2]))", A, rng.randn(4, 2, 3)),
    ("t.tensordot(x, y, dims=([0], [1]))", A, rng.randn(2, 1)),
    ("t.cross(x, y)", rng.randn(2, 3), rng.randn(2, 3)),
    ("t.cross(x, y, dim=0)", rng.randn(3, 2), rng.randn(3, 1)),
    ("t.linalg.cross(x, y)", rng.randn(2, 3), rng.randn(1, 3)),
    ("t.linalg.vecdot(x, y)", A, V),
    ("t.linalg.vecdot(x, y, dim=0)", A, A),
    ("t.nn.functional.linear(x, y)", A, rng.randn(5, 4)),
    ("t.nn.functional.linear(x, y)", BATCH, rng.randn(5, 4)),
    ("t.nn.functional.linear(x, y)", V, rng.randn(5, 4)),
    ("t.nn.functional.linear(x, y)", A, V),
    ("y.__rmatmul__(x)", A, B),
    ("t.mm(x.t(), y.t())", rng.randn(4, 3), rng.randn(2, 4)),
    ("x[:, ::2] @ y[1:3]", A, B),
]


@pytest.mark.parametrize("case, x, y", PRODUCTS, ids=[f"{p[0]}-{i}" for i, p in enumerate(PRODUCTS)])
def test_products(case, x, y):
    check(lam(case, "x, y"), x, y, stride=False)


@pytest.mark.parametrize(
    "case, x, y",
    [p for p in PRODUCTS[:24] if p[1].ndim],
    ids=[f"{p[0]}-{i}" for i, p in enumerate(PRODUCTS[:24])],
)
def test_products_of_complex_numbers(case, x, y):
    check(lam(case, "x, y"), complex_of(x), complex_of(y), stride=False, gradgrad=False, jit=False)


SUMS = [
    ("t.addmm(x, y, z)", C, A, B),
    ("t.addmm(x, y, z, beta=0.5, alpha=-2)", C, A, B),
    ("x.addmm(y, z, alpha=3)", rng.randn(2), A, B),
    ("t.addmm(x, y, z, beta=0)", np.full((3, 2), nan), A, B),
    ("t.addmv(x, y, z, beta=2)", W, A, V),
    ("t.addmv(x, y, z)", W[:1], A, V),
    ("t.addbmm(x, y, z, alpha=0.5)", C, BATCH, OTHER),
    ("t.baddbmm(x, y, z, beta=0.1)", C, BATCH, OTHER),
    ("x.baddbmm(y, z)", rng.randn(5, 1, 2), BATCH, OTHER),
    ("t.addr(x, y, z, beta=2, alpha=3)", rng.randn(3, 4), W, V),
    ("t.addr(x, y, z)", rng.randn(1, 4), W, V),
    ("t.nn.functional.linear(x, y, z)", A, rng.randn(5, 4), rng.randn(5)),
    ("t.nn.functional.linear(x, y, z)", BATCH, rng.randn(5, 4), rng.randn(5)),
    ("t.nn.functional.linear(x, y, z)", V, A, W),
    ("(x * 1).addmm_(y, z, beta=2)", C, A, B),
    ("(x * 1).baddbmm_(y, z)", rng.randn(5, 3, 2), BATCH, OTHER),
    ("t.linalg.multi_dot([x, y, z])", A, B, rng.randn(2, 6)),
    ("t.linalg.multi_dot([z, x, y])", A, B, W),
    ("t.chain_matmul(x, y, z)", A, B, rng.randn(2, 6)),
]


@pytest.mark.parametrize("case, x, y, z", SUMS, ids=[f"{s[0]}-{i}" for i, s in enumerate(SUMS)])
def test_products_added(case, x, y, z):
    check(lam(case), x, y, z, stride=False)


EINSUMS = [
    ("ij,jk->ik", A, B),
    ("ij,jk", A, B),
    ("ij,jk->ki", A, B),
    ("ij->j", A),
    ("ij->", A),
    ("ij->ji", A),
    ("ii->i", A[:, :3]),
    ("ii", A[:, :3]),
    ("bij,bjk->bik", BATCH, OTHER),
    ("...ij,...jk->...ik", BATCH, B),
    ("...ij,jk", BATCH, B),
    ("i,j->ij", V, W),
    ("ij,ij->", A, A),
    ("i,i", V, V),
    ("ij,jk,kl->il", A, B, rng.randn(2, 5)),
    ("ij,kj->ik", A, rng.randn(2, 1)),
    ("ba,b->a", A, W),
    ("...->...", BATCH),
    ("i...->...", BATCH),
    (" i j , j k -> i k ", A, B),
    ("Ij,jA->AI", A, B),
    ("ijk,ijl->kl", BATCH, rng.randn(5, 3, 2)),
    ("...i,...i->...", BATCH, A),
    (",ij->ji", np.array(2.0), A),
    ("bqhd,bkhd->bhqk", rng.randn(2, 3, 2, 4), rng.randn(2, 5, 2, 4)),
    ("iji->j", rng.randn(3, 2, 3)),
    ("ij,jj->i", A, rng.randn(4, 4)),
]


@pytest.mark.parametrize("equation, arrays", [(e[0], e[1:]) for e in EINSUMS], ids=[e[0] for e in EINSUMS])
def test_einsum(equation, arrays):
    check(lambda t, *xs: t.einsum(equation, *xs), *arrays, stride=False)


def test_einsum_forms():
    check(lambda t, x, y: t.einsum(x, [0, 1], y, [1, 2], [0, 2]), A, B, stride=False)
    check(lambda t, x, y: t.einsum(x, [..., 1], y, [1, 2]), A, B, stride=False)
    check(lambda t, x, y: t.einsum("ij,jk", [x, y]), A, B, stride=False)
    check(lambda t, x, y: t.einsum("ij,jk->ik", x, y), complex_of(A), complex_of(B), stride=False)
    check(lambda t, x, y: t.einsum("i,i", x, y), np.array([1, 2]), np.array([3, 4]))


PARTS = """x.trace() | t.tril(x) | x.triu(1) | x.tril(-1) | t.triu(x, -2) | t.diag(x) | x.diag(1)
x.diag(-1) | x[0].diag()
x[0].diag(2) | t.diag_embed(x) | t.diag_embed(x, 1) | t.diag_embed(x, -1, 0, 2) | t.diagflat(x)
t.diagflat(x, -1)
t.cov(x) | t.cov(x, correction=0) | t.cov(x[0]) | t.corrcoef(x) | t.corrcoef(x[0]) | (x * 1).tril_()
(x * 1).triu_(1)
t.cov(x, fweights=t.tensor([1, 2, 3, 1]))
t.cov(x, aweights=t.tensor([0.1, 0.2, 0.3, 0.4], dtype=t.float64))
t.linalg.vander(x) | t.linalg.vander(x, N=2) | t.linalg.diagonal(x) | x.reshape(2, 3, 2).tril()"""


@pytest.mark.parametrize("case", cases(PARTS))
def test_parts(case):
    check(lam(case, "x"), A, stride="diag(" not in case, tol=10)
    if "corrcoef" not in case and "weights" not in case:
        check(lam(case, "x"), complex_of(A), stride=False, gradgrad=False)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, inf])
def test_cdist(p):
    points = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [3.0, -1.0, 0.5]])
    check(lambda t, x, y: t.cdist(x, y, p), rng.randn(2, 3, 4), rng.randn(5, 4), gradgrad=False)
    check(lambda t, x, y: t.cdist(x, y, p=p), points, points[:2] + 0.0, gradgrad=False)


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, inf])
def test_distances_in_parts(p, monkeypatch):
    for module in (distance, similarity):
        monkeypatch.setattr(module, "_AT_ONCE", 40)
    check(lambda t, x, y: t.cdist(x, y, p), rng.randn(2, 7, 3), rng.randn(11, 3), gradgrad=False)
    check(lambda t, x: t.nn.functional.pdist(x, p), rng.randn(11, 3), gradgrad=False)
    agree(lambda t: [t.nn.functional.pdist(t.ones(n, m), p) for n, m in ((3, 0), (1, 3), (0, 3))])


@pytest.mark.parametrize("f", [lambda x: torchlike.cdist(x, x), lambda x: torchlike.nn.functional.pdist(x, 3.0)])
def test_distances_are_differentiated_without_all_differences(f):
    """Those of [600, 500] are 720 MB."""

    def slope(x):
        x = x.detach().requires_grad_()
        return torchlike.autograd.grad(f(x).sum(), x)[0]

    program = jax.jit(to_jax(slope)).lower(jax.ShapeDtypeStruct((600, 500), np.float32)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 100e6


@pytest.mark.parametrize(
    "case",
    [
        "x @ x.t()",
        "t.mm(x, x.t())",
        "x[0].dot(x[1])",
        "t.addmm(x[:, :2], x, x.t()[:, :2], beta=2, alpha=3)",
        "t.outer(x[0], x[0])",
        "x.trace()",
        "x.tril()",
        "t.kron(x, x)",
        "t.addr(x, x[:, 0], x[0])",
        "t.cross(x, x.flip(0), dim=1)",
        "t.cov(x)",
        "t.tensordot(x, x, 2)",
        "x.diag()",
        "t.diag_embed(x)",
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "float16", "float32"])
def test_dtypes(case, dtype):
    array = rng.randint(-3, 4, (2, 3) if "cross" in case or "trace" in case else (2, 3)).astype(dtype)
    check(lam(case, "x"), array, grad=dtype == "float16", gradgrad=False, stride=False, jit=False, tol=3)


EMPTY = [
    ("x @ y", (0, 3), (3, 2)),
    ("x @ y", (2, 0), (0, 3)),
    ("x @ y", (0,), (0,)),
    ("x.bmm(y)", (0, 2, 3), (0, 3, 2)),
    ("t.nn.functional.linear(x, y)", (2, 0), (3, 0)),
    ("t.einsum('ij,jk', x, y)", (2, 0), (0, 3)),
    ("t.outer(x, y)", (0,), (2,)),
    ("t.kron(x, y)", (0, 2), (3, 2)),
    ("t.cdist(x, y)", (0, 3), (2, 3)),
    ("t.cdist(x, y)", (2, 0), (3, 0)),
    ("t.tensordot(x, y, 1)", (2, 0), (0, 3)),
    ("t.inner(x, y)", (2, 0), (3, 0)),
]


@pytest.mark.parametrize("case, left, right", EMPTY, ids=[f"{e[0]}-{i}" for i, e in enumerate(EMPTY)])
def test_empty(case, left, right):
    check(lam(case, "x, y"), np.zeros(left), np.zeros(right), stride=False, gradgrad=False)


ERRORS = [
    ("x @ y", A, A, r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 3x4\)"),
    ("x.mm(y)", A, V, "mat2 must be a matrix"),
    ("x @ y", A, B.astype(np.float32), "same dtype"),
    ("x @ y", BATCH, BATCH, "batch2"),
    ("x @ y", A, W, "size mismatch"),
    ("x @ y", BATCH, rng.randn(2, 4, 3), "must match the size of tensor b"),
    ("x @ y", V, W, "inconsistent tensor size"),
    ("x @ y", np.array(1.0), V, "at least 1D"),
    ("x @ 2", A, A, "Tensor"),
    ("x.bmm(y)", A, A, "3D"),
    ("x.bmm(y)", BATCH, BATCH, "batch2"),
    ("x.mv(y)", A, W, "size mismatch"),
    ("x.mv(y)", A, A, "vector"),
    ("x.dot(y)", A, V, "1D tensors expected"),
    ("x.dot(y)", V, W, "size"),
    ("x.dot(y)", V, V.astype(np.float32), "same dtype"),
    ("x @ y", A > 0, B > 0, "not implemented"),
    ("t.inner(x, y)", A, W, "last dimension"),
    ("t.outer(x, y)", A, V, "1-D"),
    ("t.addmm(x, y, y)", C, A, "multiplied"),
    ("t.addmm(x, y, y.t())", W[:2], A, "expanded size"),
    ("t.addmm(x, x @ y, y, beta=1j)", A, np.eye(4), "beta"),
    ("t.tensordot(x, y, ([0], [0]))", A, B, "contracted dimensions"),
    ("t.tensordot(x, y, ([0, 1], [0]))", A, B, "same length"),
    ("t.tensordot(x, y, -1)", A, B, "dims"),
    ("t.cross(x, y)", B, B, "3"),
    ("t.linalg.cross(x, y)", A, V, "same number"),
    ("t.einsum('ij,jk->ik', x, y)", A, C, "does not broadcast"),
    ("t.einsum('ijk->i', x)", A, A, "number of subscripts"),
    ("t.einsum('ij->ik', x)", A, A, "does not appear"),
    ("t.einsum('ij,jk->ii', x, y)", A, B, "more than once"),
    ("t.einsum('ij,jk', x)", A, A, "fewer operands"),
    ("t.einsum('i1', x)", A, A, "subscript"),
    ("t.einsum('ij', x, y)", A, B, "more operands"),
    ("t.einsum('ij,jk', x, y.float())", A, B, "scalar type"),
    ("t.einsum('ii', x)", A, A, "don't match"),
    ("t.einsum('ij', 3)", A, A, "Tensor"),
    ("t.einsum('ij')", A, A, "operand"),
    ("t.trace(x)", V, V, "matrix"),
    ("t.tril(x)", V, V, "2 dimensions"),
    ("t.diag(x)", BATCH, A, "1D or 2D"),
    ("t.diag_embed(x, 0, 1, 1)", A, A, "identical"),
    ("t.cdist(x, y)", A, C, "columns"),
    ("t.cdist(x, y)", V, A, "2D"),
    ("t.cdist(x, y, p=-1)", A, A, "non-negative"),
    ("t.cdist(x, y, compute_mode='x')", A, A, "compute_mode"),
    ("t.cov(x)", BATCH, A, "two or fewer"),
    ("t.cov(x, fweights=y)", A, V, "integral"),
    ("t.cov(x, fweights=-t.ones(4, dtype=t.int64))", A, A, "negative"),
    ("t.linalg.multi_dot([x])", A, A, "at least 2"),
    ("t.linalg.multi_dot([x, x])", A, A, "multiplied"),
    ("t.linalg.vander(x, N=1)", V, V, "N must"),
    ("t.nn.functional.linear(x, y)", A, C, "multiplied"),
    ("t.nn.functional.linear(x, y, x)", A, A, "."),
    ("t.nn.functional.linear(x, y.float())", A, A, "same dtype"),
]


@pytest.mark.parametrize("case, x, y, match", ERRORS, ids=[f"{e[0]}-{i}" for i, e in enumerate(ERRORS)])
def test_errors(case, x, y, match):
    check_error(lam(case, "x, y"), x, y, match=match)


def test_precision_setting():
    x = torchlike.tensor([[1.0, 2.0]])
    assert torchlike.get_float32_matmul_precision() == "highest"
    try:
        torchlike.set_float32_matmul_precision("medium")
        assert torchlike.get_float32_matmul_precision() == "medium" and (x @ x.t()).item() == 5
    finally:
        torchlike.set_float32_matmul_precision("highest")
    with pytest.warns(UserWarning, match="is not one of"):
        torchlike.set_float32_matmul_precision("low")
    assert torchlike.get_float32_matmul_precision() == "highest"


def test_scalars_are_not_compiled_in():
    x = torchlike.tensor([[1.0, 2.0], [3.0, 4.0]])
    compiled = torchlike._ops.matmul.addmm.kernels
    torchlike.addmm(x, x, x, beta=0.5)
    before = len(compiled)
    for i in range(5):
        torchlike.addmm(x, x, x, beta=0.1 * i)
    assert len(compiled) == before and compiled[()]._cache_size() <= 2


def test_grad_fn_names():
    def names(t):
        x, b = t.ones(2, 2, requires_grad=True), t.ones(1, 2, 2, requires_grad=True)
        results = (
            x.mm(x),
            x @ x,
            b.bmm(b),
            t.addmm(x, x, x),
            x.mv(x[0]),
            x[0].dot(x[0]),
            t.baddbmm(b, b, b),
            x.trace(),
            x.tril(),
            t.cdist(x, x),
            t.diag_embed(x),
            t.nn.functional.linear(x, x, x[0]),
            t.outer(x[0], x[0]),
        )
        return [r.grad_fn.name() for r in results]

    assert names(torchlike) == names(torch)
