"""Functions of one tensor: values and derivatives at edges, dtypes, forms, errors."""

import numpy as np
import pytest
import torch
from oracle import check, check_error
from pointwise_cases import (
    BOOLS,
    BRAIN,
    COMPLEX,
    EDGES,
    HALF,
    INTS,
    MATRIX,
    POSITIVE,
    SCALAR,
    UNIT,
    forward,
)

import torchlike

FLOAT = """
sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan atan sinh cosh tanh asinh acosh
sigmoid sinc lgamma digamma erf erfc erfinv logit deg2rad rad2deg i0 asin acos atanh angle
""".split()
SAME = "neg abs sgn sign frac floor ceil trunc round square positive relu nan_to_num".split()
PREDICATES = "isnan isinf isfinite isreal isposinf isneginf signbit logical_not".split()
ON_COMPLEX = """
sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan atan sinh cosh tanh asinh acosh
sigmoid sinc asin acos atanh angle neg abs sgn square positive conj_physical
""".split()
SPECIAL = "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri expit gammaln psi".split()
# Functions of probabilities and the like: their inputs.
DOMAIN = {
    "erfinv": UNIT,
    "logit": UNIT,
    "asin": UNIT,
    "acos": UNIT,
    "atanh": UNIT,
    "log_ndtr": POSITIVE,
    "ndtri": UNIT,
}


def call(name):
    return lambda t, *a: getattr(t, name)(*a)


@pytest.mark.parametrize("name", FLOAT + SAME)
def test_values_and_derivatives(name):
    check(call(name), DOMAIN.get(name, EDGES))


@pytest.mark.parametrize("name", ON_COMPLEX)
def test_complex(name):
    check(
        call(name),
        COMPLEX[[0, *range(3, 8)]] if name == "atanh" else COMPLEX,
        gradgrad=name not in {"angle", "abs", "sgn"},
    )


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name):
    check(lambda t, x: getattr(t.special, name)(x), DOMAIN.get(name, EDGES))


def dtypes_of(name):
    if name in {"frac", "logit"} or name == "relu":
        return (HALF, BRAIN) if name != "relu" else (INTS, HALF, BRAIN)
    if name in {"neg", "abs", "positive", "floor", "ceil", "trunc", "round"}:
        return INTS, INTS.astype(np.uint8), HALF, BRAIN
    return INTS, INTS.astype(np.int8), BOOLS, HALF, BRAIN


@pytest.mark.parametrize("name", FLOAT + SAME + PREDICATES)
def test_dtypes_and_shapes(name):
    for x in (*dtypes_of(name), EDGES.astype(np.float32)[:6], SCALAR):
        forward(call(name), x)
    forward(lambda t, x: getattr(x.T, name)(), MATRIX)
    forward(lambda t, x: getattr(x[1:0], name)(), MATRIX)


@pytest.mark.parametrize("name", PREDICATES)
def test_predicates(name):
    forward(call(name), EDGES)
    if name not in {"isposinf", "isneginf", "signbit"}:
        forward(call(name), COMPLEX)
        forward(call(name), np.array([complex(np.inf, np.nan), complex(1, np.nan), complex(0, np.inf)]))


# PyTorch cannot differentiate the in-place forms of the inverse hyperbolic functions.
INPLACE = [n for n in FLOAT + SAME if n not in {"angle", "positive", "asinh", "acosh", "atanh"}]


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name):
    def f(t, x):
        y = x * 1
        alias = y[:2]
        returned = getattr(y, name + "_")()
        return returned, alias, t.tensor(returned is y)

    check(f, np.abs(DOMAIN.get(name, MATRIX)) + 1.25, gradgrad=False, jit=False)


@pytest.mark.parametrize("name", ["exp", "floor", "isneginf", "sinc", "angle", "erf", "digamma"])
def test_out(name):
    forward(
        lambda t, x: getattr(t, name)(x, out=t.empty(0, dtype=t.bool if "inf" in name else t.float64)),
        np.abs(MATRIX),
    )


