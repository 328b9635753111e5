"""Running results, sorting, searching and counting."""

import jax
import numpy as np
import pytest
import torch
from oracle import check, check_error

import torchlike

nan, inf = float("nan"), float("inf")
rng = np.random.RandomState(5)
X = rng.randn(3, 4, 2)
TIES = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 0.0, 0.0, -1.0]])
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.0, -2.0, 3.0]])
NANS = np.array([[1.0, nan, 3.0, -1.0], [nan, -inf, 2.0, nan], [inf, 1.0, -inf, 0.0]])
Z = X[0] + 1j * X[1]
INTS = np.array([[3, 0, -2, 3], [7, 3, 3, 1]])
BOOLS = np.array([[True, False, True], [False, True, True]])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
HALF = X.astype(np.float16)


def lam(text):
    return eval("lambda t, x: " + text, {"nan": nan, "inf": inf})


def cases(text):
    return [c.strip() for line in text.split("\n") for c in line.split("|")]


DIFFERENTIABLE = """x.cumsum(0) | x.cumsum(-1) | x.cumprod(1) | x.logcumsumexp(0) | x.cummax(1)
x.cummin(0) | x.diff()
x.diff(2, 0) | x.diff(dim=1, prepend=x[:, :1], append=x[:, 1:]) | x.diff(9) | x.diff(0) | x.sort()
x.sort(0, descending=True)
x.sort(stable=True, dim=1) | x.argsort(1) | x.argsort(0, True) | x.msort() | x.topk(2, 1) | x.topk(1)
x.topk(3, 0, False)
x.topk(2, 1, sorted=True) | x.kthvalue(2, 1) | x.kthvalue(1, 0, True) | x.mode(1)[0] | x.quantile(0.3)
x.quantile(0.5, 1)
x.quantile(t.tensor([0.1, 0.9], dtype=t.float64), 1) | x.quantile(0.25, 0, True) | x.nanquantile(0.4, 1)
x.quantile(0.4, 1, interpolation="lower") | x.quantile(0.4, 1, interpolation="higher")
x.quantile(0.4, 1, interpolation="midpoint") | x.quantile(0.4, 1, interpolation="nearest")
t.trapezoid(x)
t.trapezoid(x, dx=0.5, dim=0) | t.trapezoid(x, x * x, dim=1) | t.trapezoid(x, x[0, :, 0], dim=1)
t.trapz(x, dim=1) | t.trapezoid(x[0, :2], x * x, dim=0) | t.cumulative_trapezoid(x[0, :2], x * x, dim=0)
t.cumulative_trapezoid(x, dim=1) | t.cumulative_trapezoid(x, x[0, 0], dim=2) | x.T.sort(0)
x[::2].cumsum(1)"""


@pytest.mark.parametrize("case", cases(DIFFERENTIABLE))
def test_values_and_derivatives(case):
    check(lam(case), X, stride="quantile" not in case)


@pytest.mark.parametrize(
    "case",
    [
        "x.cummax(1)",
        "x.cummin(0)",
        "x.sort(stable=True)",
        "x.sort(dim=1, descending=True, stable=True)",
        "x.mode(1)",
        "x.median(1)[0]",
        "x.topk(2)[0]",
        "x.kthvalue(2)[0]",
        "x.msort()",
    ],
)
def test_ties(case):
    check(lam(case), TIES, grad=not case.startswith(("x.topk", "x.kth", "x.median")))


@pytest.mark.parametrize("case", ["x.cumprod(0)", "x.cumprod(1)"])
def test_product_with_zeros(case):
    check(lam(case), ZEROS)


NAN_CASES = """x.cumsum(1) | x.cummax(1) | x.cummin(1) | x.cummax(0) | x.logcumsumexp(1)
x.sort(stable=True, dim=1)
x.sort(stable=True, dim=1, descending=True) | x.topk(3)[0] | x.topk(3, largest=False)[0]
x.kthvalue(4)[0] | x.msort()
x.quantile(0.5, 1) | x.nanquantile(0.5, 1) | x.quantile(0.5) | x.diff()
x.argsort(stable=True, dim=1, descending=True)
t.unique(x, return_counts=True) | t.bucketize(x, t.tensor([-1.0, 0.0, 2.0], dtype=x.dtype))
t.histc(x, 4, -2, 2)"""


@pytest.mark.parametrize("case", cases(NAN_CASES))
def test_nan_and_infinity(case):
    check(lam(case), NANS, grad=False, jit=False)


def test_logcumsumexp_of_minus_infinity():
    check(lambda t, x: x.logcumsumexp(0), np.array([-inf, -inf, 0.0, 1.0]), grad=False)
    check(lambda t, x: x.logcumsumexp(0), Z)


DTYPE_CASES = """x.cumsum(0) | x.cumprod(1) | x.cummax(1) | x.cummin(0) | x.sort(stable=True, dim=1)
x.diff() | x.msort()
x.cumsum(0, dtype=t.float32) | x.cumprod(0, dtype=t.int8) | x.mode(1)[0]
t.unique(x, return_inverse=True)
t.unique_consecutive(x) | x.argsort(stable=True, dim=0)"""


