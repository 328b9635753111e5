"""Second and third derivatives of which all or the outer ones are forward: jvp of jvp, jvp of grad, grad of jvp."""

from __future__ import annotations

import pytest
from both import agree

POINTS = [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 6.0]
FUNCTIONS = """
    acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 i0 lgamma log log10 log1p log2 logit
    reciprocal rsqrt sigmoid sin sinc sinh sqrt square tan tanh
    special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.ndtr
    nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.elu nn.functional.selu nn.functional.celu
    nn.functional.softplus nn.functional.logsigmoid nn.functional.tanhshrink nn.functional.softsign
""".split()


def twice(f):
    """A script: the derivatives of ``f(t, x)`` at ``POINTS``."""

    def script(t):
        x = t.tensor(POINTS, dtype=t.float64)
        forward = lambda g, x: t.func.jvp(g, (x,), (t.ones_like(x),))[1]  # noqa: E731
        slope = lambda z: forward(lambda y: f(t, y), z)  # noqa: E731
        return (
            forward(slope, x),
            forward(t.func.grad(lambda y: f(t, y).sum()), x),
            t.func.grad(lambda z: slope(z).sum())(x),
            forward(lambda z: forward(slope, z), x),
        )

    return script


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_tensor(name):
    def f(t, x):
        for part in name.split("."):
            t = getattr(t, part)
        return t(x)

    agree(twice(f))


def test_quantiles_at_the_ends():
    """Infinite, where differences of infinities would be NaN."""
    agree(twice(lambda t, x: t.special.ndtri(x / 2)))


@pytest.mark.parametrize(
    "f",
    [
        lambda t, x: x**2,
        lambda t, x: x**3.0,
        lambda t, x: (x * x + 1) ** x,
        lambda t, x: t.pow(2.5, x),
        lambda t, x: t.float_power(x, 3),
    ],
)
def test_powers(f):
    agree(twice(f))


INNER = {
    "of the point": lambda t, y, v, a: t.func.jvp(lambda u: u.sin() * a, (y.t(),), (y * 2,))[1],
    "of a constant point": lambda t, y, v, a: t.func.jvp(lambda u: u.sin() * y, (a.t(),), (y * 2,))[1],
    "in a constant direction": lambda t, y, v, a: t.func.jvp(lambda u: u.sin(), (y[:, ::2],), (v[:, :2] * 1,))[1],
    "of a diagonal": lambda t, y, v, a: t.func.jvp(lambda u: u * u, ((y @ y.t()).diagonal(),), (v[:, 0],))[1],
}
OUTER = {
    "jvp": lambda F, f, a, v: F.jvp(f, (a,), (v,)),
    "grad": lambda F, f, a, v: F.grad(lambda y: f(y).sum())(a),
    "jacfwd": lambda F, f, a, v: F.jacfwd(f)(a),
    "vmap of jacfwd": lambda F, f, a, v: F.vmap(F.jacfwd(f))(v.new_ones(2, 1, 1) * a),
    "vmap of vmap of jacfwd": lambda F, f, a, v: F.vmap(F.vmap(F.jacfwd(f)))(v.new_ones(2, 2, 1, 1) * a),
}


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_a_tangent_in_another_memory_order_than_its_point(inner, outer):
    """It is copied into the order of the point, with what the transforms around it know of it."""

    def script(t):
        a, v = (t.linspace(b, 1, 9, dtype=t.float64).reshape(3, 3) for b in (-1, 0.5))
        return OUTER[outer](t.func, lambda y: INNER[inner](t, y, v, a), a, v)

    agree(script)


def test_a_tangent_and_its_point_are_mapped_by_different_transforms():
    def script(t):
        w = t.nn.PReLU(dtype=t.float64)
        f = t.func.vmap(t.func.vmap(t.func.jacfwd(lambda v: t.func.functional_call(w, {}, (v,)).sin()), chunk_size=1))
        return f(t.linspace(-1, 1, 24, dtype=t.float64).reshape(2, 2, 2, 3))

    agree(script)
