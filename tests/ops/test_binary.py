"""Functions of two tensors: values and derivatives at ties and zeros, promotion, forms, errors."""

import operator

import ml_dtypes
import numpy as np
import pytest
import torch
from both import agree, agree_error
from oracle import check, check_error
from pointwise_cases import BOOLS, BRAIN, COMPLEX, HALF, INF, INTS, MATRIX, NAN, SCALAR, forward, twice

import torchlike

POINTS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -0.5, 3.0, NAN, INF, -INF])
FEW = np.array([0.0, 1.0, -1.0, 2.5, -3.0])
FLOATS = """add sub mul div atan2 copysign maximum minimum fmax fmin remainder fmod pow hypot xlogy
logaddexp logaddexp2 ldexp nextafter""".split()
# At these pairs PyTorch's second derivatives depend on the order of its own masks: first order only.
FIRST_ORDER = {"hypot", "pow", "atan2", "logaddexp", "logaddexp2", "xlogy", "ldexp", "copysign"}
INTEGERS = """
add sub mul div atan2 copysign maximum minimum fmax fmin xlogy gcd lcm ldexp
bitwise_and bitwise_or bitwise_xor
""".split()


def call(name):
    return lambda t, *a: getattr(t, name)(*a)


@pytest.mark.parametrize("name", FLOATS)
def test_values_and_first_derivatives_at_edges(name):
    check(call(name), *twice(POINTS), gradgrad=False)


@pytest.mark.parametrize("name", FLOATS)
def test_second_derivatives(name):
    rng = np.random.RandomState(0)
    a, b = rng.uniform(0.5, 3.0, (3, 4)), rng.uniform(0.5, 3.0, (4,))
    check(call(name), a, b)
    check(call(name), SCALAR, a)
    if name not in FIRST_ORDER:
        check(call(name), *twice(FEW))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "logaddexp", "xlogy", "float_power"])
def test_complex(name):
    if name != "xlogy":
        check(
            call(name),
            COMPLEX[1:],
            COMPLEX[:0:-1],
            gradgrad=name not in {"pow", "float_power", "logaddexp"},
            tol=10,
        )
    check(call(name), np.array([1.5, 2.5]), np.array([0.5, 3.5]))


PARTS = [0.0, 1.0, -2.5, INF, -INF, NAN]
INFINITE = np.array([complex(a, b) for a in PARTS for b in PARTS])


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "index_add", "_foreach_add"])
def test_infinite_parts_of_complex_sums(name):
    """The second addend is multiplied by ``1 + 0j``, an infinite part of it by 0."""
    sums = {
        "index_add": lambda t, x, y: t.index_add(x, 0, t.arange(len(y)), y),
        "_foreach_add": lambda t, x, y: t._foreach_add([x], [y])[0],
    }
    forward(sums.get(name, call(name)), *twice(INFINITE))
    check(call("add"), INFINITE[:3], np.array([1.0, INF, 2.0]))


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    forward(call(name), *twice(INTS))
    forward(call(name), INTS.astype(np.int8), np.int64(3))
    forward(call(name), INTS.astype(np.uint8), INTS.astype(np.int16))


OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
NUMBERS = [2, 3, -1, 0.5, -0.5, 2.5, 1, 0.1, True, 2 + 1j]


def combine(op, first, number):
    def f(t, x):
        return op(x, number) if first else op(number, x)

    return f


@pytest.mark.parametrize("first", [True, False], ids=["tensor first", "number first"])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.__name__)
def test_numbers(op, first):
    for number in NUMBERS:
        if (op is operator.sub and number is True) or (
            op in (operator.floordiv, operator.mod) and isinstance(number, complex)
        ):
            continue
        if op is operator.pow and isinstance(number, complex | bool):
            continue  # PyTorch fails with an internal error for some dtypes
        undefined = op is operator.floordiv or (op is operator.mod and not first)
        check(combine(op, first, number), np.array([0.75, 1.5, -2.0, 3.0]), grad=not undefined, jit=False)
        # PyTorch's sign of (-0.0) ** -0.5 depends on the length of the tensor.
        for x in (HALF[2:], BRAIN[2:], np.float32([1.25]), INTS[[1, 3, 5]], INTS[[1, 3, 5]].astype(np.int8)):
            if isinstance(number, complex) and x.dtype.itemsize == 2:
                continue  # complex32, which jax lacks
            if op is operator.pow and isinstance(number, int) and number < 0 and first and x.dtype.kind == "i":
                continue
            forward(combine(op, first, number), x)