@pytest.mark.parametrize("case", cases(DTYPE_CASES))
@pytest.mark.parametrize("array", [INTS, BOOLS, INTS.astype(np.uint8), HALF[0]], ids=["int", "bool", "uint8", "half"])
def test_dtypes(case, array):
    check(lam(case), array, grad=False, jit=False)


@pytest.mark.parametrize(
    "case",
    cases("""x.cumsum(0) | x.cumprod(0) | x.cummax(0) | x.logcumsumexp(0)
x.sort() | x.sort(0, True)
x.topk(1) | x.kthvalue(1) | x.mode() | x.msort() | x.argsort() | x.quantile(0.3) | x.cummin(-1)
t.histc(x, 3)"""),
)
def test_scalar(case):
    check(lam(case), SCALAR, gradgrad=False, jit=False)


@pytest.mark.parametrize(
    "case",
    cases("""x.cumsum(0) | x.cumprod(1) | x.cummax(0) | x.sort(0)
x.sort(1) | x.topk(0, 0) | x.msort()
x.argsort() | x.logcumsumexp(0) | x.diff(dim=0) | t.trapezoid(x, dim=0) | x.unique() | t.unique(x, dim=0)
t.searchsorted(x[:, 0], t.ones(2, dtype=x.dtype))"""),
)
def test_empty(case):
    differentiable = "unique" not in case and "trapezoid" not in case
    check(lam(case), EMPTY, grad=differentiable, gradgrad=False, jit="unique" not in case, stride=False)


@pytest.mark.parametrize(
    "case",
    [
        "x.cumsum_(0)",
        "x.cumprod_(1)",
        "t.sort(x, out=(t.empty_like(x), t.empty(0, dtype=t.int64)))",
        "t.cumsum(x, 0, out=t.empty_like(x))",
        "t.topk(x, 1, out=(t.empty(0), t.empty(0, dtype=t.int64)))",
    ],
)
def test_inplace_and_out(case):
    check(lam(case), X.astype(np.float32), grad=False)


WITH_CONSTANTS = """t.unique(x) | t.unique(x, return_inverse=True, return_counts=True)
x.unique(dim=0) | x.unique(sorted=False)
t.unique(x, dim=1, return_inverse=True, return_counts=True)
t.unique_consecutive(x, return_inverse=True, return_counts=True)
t.unique_consecutive(x, dim=1) | x.unique_consecutive() | t.bincount(x.flatten() + 2)
t.bincount(x.flatten() + 2, minlength=20)
t.bincount(x.flatten() + 2, weights=x.flatten().double()) | x.flatten().add(2).bincount(x.flatten())
x.argsort(0)
t.searchsorted(t.tensor([0, 2, 3, 3, 5]), x) | t.searchsorted(t.tensor([0, 2, 3, 3, 5]), x, right=True)
t.searchsorted(t.tensor([[0, 2, 3], [1, 3, 3]]), x, side="right")
t.searchsorted(t.tensor([0, 2, 3]), 2)
t.searchsorted(t.tensor([5, 3, 0]), x, sorter=t.tensor([2, 1, 0]))
t.searchsorted(t.tensor([0.5, 2.5]), x)
t.bucketize(x, t.tensor([0, 2, 3])) | t.bucketize(x, t.tensor([0, 2, 3]), right=True, out_int32=True)
t.bucketize(1.5, t.tensor([1., 2.]))
t.histc(x.float(), 5) | t.histc(x.double(), 3, 0, 3) | t.histc(t.ones(3), 4)
t.histc(x.float(), min=-1, max=4, bins=5)"""


@pytest.mark.parametrize("case", cases(WITH_CONSTANTS))
def test_counts_and_places(case):
    check(lam(case), INTS, jit="unique" not in case and "bincount" not in case, stride="dim=1" not in case)