@pytest.mark.parametrize("out", ["complex64", "float16", "float32", "float64"])
def test_moduli_fit_float_outputs_and_complex_ones(out):
    forward(lambda t, x: t.abs(x, out=t.empty(0, dtype=getattr(t, out))), np.complex64([3 + 4j, -1j, 0, -2]))


@pytest.mark.parametrize("source, out", [("complex64", "complex128"), ("complex64", "int32"), ("float32", "complex64")])
def test_moduli_fit_no_other_outputs(source, out):
    for t in (torch, torchlike):
        with pytest.raises(RuntimeError):
            t.abs(t.ones(2, dtype=getattr(t, source)), out=t.empty(0, dtype=getattr(t, out)))


def test_round_to_decimals():
    x = np.array([1234.5678, -0.125, 0.375, 2.5, 1e10, np.nan, np.inf])
    for decimals in (2, 0, -2, 1, 5):
        forward(lambda t, x, d=decimals: t.round(x, decimals=d), x)
        forward(lambda t, x, d=decimals: x.round(decimals=d), x.astype(np.float32))
    check(lambda t, x: x.round(decimals=1), x)


def test_logit_with_eps():
    check(lambda t, x: t.logit(x, 0.2), UNIT)
    check(lambda t, x: x.logit(eps=0.0), UNIT[:8])


def test_nan_to_num_replacements():
    check(lambda t, x: t.nan_to_num(x, 1.5, 7.0, -8.0), EDGES)
    check(lambda t, x: x.nan_to_num(posinf=3), EDGES.astype(np.float32))
    forward(lambda t, x: t.nan_to_num(x, nan=2), np.array([complex(np.nan, np.inf), complex(-np.inf, 1)]))


def test_threshold():
    check(lambda t, x: t.threshold(x, 0.5, 20.0), EDGES)
    forward(lambda t, x: t.threshold(x, 1, 5), INTS)


def test_polygamma():
    x = np.array([0.5, 2.5, -1.5, -8.478374, 30.25, 1e-3, 0.0, -2.0, np.nan])
    for n in (0, 1, 2, 4):
        check(lambda t, x, n=n: t.polygamma(n, x), x[:6], tol=100)
        forward(lambda t, x, n=n: x.polygamma(n), x, tol=100)
    check_error(lambda t, x: t.polygamma(-1, x), SCALAR, match="polygamma.*negative n.*-1")


def test_mvlgamma():
    for p in (1, 3):
        check(lambda t, x, p=p: t.mvlgamma(x, p), np.array([1.75, 3.0, 8.5]))
    check_error(lambda t, x: t.mvlgamma(x, 0), SCALAR, match="p has to be greater.*0")


def test_frexp():
    check(lambda t, x: tuple(t.frexp(x)), EDGES[:11], stride=False)
    assert torchlike.frexp(torchlike.tensor([3.0])).exponent.item() == 2


def test_exact_at_powers():
    """Powers of the base have whole logarithms, whole exponents exact powers of two."""
    n = range(-10, 11)
    for name, base in (("log2", 2), ("log10", 10)):
        for dtype in (torchlike.float32, torchlike.float64):
            x = torchlike.tensor([float(f"1e{k}") if base == 10 else 2.0**k for k in n], dtype=dtype)
            assert getattr(torchlike, name)(x).tolist() == list(n), (name, dtype)
    assert torchlike.exp2(torchlike.tensor(list(n))).tolist() == [2.0**k for k in n]


def test_square_is_bitwise_a_product():
    x = torchlike.tensor(np.random.RandomState(0).standard_normal(1000).astype(np.float32))
    assert torchlike.equal(x**2, x * x) and torchlike.equal(x.square(), x * x) and torchlike.equal(x**3, x * x * x)


NODES = """
neg abs sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh
acosh atanh sigmoid erf erfc erfinv lgamma digamma floor reciprocal sinc angle i0 square relu logit
nan_to_num deg2rad sgn sign frac round
""".split()


