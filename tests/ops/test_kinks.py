"""Derivatives of elementwise functions where they have none: the values, first and second, are PyTorch's.

Left out, because PyTorch's own answer depends on where in a tensor an element lies: the gradient at NaN of
``EDGED`` activations. Left out too: arithmetic of complex infinities and the sign of complex zeros.
"""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from both import agree, agree_error
from kink_kit import INF, NAN, cases, kink, pairs, repeated

import torchlike

NUMBERS = [-INF, -6.0, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 6.0, 20.0,
           INF]  # fmt: skip
POINTS = repeated([*NUMBERS, NAN])
NO_NAN = repeated(NUMBERS)
COMPLEX = repeated([0j, 1 + 0j, -1 + 0j, 1j, -1j, 0.5 + 0.5j, -2 + 1j, 2 + 0j, complex(NAN, 1)])
GRID = pairs([-INF, -2.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, -3.0, INF, NAN])
COMPLEX_GRID = pairs([0j, 1 + 0j, -1 + 0j, 1j, -1j, 0.5 + 0.5j, -2 + 1j, 2 + 0j])

UNARY = cases("x", """
    x.abs()
    x.sgn()
    x.sign()
    x.sqrt()
    x.rsqrt()
    x.reciprocal()
    x.exp()
    x.exp2()
    x.expm1()
    x.log()
    x.log2()
    x.log10()
    x.log1p()
    x.asin()
    x.acos()
    x.atan()
    x.tan()
    x.tanh()
    x.asinh()
    x.acosh()
    x.atanh()
    x.sigmoid()
    x.sinc()
    x.angle()
    x.square()
    x.erf()
    x.erfc()
    x.erfinv()
    x.lgamma()
    x.digamma()
    x.i0()
    x.floor()
    x.ceil()
    x.trunc()
    x.round()
    x.frac()
    x.round(decimals=1)
    x.frexp()
    x.nan_to_num()
    x.nan_to_num(nan=2.0, posinf=1.0, neginf=-1.0)
    x.abs().sqrt()
    t.polygamma(1, x)
    t.polygamma(2, x)
    t.mvlgamma(x, 2)
    t.special.i0e(x)
    t.special.i1(x)
    t.special.i1e(x)
    t.special.entr(x)
    t.special.ndtri(x)
    t.special.ndtr(x)
    t.special.log_ndtr(x)
    t.special.erfcx(x)
    x ** 0
    x ** 0.5
    x ** 1
    x ** 1.5
    x ** 2
    x ** 2.5
    x ** 3
    x ** -0.5
    x ** -1
    x ** -2
    x ** inf
    x ** nan
    0.0 ** x
    2.0 ** x
    (-1.0) ** x
    t.float_power(x, 2)
    x % 1.5
    t.fmod(x, 1.5)
    t.xlogy(0, x)
    t.xlogy(x, 0)
    t.special.xlog1py(x, -1)
    t.copysign(x, -0.0)
    t.where(x > 0, x.log(), 0.0)
    t.where(x > 0, x, 0.0).sqrt()
    x.sqrt().masked_fill(x <= 0, 0.0)
    F.relu(x)
    F.softplus(x)
    F.softplus(x, beta=2, threshold=3)
    F.logsigmoid(x)
    F.threshold(x, 1.5, 3.0)
    F.leaky_relu(x)
    F.leaky_relu(x, -0.5)
    F.rrelu(x, 0.1, 0.3)
    F.silu(x)
    F.mish(x)
    F.softsign(x)
    F.tanhshrink(x)
    F.gelu(x, approximate="tanh")
    x.clamp(-1.0, 2.0)
    x.clamp(2.0, -1.0)
    x.clamp(min=0.0)
    x.clamp(max=0.0)
    x.clamp(0.0, 0.0)
    x.clamp(nan, 1.0)
    x.clamp_min(-0.5)
    x.clamp_max(1.5)
""")  # fmt: skip
EDGED = cases("x", """
    F.relu6(x)
    F.hardtanh(x)
    F.hardtanh(x, -1.5, 2.5)
    F.hardswish(x)
    F.hardshrink(x)
    F.hardshrink(x, 0.0)
    F.softshrink(x)
    F.softshrink(x, 0.0)
    F.elu(x)
    F.elu(x, 0.5)
    F.celu(x, 2.0)
    F.selu(x)
""")  # fmt: skip
SINGLE = {"x.abs()", "x.sqrt()", "x.log()", "x.asin()", "x.acosh()", "x.sinc()", "x.digamma()", "x ** 0.5", "x ** 2.5",
          "0.0 ** x", "t.special.i1(x)", "F.softplus(x)", "F.logsigmoid(x)", "F.silu(x)", "F.mish(x)",
          "x.clamp(-1.0, 2.0)", "x.nan_to_num()", "x % 1.5"}  # in float32 too  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    kink(UNARY[name], POINTS, low=name in SINGLE)


@pytest.mark.parametrize("name", EDGED)
def test_activations_with_edges(name):
    kink(EDGED[name], NO_NAN, low=True)


@pytest.mark.parametrize("eps", [None, 0.0, 0.25, 0.5, 0.7, 1.0])
def test_logit(eps):
    kink(lambda t, x: t.logit(x, eps), np.array([*NUMBERS, NAN])[np.r_[:8, 9:21]].repeat(16))


def test_hardsigmoid():
    kink(lambda t, x: t.nn.functional.hardsigmoid(x), POINTS, second=False)


def test_gelu():
    kink(lambda t, x: t.nn.functional.gelu(x), POINTS)  # PyTorch's float32 kernel has NaN at inf


