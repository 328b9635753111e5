"""First calls by numpy of what C leaves open, and of functions that XLA approximates: bit by bit what kernels give."""

import os
import random

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from xla_kit import assert_alike, assert_same, both

from torchlike._executor import compiling, elements, numpy_programs

CASES = max(1, round(60 * float(os.environ.get("TORCHLIKE_CASES", "1"))))
POINTS = np.asarray([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.3, np.inf, -np.inf, np.nan, 80, -70.25, 0.9, -0.9, 2**31])
FAR = np.asarray([127.9, 128, -128.5, -129, 255.5, 256, 65536, -1e10, 2**31, 2**32, 2**63, 2**64, 1e30, -1e30])
HALF = POINTS[:-1].astype("f2")
BRAIN = jnp.asarray(POINTS, "bfloat16")
Z = np.asarray([1 + 2j, -3.5 + 0.1j, 0j, -1, 1j, complex(np.inf, 1), complex(0, np.nan), 1e3 - 7j])
KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
KEYS = np.asarray([[3, 1, np.nan, -0.0, 0.0, 1, -np.inf], [2, 2, 1, np.nan, np.nan, 5, 0.5]], "f4")


def whole(kind):
    """Integers, and others, in all pairs."""
    info = np.iinfo(kind)
    row = np.asarray([0, 1, 2, 5, 7, 31, 100, info.max, info.min, info.max - 1, -1 if kind[0] == "i" else 9], kind)
    x, y = np.meshgrid(row, row)
    return x.copy(), y.copy()


THREE = {"regularized_incomplete_beta"}
TWO = {"add", "sub", "mul", "div", "max", "min", "atan2", "igamma", "igammac", "nextafter", "polygamma", "pow", "rem",
       "zeta"}  # fmt: skip
FUNCTIONS = {name: 3 if name in THREE else 2 if name in TWO else 1 for name in sorted(elements.NAMES)}
WORDS = {"clz", "population_count"}
ACCURATE = "exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sin", "cos", "tan", "cbrt", "rsqrt", "sqrt"
PARAMETERS = {"mul": ("out_dtype",), **dict.fromkeys(ACCURATE, ("accuracy",))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_each_element(name):
    x = np.arange(-4, 11).astype("i4") if name in WORDS else POINTS.astype("f4")
    primitive = getattr(lax, f"{name}_p")
    params = PARAMETERS.get(name, ())

    def f(*values):
        return primitive.bind(*values, **dict.fromkeys(params))

    code = compiling.compiled(compiling.traced(f, [x] * FUNCTIONS[name]), (), compiling.QUICKLY)[0]
    theirs, _ = compiling.call(code, [x] * FUNCTIONS[name], False)
    assert_alike([elements.call(*[x] * FUNCTIONS[name], (name, *params))], [np.asarray(theirs)])


EXACT = {
    **{
        f"{name} of {kind}": (getattr(lax, name), *whole(kind))
        for kind in ("i1", "u1", "i4", "u8")
        for name in ("div", "rem", "shift_left", "shift_right_arithmetic", "shift_right_logical")
    },
    **{
        f"{kind} of {source}": (
            lambda x, kind=kind: lax.convert_element_type(x, kind),
            np.concatenate([POINTS, FAR]).astype(source),
        )
        for kind in KINDS
        for source in ("f4", "f8")
    },
    **{
        f"{bits} bits of {kind}": (lambda x, bits=bits: lax.reduce_precision(x, *bits), x)
        for bits in ((5, 10), (8, 7), (8, 23), (4, 3), (11, 52), (2, 1))
        for kind in ("f4", "f8")
        for x in [np.concatenate([POINTS, FAR, 10.0 ** np.linspace(-9, 9, 40)]).astype(kind)]
        if bits[0] <= (8 if kind == "f4" else 11) and bits[1] <= (23 if kind == "f4" else 52)
    },
    "rest": (lax.rem, *[m.astype("f4") for m in np.meshgrid(POINTS, POINTS)]),
    "sign": (lax.sign, POINTS.astype("f4")),
    "sign of int": (lax.sign, whole("i4")[0]),
    "sorted": (lambda x, i: lax.sort((x, i), dimension=1, num_keys=1), KEYS, np.arange(14).reshape(2, 7)),
    "argsort": (lambda x: jnp.argsort(x, 0, stable=True), whole("i4")[0]),
    "sum so far": (lambda x: (lax.cumsum(x, 0), lax.cumprod(x, 1, reverse=True)), whole("i4")[0]),
    "largest so far": (lambda x: (lax.cummax(x, 0), lax.cummin(x, 1, reverse=True)), whole("i8")[0]),
    "product": (lambda x: x.prod(0), whole("i4")[0]),
    "chosen": (lambda i, x: lax.select_n(i, x, -x, x * 2), np.arange(16, dtype="i4") % 3, POINTS.astype("f4")),
    "parts": (lambda x: lax.split(x, (1, 4, 2), 1), KEYS),
    "none of none": (lambda x: (x.any(0), x.all(0), x.sum(0)), np.zeros((0, 3), "?")),
    "halves": (lambda x, y: (x + y, -x, x > y), HALF, HALF[::-1]),
    "brain floats": (lambda x, y: (x * y, x.astype("f4") / 3, jnp.where(x < y, x, y)[::-1]), BRAIN, BRAIN[::-1]),
    "to a half": (lambda x: (x * 1.1).astype("bfloat16"), POINTS.astype("f4")),
    "moved halves": (lambda x: jnp.stack([x, x]).T[2:].reshape(-1), BRAIN),
    "complex": (lambda x: (jnp.abs(x), lax.exp(x), lax.square(x), lax.sign(x)), Z),
    "complex quotient": (lambda x, y: (x / y, x * y), Z, Z[::-1]),
    "away from zero": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), POINTS[:-1].astype("f4")),
    "softmax": (lambda x: (lambda e: e / e.sum(1, keepdims=True))(jnp.exp(x - x.max(1, keepdims=True))), KEYS[:, :2]),
    "no elements": (lambda x: jnp.exp(x), np.zeros((0, 3), "f4")),
    "one element": (lambda x: jnp.log(x) * 2, np.float32(3)),
}