@pytest.mark.parametrize(
    "op",
    [*OPERATORS, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift],
    ids=lambda op: op.__name__,
)
def test_in_place_operators(op):
    """``x op= y`` writes into x and its aliases."""
    name = {"and_": "iand", "or_": "ior"}.get(op.__name__, "i" + op.__name__)
    bits = op in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift)
    a, b = (INTS[[1, 3, 5]], np.array([1, 2, 3])) if bits else (np.array([1.5, -2.5, 3.0]), np.array([2.0, 0.5, 1.0]))

    def f(t, x, y):
        z = x * 1
        alias = z[1:]
        kept = z
        z = getattr(operator, name)(z, y)
        return z, alias, t.tensor(z is kept)

    check(f, a, b, gradgrad=False, jit=False, grad=not bits and op is not operator.floordiv)
    forward(lambda t, x: f(t, x, 2), a)


def test_reflected_operators_take_tensors():
    for name in "__rsub__ __rtruediv__ __rpow__ __rmod__ __rfloordiv__".split():
        forward(lambda t, x, y, n=name: getattr(x, n)(y), np.array([1.5, 2.0]), np.array([3.0, 4.0]))


def test_power_with_special_exponents():
    for e in (2, 3, 0.5, -0.5, -1, -2, 0, 1, 2.0, 4, 1.5):
        check(lambda t, x, e=e: x**e, np.array([0.0, 1.0, -2.0, 3.5, INF, NAN]), gradgrad=False)
        check(lambda t, x, e=e: t.pow(x, e), np.array([0.25, 1.0, 2.0, 3.5]))
        forward(lambda t, x, e=e: x.pow(e), HALF[2:])
    check(lambda t, x: t.pow(x, 2), COMPLEX)


def test_power_at_zero():
    """PyTorch: the derivative of x ** 0 is 0, of 0 ** y is 0 for y >= 0."""
    x = torchlike.zeros(2, requires_grad=True)
    y = torchlike.tensor([0.0, 2.0], requires_grad=True)
    (x**y).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0] and y.grad.tolist() == [0.0, 0.0]
    check(lambda t, x, y: t.pow(x, y), np.zeros(4), np.array([0.0, 1.0, 2.0, 3.0]), gradgrad=False)


def test_integer_powers_wrap():
    forward(lambda t, x: x**70, np.array([3, -3, 2, 1, 0]))
    forward(lambda t, x, y: x**y, *twice(INTS))
    forward(lambda t, x: 1000**x, np.array([2, 3], np.int8))
    forward(lambda t, x, y: x**y, np.array([3, 200], np.uint8), np.array([5, 2], np.uint8))


def test_no_exponent_is_compiled_in():
    """A new exponent in a loop is not a new kernel."""
    from torchlike._ops import power

    x = torchlike.tensor([1.5])
    x**1.1
    before = power.pow_scalar.kernels[()]._cache_size()
    for e in (1.2, 1.3, -7.5):
        x**e
    assert power.pow_scalar.kernels[()]._cache_size() == before


MODES = [None, "trunc", "floor"]


@pytest.mark.parametrize("mode", MODES)
def test_division_modes(mode):
    check(lambda t, x, y: t.div(x, y, rounding_mode=mode), *twice(POINTS), gradgrad=False)
    check(lambda t, x, y: x.div(y, rounding_mode=mode), np.array([1.5, -2.5]), np.array([0.4, 0.7]))
    forward(lambda t, x, y: t.div(x, y, rounding_mode=mode), *twice(INTS[1:]))
    forward(lambda t, x: x.div(2, rounding_mode=mode), INTS.astype(np.int8))
    for x in (HALF, BRAIN):
        forward(lambda t, x: t.div(x[:, None], x[2:], rounding_mode=mode), x)
    forward(lambda t, x: x.clone().div_(0.75, rounding_mode=mode), MATRIX)


def test_floor_divide_and_remainder():
    for name in ("floor_divide", "remainder", "fmod"):
        forward(call(name), *twice(INTS[1:]))
        forward(call(name), *twice(POINTS))
        forward(call(name), INTS, np.int8(-4))
        for x in (HALF, BRAIN):
            forward(lambda t, x, n=name: getattr(t, n)(x[:, None], x[2:]), x)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "__floordiv__", "__mod__"])
