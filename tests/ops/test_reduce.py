"""Reductions: values, dtypes and derivatives at ties, zeros, NaN, infinities and empty tensors."""

import numpy as np
import pytest
import torch
from both import agree
from oracle import check, check_error
from story_kit import said

import torchlike

nan, inf = float("nan"), float("inf")
rng = np.random.RandomState(3)
X = rng.randn(3, 4, 2)
TIES = np.array([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [-1.0, 0.0, 0.0, -1.0]])
KINKS = np.array([[0.0, 0.0, 0.0], [0.0, 2.0, -2.0], [1.0, -1.0, 0.5]])
NANS = np.array([[1.0, nan, 3.0], [nan, nan, nan], [inf, 1.0, -inf], [-inf, -inf, -inf]])
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 4.0], [1.0, -2.0, 3.0]])
CONSTANT = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
Z = X[0] + 1j * X[1]
INTS = np.array([[3, 0, -2], [7, 3, 3]])
BYTES = np.array([[0, 2, 255], [1, 1, 0]], np.uint8)
BOOLS = np.array([[True, False], [True, True]])
EMPTY = np.zeros((0, 3))
SCALAR = np.array(2.5)
HALF = X.astype(np.float16)


def lam(text):
    return eval("lambda t, x: " + text, {"nan": nan, "inf": inf})


SMOOTH = """x.sum() | x.sum(1) | x.sum((0, -1)) | x.sum(()) | x.sum(dim=None, keepdim=True)
x.sum(0, True) | x.sum([0, 1])
x.mean() | x.mean(1) | x.mean((0, 2), keepdim=True) | x.mean(dim=()) | t.mean(x, 0) | x.prod()
x.prod(1) | x.prod(-1, True)
x.var() | x.var(0) | x.var((0, 1)) | x.var(unbiased=False) | x.var(1, False, True)
x.var(1, correction=0.5, keepdim=True)
x.var(dim=None) | x.var(False) | x.std() | x.std(0) | x.std((0, 2), unbiased=False)
x.std(1, correction=2)
t.var_mean(x) | t.var_mean(x, 0) | t.var_mean(x, (0, 1), correction=0) | t.std_mean(x)
t.std_mean(x, 1, False)
x.logsumexp(0) | x.logsumexp((0, 2), True) | x.nansum() | x.nansum((0, 1)) | x.nanmean()
x.nanmean(1, True)
x.norm() | x.norm(1) | x.norm(3, 0) | x.norm(inf, 1) | x.norm(-inf, 2) | x.norm(0.5, (0, 1))
x.norm(p=-2, dim=1)
x.norm(dim=(0, 1), keepdim=True) | t.norm(x, p="fro", dim=0) | t.norm(x[0], "nuc") | t.norm(x, 1.5)
t.linalg.vector_norm(x, 2.5, (0, 2)) | t.renorm(x, 2, 1, 0.7) | t.dist(x, x.flip(0))
t.dist(x, x * 2, 1)"""
SMOOTH = [c.strip() for line in SMOOTH.split("\n") for c in line.split("|")]


@pytest.mark.parametrize("case", SMOOTH)
def test_values_and_derivatives(case):
    check(lam(case), X)


COMPLEX = """x.sum() | x.sum(0) | x.mean(1) | x.prod() | x.prod(0) | x.var() | x.std(0) | x.norm()
x.norm(1, 0) | x.norm(3)
x.norm(inf) | x.logsumexp(0) | t.var_mean(x, 0)[0] | x.all() | x.any(0)"""


@pytest.mark.parametrize("case", [c.strip() for line in COMPLEX.split("\n") for c in line.split("|")])
def test_complex(case):
    check(lam(case), Z, tol=10)


@pytest.mark.parametrize(
    "case",
    [
        "x.max()",
        "x.min()",
        "x.amax()",
        "x.amax(1)",
        "x.amin((0, 1))",
        "x.amin(0, True)",
        "t.aminmax(x)",
        "t.aminmax(x, dim=1)",
        "x.median()",
        "x.nanmedian()",
        "x.max(x.flip(0))",
        "x.min(x.flip(1))",
        "x.max(x)",
        "x.norm(inf)",
        "x.norm(inf, 1)",
        "x.max(1).values",
        "x.min(1, True).values",
        "x.max(dim=0)[0]",
        "x.median(1)[0].sum()",
    ],
)
def test_ties_share_the_gradient(case):
    check(lam(case), TIES)