@pytest.mark.parametrize("name", EXACT)
def test_numpy_gives_what_the_compiled_kernel_gives(name):
    assert_same(*EXACT[name])


UNARY = {"f": ("exp", "log", "tanh", "sin", "logistic", "rsqrt", "sqrt", "abs", "neg", "log1p", "erf", "sign", "floor",
               "square", "lgamma", "asinh"),
         "c": ("exp", "log", "abs", "neg", "sqrt", "conj", "real", "rsqrt", "square"),
         "i": ("abs", "neg", "sign"), "h": ("exp", "tanh", "abs", "neg")}  # fmt: skip
BINARY = {"f": ("add", "sub", "mul", "div", "max", "pow", "rem", "atan2"), "c": ("add", "sub", "mul", "div", "pow"),
          "i": ("add", "mul", "div", "rem", "shift_left"), "h": ("add", "mul", "div", "max")}  # fmt: skip
FAMILY = {"f4": "f", "f8": "f", "c8": "c", "c16": "c", "i4": "i", "i1": "i", "bfloat16": "h", "f2": "h"}


def chain(seed):
    """A function that does some of these things in a row, and arguments for it."""
    pick, numbers = random.Random(seed), np.random.RandomState(seed)
    kind = pick.choice(["f4", "f8", *FAMILY])
    family, shape = FAMILY[kind], pick.choice([(3, 4), (1, 5), (2, 1), (7, 9)])
    plan = [(pick.random(), pick.choice(UNARY[family]), pick.choice(BINARY[family]), pick.randrange(20),
             pick.randrange(20), pick.choice([2, 1, 3, 7])) for _ in range(pick.randint(1, 6))]  # fmt: skip

    def f(x, y, row):
        found = [x, y, lax.broadcast_in_dim(row, x.shape, (1,))]
        for which, one, two, i, j, number in plan:
            u, v = found[i % len(found)], found[j % len(found)]
            if which < 0.5 and (u.dtype == x.dtype or one in ("abs", "neg", "exp", "sign")):
                found.append(getattr(lax, one)(u))
            elif which < 0.8 and u.dtype == v.dtype == x.dtype:
                found.append(getattr(lax, two)(u, v))
            elif which < 0.9 and u.dtype == x.dtype:
                found.append(u * np.asarray(number, u.dtype) if number > 2 else u + np.asarray(number, u.dtype))
            elif u.dtype.kind == "f" and u.dtype.itemsize > 2:
                found.append(lax.broadcast_in_dim(u.sum(1), u.shape, (0,)) if which < 0.95 else lax.rev(u, (0,)))
        return tuple(found[-2:])

    def argument(shape):
        x = numbers.randn(*shape) * 10 ** numbers.uniform(-1, 1, shape)
        x = np.where(numbers.rand(*shape) < 0.2, numbers.choice(POINTS[:-1], size=shape), x)
        if family == "i":
            return numbers.choice(whole(kind)[0][0], size=shape).astype(kind)
        return x.astype(kind) if family != "c" else (x + 1j * x[..., ::-1]).astype(kind)

    return f, (argument(shape), argument(shape), argument(shape[1:]))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_chains_of_functions():
    seen = 0
    for seed in range(CASES):
        f, arguments = chain(seed)
        found = both(f, *arguments)
        if found is not None:
            seen += 1
            assert_alike(*found)
    assert seen > CASES / 3