ERRORS = [
    ("x.topk(9)", X, "out of range"),
    ("t.unique(x, dim=0)", np.array(1.0), "has no dimensions"),
    ("t.unique_consecutive(x, dim=-1)", np.array(1.0), "has no dimensions"),
    ("x.kthvalue(0)", X, "out of range"),
    ("x.kthvalue(1, 0)", EMPTY, "non-zero size"),
    ("x.cumsum(3)", X, "Dimension out of range"),
    ("x.cumsum()", X, "dim"),
    ("x.cumsum(0, dtype=t.bool)", X, "Bool"),
    ("x.logcumsumexp(0)", INTS, "not implemented"),
    ("x.cummax(0)", Z, "not implemented"),
    ("x.sort()", Z, "complex"),
    ("x.topk(1)", Z, "complex"),
    ("x.topk(1)", BOOLS, "bool"),
    ("x.kthvalue(1)", BOOLS, "not implemented"),
    ("x.mode(0)", EMPTY, "non-zero"),
    ("x.diff(-1)", X, "non-negative"),
    ("x.diff()", SCALAR, "at least one-dimensional"),
    ("x.diff(prepend=x[0])", X, "same dimension"),
    ("x.diff(dim=0, prepend=x[:, :1])", X, "match"),
    ("t.trapezoid(x)", SCALAR, "no dimensions"),
    ("t.trapezoid(x, x[:, 0, 0])", X, "sample point"),
    ("x.quantile(1.5)", X, "range"),
    ("x.quantile(nan)", X, "range"),
    ("x.quantile(t.tensor([0.5, 2.0]).double())", X, "range"),
    ("x.quantile(0.5)", INTS, "dtype"),
    ("x.quantile(0.5)", EMPTY, "non-empty"),
    ("x.quantile(0.5, interpolation='cubic')", X, "interpolation"),
    ("x.quantile(t.tensor([[0.5]]).double())", X, "1D"),
    ("t.unique(x, dim=0)", np.zeros((2, 0)), "0 sized"),
    ("t.unique(x)", Z, "not implemented"),
    ("t.bincount(x)", INTS, "non-negative"),
    ("t.bincount(x[0])", INTS, "non-negative"),
    ("t.bincount(x)", X, "not implemented"),
    ("t.bincount(x[1], minlength=-1)", INTS, "minlength"),
    ("t.bincount(x[1], weights=x[1, :2])", INTS, "length"),
    ("t.histc(x, 0)", X, "bins"),
    ("t.histc(x, 3, 2, 1)", X, "larger"),
    ("t.histc(x)", NANS, "finite"),
    ("t.histc(x)", INTS, "not implemented"),
    ("t.searchsorted(x, x[0])", X, "boundaries"),
    ("t.searchsorted(x[0, 0], x, side='middle')", X, "side"),
    ("t.searchsorted(x[0, 0], x, side='left', right=True)", X, "opposites"),
    ("t.bucketize(x, x)", X, "1 dimension"),
    ("t.searchsorted(x[0], x)", BOOLS, "not implemented"),
    ("t.bucketize(x, x[0])", BOOLS, "not implemented"),
    ("t.searchsorted(x[0, 0], x, sorter=x[0, 0])", X, "sorter"),
]


@pytest.mark.parametrize("case, array, match", ERRORS, ids=[f"{e[0]}-{i}" for i, e in enumerate(ERRORS)])
def test_errors(case, array, match):
    check_error(lam(case), array, match=match)


def test_shapes_that_depend_on_values_are_refused_while_tracing():
    for f in (torchlike.unique, torchlike.unique_consecutive, torchlike.bincount):
        with pytest.raises(jax.errors.ConcretizationTypeError, match="depends on values"):
            jax.jit(lambda v, f=f: f(torchlike.from_jax_array(v)).jax())(np.array([1, 2]))
        with pytest.raises(NotImplementedError, match="meta"):
            f(torchlike.empty(3, dtype=torchlike.int64, device="meta"))


def test_gradient_of_the_level_of_a_quantile():
    q = np.array([0.1, 0.4])
    check(lambda t, x, q: t.quantile(x, q, 1), X, q, gradgrad=False, stride=False)
    check(lambda t, x, q: x.quantile(q, 0, interpolation="midpoint"), X, q, gradgrad=False, stride=False)


def test_sort_is_stable():
    x = rng.randint(0, 5, 1000)
    for descending in (False, True):
        got = torchlike.from_numpy(x).sort(stable=True, descending=descending)
        want = torch.from_numpy(x).sort(stable=True, descending=descending)
        assert got.indices.tolist() == want.indices.tolist()


def test_grad_fn_names():
    def names(t):
        x = t.arange(4.0).requires_grad_()
        results = (
            x.cumsum(0),
            x.cumprod(0),
            x.cummax(0)[0],
            x.logcumsumexp(0),
            x.sort()[0],
            x.sort(stable=True)[0],
            x.topk(1)[0],
            x.kthvalue(1)[0],
            x.mode()[0],
            x.diff(),
            x.msort(),
        )
        return [r.grad_fn.name() for r in results]

    assert names(torchlike) == names(torch)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_long_products_are_rounded_once(dtype):
    x = 1 - 0.01 * rng.rand(1000).astype(np.float32)
    theirs, ours = [t.tensor(x).to(getattr(t, dtype)).cumprod(0).double().numpy() for t in (torch, torchlike)]
    np.testing.assert_allclose(ours, theirs, rtol=torch.finfo(getattr(torch, dtype)).eps)  # one rounding


def test_running_sums_of_float32_are_rounded_once():
    """They are PyTorch's to the last digit, also beside their zeros."""
    x = torch.randn(6, 3000, generator=torch.Generator().manual_seed(2))
    for dim in (0, 1):
        ours = torchlike.cumsum(torchlike.from_numpy(x.numpy()), dim).numpy()
        assert (ours != torch.cumsum(x, dim).numpy()).mean() < 1e-3