@pytest.mark.parametrize("weight", [0.25, -1.0, 0.0])
def test_prelu(weight):
    finite = repeated([-2.0, -0.0, 0.0, 1.0])
    kink(lambda t, x, w: t.nn.functional.prelu(x, w), finite, np.array([weight]))


COMPLEX_UNARY = cases("z", """
    z.abs()
    z.angle()
    z.sgn()
    z.sqrt()
    z.rsqrt()
    z.reciprocal()
    z.log()
    z.log10()
    z.log1p()
    z.asin()
    z.acos()
    z.acosh()
    z.atan()
    z.tanh()
    z.sinc()
    z ** 0
    z ** 0.5
    z ** 2
    z ** -1
    z ** 1.5
    F.softsign(z)
    t.view_as_real(z).abs()
""")  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX_UNARY)
def test_complex_unary(name):
    kink(COMPLEX_UNARY[name], COMPLEX)


BINARY = cases("x, y", """
    t.maximum(x, y)
    t.minimum(x, y)
    t.fmax(x, y)
    t.fmin(x, y)
    t.max(x, y)
    t.min(x, y)
    t.atan2(x, y)
    t.hypot(x, y)
    t.copysign(x, y)
    t.nextafter(x, y)
    t.ldexp(x, y)
    t.logaddexp(x, y)
    t.logaddexp2(x, y)
    t.xlogy(x, y)
    t.special.xlog1py(x, y)
    t.special.zeta(x.detach(), y)
    t.igamma(x.detach(), y)
    t.igammac(x.detach(), y)
    x ** y
    t.float_power(x, y)
    t.fmod(x, y)
    t.remainder(x, y)
    x / y
    t.div(x, y, rounding_mode="trunc")
    t.div(x, y, rounding_mode="floor")
    x * y
    t.clamp(x, y)
    t.clamp(x, max=y)
    t.clamp(x, y, y + 1)
    t.clamp(x, t.zeros_like(x), y)
    t.clamp_min(x, y)
    t.clamp_max(x, y)
    t.where(x > 0, t.log(x), y)
    x.masked_fill(x <= 0, y[3])
    t.lerp(x, y, 0.5)
    t.lerp(x, y, x)
    t.addcdiv(x, y, x, value=2)
    t.addcmul(x, y, x, value=2)
    t.polar(x, y)
    t.complex(x, y).angle()
""")  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    kink(BINARY[name], *GRID)


@pytest.mark.parametrize("name", ["x ** y", "t.atan2(x, y)", "t.maximum(x, y)", "t.xlogy(x, y)", "t.copysign(x, y)"])
def test_binary_with_zero_dimensions(name):
    line = np.array([-2.0, -0.0, 0.0, 0.5, 1.0, 2.0])
    kink(BINARY[name], line, np.array(0.0))
    kink(BINARY[name], np.array(0.0), line)


@pytest.mark.parametrize("f", [lambda t, x, y: x**y, lambda t, x, y: x / y, lambda t, x, y: x * y.sgn()])
def test_complex_binary(f):
    kink(f, *COMPLEX_GRID)


EMPTY = ["x.abs()", "x ** 0.5", "F.relu(x)", "x.clamp(-1.0, 2.0)", "x.sgn()", "x.sinc()"]


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_at_all(name):
    kink(UNARY[name], np.zeros((0, 3)))
    kink(UNARY[name], np.array(0.0))


# -- no derivative -----------------------------------------------------------------------------------


@pytest.mark.parametrize("f", [
    lambda t, x: t.heaviside(x, x),
    lambda t, x: t.igamma(x, x),
    lambda t, x: t.igammac(x, x),
    lambda t, x: t.special.zeta(x, x),
    lambda t, x: x // 2,
    lambda t, x: t.floor_divide(x, x),
    lambda t, x: 5 % x,
])  # fmt: skip
def test_derivatives_that_are_not_implemented(f):
    agree_error(lambda t: f(t, t.ones(2, requires_grad=True)).sum().backward(), "derivative.*not implemented")


def test_results_of_integers_and_bools_do_not_require_grad():
    agree(lambda t: [o.requires_grad for x in [t.tensor([1.0, NAN, 0.0], requires_grad=True)] for o in [
        x > 0, x == x, x.isnan(), x.isfinite(), x.signbit(), x.argmax(), x.sort().indices, x.frexp().exponent,
        x.count_nonzero(), x.to(t.int32), x.bool(), x.topk(2).indices, t.bucketize(x, x), t.searchsorted(x, x),
        x.cummax(0).indices, x.mode().indices, x.isclose(x), t.logical_and(x, x), x.nonzero(), x.unique().long(),
    ]])  # fmt: skip


def test_constant_derivatives_are_zero_not_missing():
    agree(lambda t: [t.autograd.grad(f(x).sum(), x)[0] for x in [t.tensor([-1.5, 0.0, 2.0], requires_grad=True)]
                     for f in (t.floor, t.ceil, t.round, t.trunc, t.sign, t.sgn)])  # fmt: skip


# -- the page ------------------------------------------------------------------------------------------

DOCS = Path(__file__).resolve().parents[2] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_kinks.py"), run_name="make_kinks")


def test_the_page_is_current():
    assert (DOCS / "kinks.md").read_text() == MAKER["page"](torchlike), "run python docs/make_kinks.py"


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom", "ignore:std.*degrees of freedom")
def test_the_table_is_that_of_pytorch():
    assert list(MAKER["rows"](torchlike)) == list(MAKER["rows"](torch))