@pytest.mark.parametrize(
    "case",
    [
        "x.max(0)",
        "x.max(1, keepdim=True)",
        "x.min(-1)",
        "x.argmax()",
        "x.argmax(1)",
        "x.argmin(0, keepdim=True)",
        "x.argmax(keepdim=True)",
        "x.median(1)",
        "x.nanmedian(0)",
    ],
)
def test_places(case):
    check(lam(case), X[0] if "median" in case else TIES)


@pytest.mark.parametrize(
    "case",
    [
        "x.norm()",
        "x.norm(2, 1)",
        "x.norm(1, 1)",
        "x.norm(3, 1)",
        "x.norm(1.5, 1)",
        "x.norm(0.5, 1)",
        "x.norm(inf, 1)",
        "x.norm(-inf, 1)",
    ],
)
def test_norm_at_zero(case):
    check(lam(case), KINKS, gradgrad=False)
    check(lam(case), np.zeros((2, 3)), gradgrad=False)


@pytest.mark.parametrize("case", ["x.prod()", "x.prod(1)", "x.prod(0, True)"])
def test_product_with_zeros(case):
    check(lam(case), ZEROS)


@pytest.mark.parametrize(
    "case",
    [
        "x.std(1)",
        "x.std()",
        "x.var(1)",
        "t.std_mean(x, 1)",
        "x[:, :1].var(1)",
        "x[:, :1].std(1)",
        "x.std(0, correction=2)",
        "x.var(0, correction=3)",
    ],
)
def test_deviation_of_constants(case):
    check(lam(case), CONSTANT, gradgrad=False)


NAN_CASES = """x.sum(1) | x.mean(0) | x.amax(1) | x.amin(1) | x.max() | x.min() | x.max(1) | x.min(0)
x.argmax(1) | x.argmin(1)
x.nansum(1) | x.nanmean(1) | x.logsumexp(1) | x.median() | x.nanmedian() | x.nanmedian(1)[0]
x.median(1)[0] | x.var(1)
x.norm(2, 1) | x.norm(inf, 1) | x.all(1) | x.any(1) | x.count_nonzero(1) | t.aminmax(x)"""


@pytest.mark.parametrize("case", [c.strip() for line in NAN_CASES.split("\n") for c in line.split("|")])
def test_nan_and_infinity(case):
    check(lam(case), NANS, gradgrad=False, jit=False)


EMPTY_CASES = """x.sum() | x.sum(0) | x.mean() | x.mean(0) | x.prod() | x.prod(0) | x.all() | x.any(0)
x.logsumexp(0) | x.var(0)
x.std() | x.norm() | x.norm(1, 0) | x.norm(inf, 1) | x.median() | x.max(1) | x.amax(1) | x.argmax(1)
x.count_nonzero(0)
x.nansum() | x.nanmean(0)"""


@pytest.mark.parametrize("case", [c.strip() for line in EMPTY_CASES.split("\n") for c in line.split("|")])
def test_empty(case):
    check(lam(case), EMPTY, gradgrad=False, jit=False)


SCALAR_CASES = """x.sum() | x.sum(0) | x.sum(-1, True) | x.mean(0) | x.prod(0) | x.max() | x.max(0)
x.min(-1, True) | x.amax(0)
x.argmax() | x.argmax(0) | x.std() | x.var(0) | x.logsumexp(0) | x.norm() | x.norm(3, 0) | x.median()
x.median(0) | x.all(0)
x.any() | x.count_nonzero() | t.aminmax(x, dim=0) | x.nansum()"""


@pytest.mark.parametrize("case", [c.strip() for line in SCALAR_CASES.split("\n") for c in line.split("|")])
def test_scalar(case):
    check(lam(case), SCALAR, gradgrad=False, jit=False)


DTYPE_CASES = """x.sum() | x.sum(0) | x.prod() | x.prod(0) | x.all() | x.all(0) | x.any(1, True)
x.all(dim=(0, 1)) | x.any(dim=())
x.count_nonzero() | x.count_nonzero(0) | x.count_nonzero(dim=(0, 1)) | x.max() | x.min(0) | x.amax(0)
x.amin()
x.sum(dtype=t.float64) | x.sum(0, dtype=t.int32) | x.mean(dtype=t.float32) | x.prod(dtype=t.float16)
x.sum(dtype=t.bool)
x.nansum(0) | x.logsumexp(0) | t.aminmax(x) | x.sum(dtype=t.complex64)"""