def test_integer_division_by_zero(name):
    zero = np.array([1, 0, 2])
    check_error(lambda t, x, y: getattr(x, name)(y), np.array([1, 2, 3]), zero, match="ZeroDivisionError")
    check_error(lambda t, x: getattr(x, name)(0), np.array([1, 2, 3]), match="ZeroDivisionError")


@pytest.mark.parametrize("name", ["__ifloordiv__", "__imod__", "fmod_", "floor_divide_"])
def test_integer_division_by_zero_in_place_changes_nothing(name):
    check_error(lambda t, x: getattr(x, name)(0), np.array([1, 2, 3]), match="ZeroDivisionError")


def test_shifts():
    x = np.array([1, -5, 7, -128, 100])
    for dtype in (np.int64, np.int32, np.int8, np.uint8):
        for by in (0, 1, 7, 8, 9, 63, 64, -1):
            if dtype is np.uint8 and by < 0:
                continue
            forward(lambda t, x, by=by: (x << by, x >> by), x.astype(dtype))
    forward(lambda t, x: (2 << x, 200 >> x, t.bitwise_left_shift(3, x)), np.array([0, 1, 5]))


def test_bits_of_bools():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    forward(lambda t, x, y: (x & y, x | y, x ^ y, ~x, x & True, x | 2, x << 1), a, b)


def test_alpha():
    check(lambda t, x, y: t.add(x, y, alpha=2.5), MATRIX, MATRIX[0])
    check(lambda t, x, y: x.sub(y, alpha=-3), MATRIX, MATRIX[1:2])
    check(lambda t, x, y: t.rsub(x, y, alpha=2), MATRIX, MATRIX[0])
    check(lambda t, x: t.rsub(x, 3), MATRIX)
    forward(lambda t, x: t.add(x, x, alpha=True), BOOLS)
    forward(lambda t, x: t.add(x, x, alpha=0.3), BRAIN)
    forward(lambda t, x: x.clone().add_(x, alpha=0.3), HALF)


def test_promotion():
    arrays = [
        BOOLS,
        INTS[:3],
        INTS[:3].astype(np.uint8),
        HALF[:3],
        BRAIN[:3],
        HALF[:3].astype(np.float32),
        np.float64([1.5, 2.5, 3.5]),
        COMPLEX[:3],
        np.float64(2.5),
        np.int64(3),
        np.float16(0.5),
    ]
    for x in arrays:
        for y in arrays:
            forward(lambda t, x, y: (x + y, x * y, x / (y + 4)), x, y, stride=False)


@pytest.mark.parametrize("number", [np.bool_(True), np.longdouble(1.5), np.uint8(3)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("array", [BOOLS, INTS[:3], HALF[:3]], ids=lambda x: str(x.dtype))
def test_numbers_of_numpy(array, number):
    forward(lambda t, x: (x + number, number * x, x > number, t.full((2,), number), x.clone().fill_(number)), array)


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "atan2", "pow"])
def test_strides_follow(name):
    forward(lambda t, x, y: getattr(t, name)(x.T, y.T), MATRIX, np.abs(MATRIX) + 1)
    forward(lambda t, x, y: getattr(t, name)(x.T, y), MATRIX, np.abs(MATRIX.T.copy()) + 1)
    forward(lambda t, x, y: getattr(t, name)(x[:, ::2], y), MATRIX, np.abs(MATRIX[:, :1]) + 1)
    forward(lambda t, x: getattr(t, name)(x[1:0], x[0]), MATRIX)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "pow", "atan2", "xlogy", "logaddexp", "fmod"])
def test_out(name):
    forward(lambda t, x, y: getattr(t, name)(x, y, out=t.empty(0, dtype=x.dtype)), MATRIX, np.abs(MATRIX[0]) + 1)


def test_complex_from_parts():
    check(lambda t, x, y: t.complex(x, y), MATRIX, MATRIX[0])
    check(lambda t, x, y: t.polar(x, y), np.abs(MATRIX) + 0.5, MATRIX[0])
    forward(lambda t, x: t.complex(x, x), np.float32([1.5, NAN]))


def test_heaviside():
    forward(call("heaviside"), *twice(POINTS))
    forward(call("heaviside"), INTS, INTS[::-1].copy())