@pytest.mark.parametrize("name", NODES)
def test_node(name):
    """The node's name and what it saves are PyTorch's."""

    def node(t):
        return getattr(t, name)(t.tensor([0.25, 0.5], requires_grad=True)).grad_fn

    ours, theirs = node(torchlike), node(torch)
    assert ours.name() == theirs.name()
    for saved in ("_saved_self", "_saved_result"):
        assert hasattr(ours, saved) == hasattr(theirs, saved), saved


REFUSED = [
    ("neg", BOOLS, "bool tensor.*~"),
    ("positive", BOOLS, "bool tensor"),
    ("abs", BOOLS, "abs.*Bool.*to.dtype"),
    ("sign", COMPLEX, "sign.*complex.*sgn"),
    ("floor", BOOLS, "floor.*Bool"),
    ("floor", COMPLEX, "floor.*Complex"),
    ("round", BOOLS, "round.*Bool"),
    ("frac", INTS, "frac.*Long"),
    ("relu", BOOLS, "relu"),
    ("relu", COMPLEX, ""),
    ("erf", COMPLEX, "erf.*Complex"),
    ("lgamma", COMPLEX, "lgamma.*Complex"),
    ("signbit", COMPLEX, "signbit"),
    ("isposinf", COMPLEX, "isposinf.*complex"),
    ("abs_", COMPLEX, "abs.*complex"),
    ("sqrt_", INTS, "Float.*Long"),
    ("exp_", BOOLS, "Float.*Bool"),
    ("bitwise_not", SCALAR, "bitwise_not.*Double"),
    ("__invert__", SCALAR, "integer and Boolean"),
]


@pytest.mark.parametrize(("name", "x", "match"), REFUSED)
def test_refuses(name, x, match):
    check_error(lambda t, x: getattr(x, name)(), x, match=match)


def test_refuses_what_is_not_a_tensor():
    check_error(lambda t: t.exp(1.0), match="exp.*must be Tensor, not float")
    check_error(lambda t: t.exp([1.0]), match="exp.*must be Tensor, not list")


def test_stack_of_aliases():
    """The other names of a function are the function."""
    for name in "absolute arccos arcsin arctan arccosh arcsinh arctanh negative fix".split():
        forward(call(name), np.float64([0.25, 0.5]))
        assert hasattr(torchlike.Tensor, name) and hasattr(torchlike.Tensor, name + "_")


def test_the_inverse_error_function_of_float32_is_exact():
    """Within twice the rounding of the result, everywhere between -1 and 1."""
    x = np.concatenate([np.linspace(-1, 1, 2001)[1:-1], 1 - np.logspace(-7, -1, 200), np.logspace(-9, -1, 200)])
    x = x.astype(np.float32)
    want = torch.erfinv(torch.from_numpy(x).double()).numpy()
    found = torchlike.erfinv(torchlike.from_numpy(x)).double().numpy()
    np.testing.assert_allclose(found, want, rtol=1.2e-7)


def test_the_logarithm_of_the_gamma_function_of_float32_is_exact():
    """Within twice the rounding of the result, also beside its zeros at 1 and 2 and between its poles."""
    x = np.concatenate([np.linspace(0.01, 40, 4000), 1 + np.linspace(-1e-3, 1e-3, 101), -np.linspace(0.03, 9.97, 498)])
    x = x.astype(np.float32)
    want = torch.lgamma(torch.from_numpy(x).double()).numpy()
    found = torchlike.lgamma(torchlike.from_numpy(x)).double().numpy()
    np.testing.assert_allclose(found, want, rtol=1.2e-7)


def test_tanh_ends_at_one():
    x = np.concatenate([np.linspace(9.02, 100, 500), [np.inf]]).astype(np.float32)
    for form in (torchlike.tanh, torchlike.compile(torchlike.tanh)):
        assert (form(torchlike.tensor(x)) == 1).all() and (form(torchlike.tensor(-x)) == -1).all()
    t = torchlike.tensor([-20.0, 12.0], requires_grad=True)
    t.tanh().sum().backward()
    assert t.grad.tolist() == [0, 0] and torchlike.tensor([float("nan")]).tanh().isnan().all()