@pytest.mark.parametrize("case", [c.strip() for line in DTYPE_CASES.split("\n") for c in line.split("|")])
@pytest.mark.parametrize(
    "array", [INTS, BYTES, BOOLS, INTS.astype(np.int8), HALF], ids=["int", "uint8", "bool", "int8", "half"]
)
def test_dtypes(case, array):
    check(lam(case), array, grad=array is HALF and "dtype=" not in case, gradgrad=False, jit=False)


def test_zero_norm_has_no_gradient():
    x = torchlike.tensor([0.0, 2.0], requires_grad=True)
    x.norm(0).backward()
    assert x.norm(0).item() == 1 and x.grad is None  # as in PyTorch


@pytest.mark.parametrize(
    "case", ["x.mean()", "x.var(0)", "x.std()", "x.norm()", "x.norm(3)", "x.logsumexp(1)", "x.prod(0)"]
)
def test_half(case):
    check(lam(case), HALF, gradgrad=False, tol=2)


@pytest.mark.parametrize(
    "case",
    [
        "x.transpose(0, 1).sum(0)",
        "x[::2].mean(1)",
        "x.permute(2, 0, 1).max(1)",
        "x[:, 1].norm(2, 0)",
        "x.expand(3, 4, 2).std(0)",
        "x.T.logsumexp(0)",
    ],
)
def test_not_contiguous(case):
    check(lam(case), X)


ERRORS = [
    ("x.sum(5)", X, r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 5\)"),
    ("x.sum((0, 0))", X, "dim 0 appears multiple times"),
    ("x.sum('a')", X, "sum"),
    ("x.mean()", INTS, "mean.*dtype"),
    ("x.mean(dtype=t.int64)", X, "mean"),
    ("x.max()", EMPTY, "numel"),
    ("x.max(0)", EMPTY, "dim 0 to have non-zero size"),
    ("x.argmax()", EMPTY, "numel"),
    ("x.argmin(0)", EMPTY, "non-zero size"),
    ("x.amax()", EMPTY, "numel"),
    ("x.amin((-2, -1))", EMPTY, "non-zero size"),
    ("t.aminmax(x)", EMPTY, "identity"),
    ("x.median(0)", EMPTY, "non-zero"),
    ("x.max()", Z, "not implemented"),
    ("x.amax()", Z, "not implemented"),
    ("x.median()", BOOLS, "median"),
    ("x.argmax()", BOOLS, "bool"),
    ("x.var()", INTS, "floating"),
    ("x.std(0, True, correction=1)", X, "std"),
    ("x.norm()", INTS, "floating"),
    ("x.norm(inf)", EMPTY, "identity"),
    ("x.norm('x')", X[0], "Order x not supported"),
    ("x.nansum()", Z, "complex"),
    ("x.nanmean()", INTS, "floating"),
    ("x.nanmean(dtype=t.int64)", X, "could not infer output dtype"),
    ("t.renorm(x, 2, 0, -1)", X, "maxnorm"),
    ("t.renorm(x, -1, 0, 1)", X, "positive"),
    ("t.linalg.vector_norm(x, 'fro')", X, "ord"),
    ("x.norm(dtype=t.complex64)", X, "dtype"),
    ("x.sum(0, 1)", X, "sum"),
    ("x.max(0, out=t.empty(2))", X, "max"),
    ("x.sum(dim=0, dim=1)", X, ""),
][:-1]


@pytest.mark.parametrize("case, array, match", ERRORS, ids=[f"{e[0]}-{i}" for i, e in enumerate(ERRORS)])
def test_errors(case, array, match):
    check_error(lam(case), array, match=match)


def test_grad_fn_names():
    def names(t):
        x = t.ones(2, 2, requires_grad=True)
        results = (
            x.sum(),
            x.sum(0),
            x.mean(),
            x.mean(0),
            x.prod(),
            x.prod(0),
            x.max(),
            x.max(0)[0],
            x.max(x),
            x.amax(),
            x.var(),
            x.std(0),
            t.var_mean(x)[0],
            x.norm(),
            x.logsumexp(0),
            x.median(),
            x.median(0)[0],
            x.nansum(),
        )
        return [r.grad_fn.name() for r in results]

    assert names(torchlike) == names(torch)


def test_a_scalar_tensor_is_an_operand_not_a_dimension():
    check(lambda t, x, y: (x.max(y), t.min(x, y)), INTS, np.array(1))