def test_xlogy_with_numbers():
    check(lambda t, x: t.xlogy(x, 2), np.array([0.5, 0.0, 3.0]))
    check(lambda t, x: t.xlogy(2, x), np.array([0.5, 1.0, 3.0]))
    check(lambda t, x: t.special.xlog1py(x, 2), np.array([0.5, 0.0, 3.0]))
    check(lambda t, x, y: t.special.xlog1py(x, y), *twice(POINTS[[0, 2, 3, 4, 5, 7]]), gradgrad=False)


def test_incomplete_gamma_and_zeta():
    a, x = np.array([0.5, 1.0, 2.5, 8.0]), np.array([0.25, 2.0, 1.5, 9.0])
    for name in ("igamma", "igammac"):
        check(
            lambda t, x, n=name: getattr(t, n)(t.tensor([0.5, 1.0, 2.5, 8.0], dtype=t.float64), x),
            x,
            gradgrad=False,
        )
    check(lambda t, q: t.special.zeta(3.0, q), np.array([0.5, 2.0, -1.5, -12.25]), tol=100)
    forward(lambda t, s, q: t.special.zeta(s, q), *twice(np.array([0.0, 1.0, 2.0, 3.5, -1.0, -0.5])))
    forward(lambda t, s, q: t.special.gammainc(s, q), a, x)


NO_DERIVATIVE = [
    ("floor_divide", RuntimeError, "aten::floor_divide is not implemented"),
    ("heaviside", RuntimeError, "aten::heaviside is not implemented"),
    ("igamma", NotImplementedError, "igamma: input.*not implemented"),
]


@pytest.mark.parametrize(("name", "kind", "match"), NO_DERIVATIVE)
def test_missing_derivatives_raise_in_the_backward(name, kind, match):
    for t in (torch, torchlike):
        x = t.tensor([2.0, 3.0], requires_grad=True)
        y = getattr(t, name)(x, x).sum()
        with pytest.raises(kind, match=match):
            y.backward()


NODES = {
    "add": "AddBackward0",
    "sub": "SubBackward0",
    "mul": "MulBackward0",
    "div": "DivBackward0",
    "pow": "PowBackward1",
    "maximum": "MaximumBackward0",
    "atan2": "Atan2Backward0",
    "remainder": "RemainderBackward1",
    "xlogy": "XlogyBackward0",
    "fmod": "FmodBackward1",
    "logaddexp2": "Logaddexp2Backward0",
    "copysign": "CopysignBackward0",
    "rsub": "RsubBackward0",
}


@pytest.mark.parametrize("name", NODES)
def test_nodes(name):
    for t in (torch, torchlike):
        x, y = t.tensor([1.5], requires_grad=True), t.tensor([2.5], requires_grad=True)
        assert getattr(t, name)(x, y).grad_fn.name() == NODES[name]


def test_nodes_with_numbers():
    found = []
    for t in (torch, torchlike):
        x = t.tensor([1.5], requires_grad=True)
        results = (
            x + 1,
            1 - x,
            2 / x,
            x**2,
            x**1.7,
            2**x,
            x % 2,
            t.fmod(x, 2),
            t.xlogy(x, 2),
            t.copysign(x, -1.0),
            x.div(2),
        )
        found.append([r.grad_fn.name() for r in results])
    assert found[0] == found[1]