JOINT = {
    "log of sqrt": lambda x, y: lax.log(lax.sqrt(x)),
    "log1p of tanh": lambda x, y: lax.log1p(lax.tanh(x)),
    "exp of rsqrt": lambda x, y: lax.exp(lax.rsqrt(x)),
    "tanh less sign": lambda x, y: lax.tanh(x) - lax.sign(y),
    "tanh less rsqrt": lambda x, y: lax.tanh(x) - lax.rsqrt(y),
    "log1p less log1p": lambda x, y: lax.log1p(x) - lax.log1p(y),
    "sum times number": lambda x, y: (x * y + x.dtype.type(1)) * x.dtype.type(3),
    "number times row": lambda x, y: (x * x.dtype.type(7)) * y[0],
    "number times number": lambda x, y: (x * x.dtype.type(7)) * y[0, 0],
    "gelu": lambda x, y: x * (1 + lax.tanh(x + y)),
    "tanh backward": lambda x, y: (lambda t: y * (1 - t * t))(lax.tanh(x)),
    "softplus": lambda x, y: lax.max(x, y) + lax.log1p(lax.exp(-lax.abs(x))),
}


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", JOINT)
def test_functions_that_share_a_loop(name, kind):
    r = np.random.RandomState(5)
    found = both(JOINT[name], *[(np.abs(r.randn(9, 13)) * 10 ** r.uniform(-1, 1, (9, 13))).astype(kind) for _ in "xy"])
    assert (found is not None) == (name in ("gelu", "tanh backward", "softplus"))
    if found is not None:
        assert_alike(*found)


ROW = np.asarray([0.3, 1.7, 2.9, 0.7], "f4")
BESIDE = {
    "a function of it": lambda x, row, d: (x / d, lax.sin(d)),
    "a function of the row": lambda x, row, d: (x / d, lax.log(row)),
    "the row": lambda x, row, d: (x / d, row, lax.exp(x)),
    "two quotients": lambda x, row, d: (x / d, lax.exp(x) / lax.broadcast_in_dim(row, x.shape, (1,))),
    "a sum": lambda x, row, d: (x / d, d + np.float32(1)),
    "a comparison": lambda x, row, d: (x / d, d > np.float32(1)),
    "a product": lambda x, row, d: ((x * x) / d, lax.sin(d)),
    "a reshaped row": lambda x, row, d: (lambda r: (x / lax.broadcast_in_dim(r, x.shape, (1,)), r + np.float32(1)))(
        row.reshape(2, 2).reshape(4)
    ),
    "a number": lambda x, row, d: (x / row[0], lax.exp(row[0])),
    "nothing": lambda x, row, d: (x / d, lax.exp(x)),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_divisor_with_another_use(name):
    """XLA inverts an argument that is broadcast only if nothing else is made of it."""
    x = np.random.RandomState(0).randn(16, 4).astype("f4")
    found = both(lambda x, row: BESIDE[name](x, row, lax.broadcast_in_dim(row, x.shape, (1,))), x, ROW)
    if name == "nothing" or found is not None:
        assert_alike(*found)


def test_one_code_serves_all_shapes(monkeypatch):
    seen, compiled = [], compiling.compiled
    monkeypatch.setattr(compiling, "compiled", lambda *args: (seen.append(args), compiled(*args))[1])
    for n in range(1, 9):
        numpy_programs.HostProgram(numpy_programs.written(compiling.traced(jnp.exp, [np.ones((n, 3))]).jaxpr))(
            [np.ones((n, 3))]
        )
    assert len(seen) <= 1


def test_a_forked_process_computes_nothing_by_xla():
    assert numpy_programs.written(compiling.traced(jnp.exp, [np.ones(3)]).jaxpr, compiled=False) is None