def test_out_and_named_results():
    x = torchlike.tensor([[1.0, 5.0], [7.0, 3.0]])
    out = torchlike.empty(2)
    assert torchlike.sum(x, 0, out=out) is out and out.tolist() == [8.0, 8.0]
    values, indices = torchlike.empty(2), torchlike.empty(2, dtype=torchlike.int64)
    got = torchlike.max(x, 1, out=(values, indices))
    assert got.values is values and indices.tolist() == [1, 0]
    assert repr(x.max(1)).startswith("torch.return_types.max(\nvalues=")


def test_sum_is_accurate():
    x = np.full(3_000_001, 0.1, np.float32)
    got = torchlike.from_numpy(x).sum().item()
    assert abs(got - x.astype(np.float64).sum()) < 1.0


def test_deviations_far_from_zero():
    """The rounding of the mean does not count, as it does not in PyTorch, which adds up in 64 bits."""
    for offset in (0, 1e3, 1e5, 1e7):
        x = (offset + np.random.default_rng(0).standard_normal((4, 1024))).astype(np.float32)
        wanted = x.astype(np.float64).var(1, ddof=1)
        np.testing.assert_allclose(torchlike.tensor(x).var(1).numpy(), wanted, rtol=5e-7)
        np.testing.assert_allclose(torchlike.tensor(x).std(1).numpy(), np.sqrt(wanted), rtol=5e-7)
    assert torchlike.full((1000,), 1e5 + 0.3).std().item() == 0


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "argmax", "std", "cumsum", "max", "softmax", "sort"])
def test_numpy_names(name):
    keep = {"keepdims": True} if name in ("sum", "mean", "amax", "argmax", "std", "max") else {}
    check(lambda t, x: getattr(x, name)(axis=1, **keep), np.random.RandomState(0).randn(3, 4), stride=False)


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_totals_are_computed_in_the_dtype_of_out(name):
    def told(t):
        data = [t.full((3, 2), 100, dtype=t.int8), t.full((3, 2), 1.5), t.ones(3, 2) > 0]
        f, kinds = getattr(t, name), (t.int8, t.int64, t.float32, t.complex64)
        free = [said(lambda x=x, k=k: f(x, 0, out=t.empty(0, dtype=k))) for x in data for k in kinds]
        given = r"Expected out tensor to have dtype [\w ]+, but got signed char instead"
        return free, [said(lambda x=x: f(x, 0, out=t.empty(0, dtype=t.int8), dtype=t.float32), given) for x in data]

    agree(told)


@pytest.mark.once
@pytest.mark.parametrize("name", ["mean", "nansum", "nanmean", "logsumexp"])
def test_means_are_computed_in_the_floats_of_out(name):
    f = getattr(torchlike, name)
    for kind in (torchlike.bfloat16, torchlike.float32):
        x, dim = torchlike.tensor([1.0078125, 3.3, 0.0011, 2.7], dtype=kind), () if name == "nansum" else (0,)
        got = f(x, *dim, out=torchlike.empty(0, dtype=torchlike.float64))
        assert got.item() == f(x.double(), *dim).item() != f(x, *dim).item()


def test_out_of_another_dtype_than_the_one_given():
    for name in ("mean", "nansum", "nanmean"):
        why = "Expected out tensor to have dtype double, but got float instead"
        check_error(lambda t, x, name=name: getattr(t, name)(x, 0, dtype=t.float64, out=t.empty(0)), X, match=why)


def test_histogram_demands_the_dtype_of_its_outputs():
    def told(t):
        outs = (t.float64, t.float32), (t.float32, t.float64)
        pattern = r"torch.histogram: input tensor and (hist|bin_edges) tensor should have the same dtype"
        return [
            said(lambda o=o: t.histogram(t.ones(3), 2, out=[t.empty(0, dtype=d) for d in o]), pattern) for o in outs
        ]

    agree(told)


@pytest.mark.parametrize("n", [7, 12, 120, 1000])
def test_means_are_quotients_that_are_rounded_once(n):
    ones = (np.random.RandomState(n).rand(3, n) > 0.3).astype(np.float32)

    def code(t):
        x = t.tensor(ones)
        loss = t.nn.functional.mse_loss
        return [x[0].mean().item(), x.mean(1).tolist(), loss(x[1], t.zeros(n)).item(), x.mean((0, 1), True).tolist()]

    assert code(torchlike) == code(torch)


@pytest.mark.parametrize("value", [complex(inf, 1), complex(1, nan), complex(2, -inf)])
def test_means_beside_variances_divide_the_parts_of_complex_numbers_apart(value):
    agree(lambda t: [f(t.tensor([1.0, value]), correction=0) for f in (t.var_mean, t.std_mean)])