REFUSED = [
    (lambda t, x, y: x + y, (np.ones(2), np.ones(3)), r"size of tensor a \(2\).*tensor b \(3\).*dimension 0"),
    (lambda t, x, y: x - y, (BOOLS, BOOLS), "Subtraction.*two bool tensors"),
    (lambda t, x: x - True, (INTS,), "Subtraction.*a bool tensor"),
    (lambda t, x: 1 - x, (BOOLS,), "Subtraction.*a bool tensor"),
    (lambda t, x: t.add(x, x, alpha=1.5), (INTS,), "integral.*alpha"),
    (lambda t, x: t.add(x, x, alpha=True), (INTS,), "Boolean alpha"),
    (lambda t, x: t.sub(x, x, alpha=1j), (MATRIX,), "complex number"),
    (lambda t, x: x**-1, (INTS,), "negative integer powers"),
    (lambda t, x: x // x, (BOOLS,), "floor_divide.*Bool"),
    (lambda t, x: x % 2, (COMPLEX,), "remainder.*Complex"),
    (lambda t, x: t.div(x, 2, rounding_mode="up"), (MATRIX,), "rounding_mode.*'trunc', or 'floor'.*'up'"),
    (lambda t, x: t.maximum(x, x), (COMPLEX,), "maximum.*complex"),
    (lambda t, x: t.maximum(x, 1.0), (MATRIX,), "maximum.*must be Tensor, not float"),
    (lambda t, x: t.fmax(x, x), (COMPLEX,), "fmax.*complex"),
    (lambda t, x: x & x, (MATRIX,), "bitwise_and.*Double"),
    (lambda t, x: x << 1.5, (INTS,), "left_shift.*Float"),
    (lambda t, x: t.gcd(x, x), (MATRIX,), "gcd.*Double"),
    (lambda t, x: x.add_(1.5), (INTS,), "Float can't be cast.*Long"),
    (lambda t, x, y: x.mul_(y), (np.ones(()), np.ones(2)), r"output with shape \[\].*\[2\]"),
    (lambda t, x: x.div_(2), (INTS,), "Float can't be cast.*Long"),
    (lambda t, x: x + "a", (MATRIX,), "unsupported operand"),
    (lambda t, x: x < None, (MATRIX,), "not supported"),
    (lambda t, x, y: t.heaviside(x, y), (MATRIX, INTS[:4]), "heaviside.*dtypes"),
    (lambda t, x, y: t.complex(x, y), (MATRIX, np.float32([1, 2, 3, 4])), "complex.*dtype|Double.*Float"),
    (lambda t, x: t.polar(x, x), (INTS,), "polar.*Long|Half, Float or Double.*Long"),
    (lambda t, x: t.atan2(x, x), (COMPLEX,), "atan2.*Complex"),
    (lambda t, x: t.pow(x, "a"), (MATRIX,), "pow.*exponent.*str"),
    (lambda t, x: t.float_power(x, 2, out=t.empty(0)), (MATRIX,), "float_power"),
    (lambda t, x: x.float_power_(2), (np.float32([1.0]),), "float_power_"),
]


@pytest.mark.parametrize(("f", "arrays", "match"), REFUSED, ids=range(len(REFUSED)))
def test_refuses(f, arrays, match):
    check_error(f, *arrays, match=match)


def test_equality_with_strangers():
    """Comparison with what is neither a tensor nor a number is Python's."""
    for t in (torch, torchlike):
        x = t.ones(2)
        assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711


def test_reduced_precision_is_rounded_once():
    """Products and quotients meet a number in float32, sums in 16 bits, as in PyTorch."""
    x = np.linspace(-3, 3, 500).astype(np.float16)
    for array in (x, x.astype(ml_dtypes.bfloat16)):
        for f in (
            lambda t, x: x * 0.1,
            lambda t, x: 0.1 * x,
            lambda t, x: x / 3,
            lambda t, x: x // 0.1,
            lambda t, x: x + 0.1,
            lambda t, x: x - 0.3,
            lambda t, x: 0.7 - x,
            lambda t, x: 0.1 / x,
            lambda t, x: x % 0.1,
        ):
            forward(f, array, tol=0)


def test_deprecated_order_of_arguments():
    """A factor before the tensors still works, with a warning."""
    forward(lambda t, x: (t.add(x, 0.5, x), x.clone().add_(0.5, x), t.sub(x, 2, x), x.sub(2, x)), MATRIX)
    forward(lambda t, x: (x.addcmul(0.5, x, x), x.clone().addcdiv_(-2, x, x)), MATRIX)
    with pytest.warns(UserWarning, match="add.*deprecated.*alpha="):
        torchlike.ones(2).add_(0.5, torchlike.ones(2))
    check_error(lambda t, x: t.add(x, x, x), MATRIX, match="add.*positional arguments.*Tensor, Tensor")
    check_error(lambda t, x: x.add_(x, 2), MATRIX, match="add.*positional arguments.*Tensor, int")


def test_in_place_functions():
    """``torch.exp_(x)`` is ``x.exp_()``."""
    forward(
        lambda t, x: [getattr(t, n)(x.abs() + 0.5) for n in ("exp_", "neg_", "sqrt_", "relu_", "round_", "fix_")],
        MATRIX,
    )
    forward(lambda t, x: (t.clamp_(x.clone(), 0, 1), t.threshold_(x.clone(), 0.5, 2.0)), MATRIX)


SIDE = np.random.RandomState(3).rand(9, 300).astype(np.float32) + 0.1
QUOTIENTS = {
    "a number": lambda t, x: x / 3,
    "a row": lambda t, x: x / x[4],
    "a column": lambda t, x: x / x[:, :1],
    "one element": lambda t, x: x / x[2, 2],
    "itself turned": lambda t, x: x / x.flip(0),
    "a number by it": lambda t, x: 3 / x,
    "in place": lambda t, x: x.clone().div_(x[1]),
    "gradient": lambda t, x: t.autograd.grad((v := x.clone().requires_grad_()).div(x[1]), v, x)[0],
    "many": lambda t, x: x.repeat(40, 10) / 7,
}


@pytest.mark.parametrize("execution", ["immediate"], indirect=True)  # programs multiply by inverses, as XLA does
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients_are_rounded_once(name, kind, execution):
    """The first calls, and those that XLA has compiled, give PyTorch's bits."""
    expected = QUOTIENTS[name](torch, torch.tensor(SIDE.astype(kind))).numpy()
    x = torchlike.tensor(SIDE.astype(kind))
    for _ in range(70):
        np.testing.assert_array_equal(QUOTIENTS[name](torchlike, x).numpy(), expected)


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("name", ["truediv", "sub", "mul", "pow", "floordiv"])
@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # PyTorch's own
def test_an_array_on_the_left(name, needs):
    def run(t):
        try:
            out = getattr(operator, name)(np.array([1.0, 3.0], np.float32), t.tensor([2.0, 7.0], requires_grad=needs))
            return str(out.dtype)[-7:], out.tolist()
        except (RuntimeError, TypeError) as error:
            return type(error).__name__

    assert run(torchlike) == run(torch)


@pytest.mark.parametrize("kind", ["int64", "int8", "uint8", "float32", "bfloat16", "complex64"])
def test_integers_that_take_the_sign_s_bit(kind):
    def results(t):
        x = t.tensor([1, 2, 3], dtype=getattr(t, kind))
        found = []
        for n in (2**63, 2**63 + 5, 2**64 - 1):
            found += [x + n, n - x, x * n, x == n, x != n, x / n, x.clone().mul_(n)]
            if kind != "complex64":
                found += [x > n, n >= x]
            if kind == "int64":
                found += [x // n, n // x, x % n, n % x, x.fmod(n), x.clone().floor_divide_(n)]
            if kind in ("float32", "bfloat16"):
                found += [x.clamp(max=n), x.clone().fill_(n), t.where(x == 2, x, n), x // n, x.remainder(n)]
        return [(y.tolist(), str(y.dtype)) for y in found]

    agree(results)


@pytest.mark.parametrize("f", [
    lambda t: t.ones(2, dtype=t.int64) ** 2**63, lambda t: t.ones(2, dtype=t.bool) + 2**63,
    lambda t: t.ones(2, dtype=t.int64).index_fill(0, t.tensor([0]), 2**63),
    lambda t: t.ones(2, dtype=t.int64).fill_(2**63), lambda t: t.ones(2, dtype=t.int64).clamp(min=2**63),
])  # fmt: skip
def test_integers_that_take_the_sign_s_bit_where_they_cannot_wrap(f):
    agree_error(f, "without overflow|Promotion for uint16")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_products_round_as_pytorchs(dtype):
    x, y = np.random.RandomState(0).standard_normal((2, 512, 2))
    index = np.arange(512)

    def bits(t, alone):
        a, b = (t.view_as_complex(t.tensor(v)).to(getattr(t, dtype)).requires_grad_() for v in (x, y))
        a.mul(b).backward(b.detach())
        products = [a.detach() * b.detach(), a.grad, b.grad]
        return [p.tolist() for p in products + alone(t, a.detach(), b.detach())]

    assert bits(torchlike, lambda *_: []) == bits(torch, lambda *_: [])
    # One by one and in a scatter they are PyTorch's in single precision; in double its own two ways differ.
    places = lambda t, a, b: [  # noqa: E731
        a.scatter(0, t.tensor(index), b, reduce="multiply"), t.stack([p * q for p, q in zip(a[:9], b[:9], strict=True)])
    ]  # fmt: skip
    whole, scattered, single = (np.array(v) for v in [bits(torchlike, places)[i] for i in (0, 3, 4)])
    assert (whole == scattered).all() and (whole[:9] == single).all()
