"""First calls that numpy runs: they give what compiled kernels give, bit by bit, or are none of its business."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from xla_kit import assert_same

from torchlike._executor import compiling, numpy_programs
from torchlike._executor.kernels import CALLS, LARGE, TINY, jit

FLOATS = np.asarray(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.3, np.inf, -np.inf, np.nan, 1e22, -1e22, 1e-6],
    np.float32,
)
A, B = np.meshgrid(FLOATS, FLOATS)
WHOLE = np.asarray([[0, 1, -1, 7], [-(2**31), 2**31 - 1, 5, -5]], np.int32)
U = np.asarray([0, 1, 2**31, 2**32 - 1, 77], np.uint32)
P = np.asarray([[True, False, True, True], [False, False, True, False]])
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MANY = (np.random.RandomState(0).randn(9, 32, 5) * 10 ** np.linspace(-3, 3, 32)[:, None]).astype("f4")
ROW = MANY[0, :, 0].copy()
PAIRS = np.asarray([[0, 1], [1, -3], [5, 0], [1, 2], [-1, 1], [1, 1]], np.int32)
PARTS = np.arange(1, 19, dtype=np.float32).reshape(6, 3)
MODES = ("clip", "fill", "promise_in_bounds")

# XLA multiplies by the inverse of what it divides by more than once, unless it does little else.
DIVISIONS = {
    "a number": lambda x, y: x / 7,
    "an argument": lambda x, y: x / y[3],
    "a constant": lambda x, y: x / np.asarray([3, 7, 0.1, -5, np.inf], np.float32),
    "zero": lambda x, y: x / 0,
    "rows": lambda x, y: x / y[:, None],
    "a function of rows": lambda x, y: x / (-jnp.broadcast_to(y[:, None], x.shape) + 1),
    "two rows": lambda x, y: x / (y[:, None] + y[:5]),
    "transposed rows": lambda x, y: x.transpose(1, 0, 2) / jnp.broadcast_to(y[:, None], x.shape).transpose(1, 0, 2),
    "a part of rows": lambda x, y: x[1:] / jnp.broadcast_to(y[:, None], x.shape)[1:],
    "places": lambda x, y: x / (lax.broadcasted_iota(np.float32, x.shape, 2) + 3),
    "itself": lambda x, y: y / y[::-1],
    "one": lambda x, y: (y[0] / y[1], y[0] / 3, y[:1] / y[1:2]),
    "the sum": lambda x, y: x / x.sum(1, keepdims=True),
}


def gather(x, i, mode):
    return lax.gather(x, i, lax.GatherDimensionNumbers((0, 2), (1,), (0, 2)), (1, 1, 3), mode=mode)


def shared_gather(x, i, mode):
    numbers = lax.GatherDimensionNumbers((1,), (1,), (1,), (0,), (0,))
    return lax.gather(x, i[:2, :1], numbers, (1, 1, 2), mode=mode)


def scatter(f, x, i, y, mode):
    one = f(x, i, y.reshape(6, 3, 1), lax.ScatterDimensionNumbers((1, 2), (0,), (0, 2)), mode=mode)
    other = f(x, i[:2, :1], y[:2].reshape(2, 3), lax.ScatterDimensionNumbers((1,), (2,), (2,), (0,), (0,)), mode=mode)
    return one, other


SAME = {
    "bits": (lambda x, y: (lax.bitcast_convert_type(x, np.float32), lax.bitcast_convert_type(y, np.uint8)), PAIRS, A),
    "longer numbers of bits": (
        lambda x: lax.bitcast_convert_type(x.reshape(3, 4, 2), np.float64),
        A.view("u4")[:2, :12],
    ),
    "add": (lambda x, y: x + y, A, B),
    "zero": (lambda x: (x + 0, 0 + x, x - 0, 0 - x, x + jnp.zeros_like(x)), A),
    "sub": (lambda x, y: x - y, A, B),
    "mul": (lambda x, y: x * y, A, B),
    "div": (lambda x, y: x / y, A, B),
    "max": (jnp.maximum, A, B),
    "min": (jnp.minimum, A, B),
    "double": (lambda x, y: x * y - x, A.astype("f8"), B.astype("f8")),
    "numbers": (lambda x, y: x * y, A, 3.7),
    "neg": (lambda x: -x, A),
    "abs": (jnp.abs, A),
    "abs of int": (jnp.abs, WHOLE),
    "square": (lax.square, A),
    "sqrt": (lax.sqrt, A),
    "floor": (lax.floor, A),
    "ceil": (lax.ceil, A),
    "round": (jnp.round, A),
    "finite": (lax.is_finite, A),
    "power": (lambda x: lax.integer_pow(x, 5), A),
    "power below": (lambda x: lax.integer_pow(x, -3), A),
    **{
        name: (f, A, B)
        for name, f in {"eq": lax.eq, "ne": lax.ne, "lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}.items()
    },
    "wraps": (lambda x: x * x + x, WHOLE),
    "and": (lambda x, y: x & y, WHOLE, WHOLE[::-1]),
    "or": (lambda x, y: x | y, P, P[::-1]),
    "xor": (lambda x: x ^ 5, U),
    "not": (lambda x: ~x, P),
    "not of int": (lambda x: ~x, WHOLE),
    "shifts": (lambda x: (x << 13) | (x >> 19), U),
    "shifts too far": (lambda x: (lax.shift_left(x, np.uint32(40)), lax.shift_right_logical(x, np.uint32(32))), U),
    "select": (lambda x, y: jnp.where(x < y, x, 0), A, B),
    "select of one": (lambda p, x: lax.select(p, x, -x), P[0, 0], A),
    "clamp": (lambda x: jnp.clip(x, -1, 2), A),
    "clamp by nan": (lambda x, y: lax.clamp(y, x, y), A, np.float32(np.nan)),
    "clamp crossed": (lambda x: lax.clamp(np.float32(2), x, np.float32(-1)), A),
    "narrow": (lambda x: x.astype("f4"), A.astype("f8") * 1.1),
    "wide": (lambda x: x.astype("f8"), A),
    "of int": (lambda x: x.astype("f4"), WHOLE),
    "of unsigned": (lambda x: x.astype("f4"), U),
    "of large int": (lambda x: x.astype("f4"), np.asarray([2**62 + 1, 2**24 + 1, -(2**63)])),
    "shorter": (lambda x: x.astype("i1"), WHOLE),
    "of bool": (lambda x: x.astype("f4"), P),
    "bool": (lambda x: x.astype(bool), A),
    "reshape": (lambda x: x.reshape(4, 6), CUBE),
    "transpose": (lambda x: x.transpose(2, 0, 1), CUBE),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (3, 2, 5, 3, 4)), CUBE),
    "flip": (lambda x: jnp.flip(x, (0, 2)), CUBE),
    "slice": (lambda x: x[:, 2:0:-1, 1::2], CUBE),
    "cat": (lambda x: jnp.concatenate([x, x, x[:, :1]], 1), CUBE),
    "pad": (lambda x: lax.pad(x, np.float32(7), [(1, 0, 0), (0, 2, 1), (0, 0, 2)]), CUBE),
    "pad of nothing": (lambda x: lax.pad(x[:0], np.float32(7), [(1, 1, 1), (0, 0, 0), (0, 0, 0)]), CUBE),
    "dynamic": (lambda x, i: lax.dynamic_slice(x, (i, i * 0, i), (1, 2, 3)), CUBE, np.int32(5)),
    "updated": (lambda x, i: lax.dynamic_update_slice(x, x[:1, :2] * 2, (i, i, i * 0)), CUBE, np.int32(1)),
    "iota": (lambda x: x + lax.broadcasted_iota(np.float32, (2, 3, 4), 1), CUBE),
    "largest": (lambda x: (x.max(1), x.max()), A),
    "of zeros": (lambda x: (x.max(0), x.min(0)), np.asarray([[0.0, -0.0, -0.0], [-0.0, 0.0, -0.0]], "f4")),
    "smallest": (lambda x: x.min((0, 1)), A),
    "every": (lambda x: (x.all(0), x.any(1)), P),
    "sum": (lambda x: x.sum(0, dtype=np.int32), WHOLE),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0)), A),
    "no elements": (lambda x: x[:0] * 2, A),
    "argument": (lambda x: (x, x, x.reshape(-1)), CUBE),
    "stack": (lambda x: jnp.stack([x, -x], 1), CUBE),
    "cut": (lambda x: lax.pad(x, np.float32(7), [(-1, 2, 1), (1, -2, 0), (-3, -1, 2)]), CUBE),
    "cut to nothing": (lambda x: lax.pad(x, np.float32(7), [(0, 0, 0), (-2, 3, 0), (4, -6, 0)]), CUBE),
    **{f"sum {axes}": (lambda x, axes=axes: x.sum(axes), MANY) for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2))},
    "sum of a function": (lambda x, y: (jnp.abs(x - y) * 3).sum((0, 2)), MANY, MANY[:1]),
    "sum of zeros": (lambda x: x.sum(0), np.asarray([[-0.0, 0.0], [-0.0, -0.0]], "f4")),
    "sum of one": (lambda x: (x.sum(1), x[:1].sum((0, 1)), lax.reduce_sum(x, ())), FLOATS[:, None]),
    "sum of chosen elements": (lambda x, i: jnp.where(x > 0, x, 2)[i, 1:].sum(0), MANY[0], np.arange(-9, 9)),
    "sum of infinities": (lambda x: x.sum(0), A),
    "mean": (lambda x: (x.mean(1), x.mean()), MANY.astype("f8")),
    **{f"over {name}": (f, MANY, ROW) for name, f in DIVISIONS.items()},
    **{
        f"over {name}, and more": (lambda x, y, f=f: jax.tree.map(lambda q: q + 1, f(x, y)), MANY, ROW)
        for name, f in DIVISIONS.items()
    },
    **{f"gather, {mode}": (lambda x, i, mode=mode: gather(x, i, mode), CUBE, PAIRS) for mode in MODES},
    **{f"shared gather, {mode}": (lambda x, i, mode=mode: shared_gather(x, i, mode), CUBE, PAIRS) for mode in MODES},
    **{f"filled {t}": (lambda x, i: x.at[i].get(mode="fill"), CUBE.astype(t), PAIRS) for t in ("i4", "u1", "?")},
    "filled by 7": (lambda x, i: x.at[:, i].get(mode="fill", fill_value=7), CUBE, PAIRS),
    "taken": (lambda x, i: (x[i, :, i], x[:, i[0]], x[..., i[:3]]), CUBE, PAIRS % 2),
    "taken along": (lambda x, i: jnp.take_along_axis(x, i, 1), CUBE, np.arange(32).reshape(2, 4, 4) % 3),
    **{
        f"{f.__name__}, {mode}": (lambda x, i, y, f=f, mode=mode: scatter(f, x, i, y, mode), CUBE, PAIRS, PARTS)
        for f in (lax.scatter, lax.scatter_add)
        for mode in MODES
    },
    **{
        f"{f.__name__} to one place, {kind}": (
            lambda x, i, y, f=f: f(x, i, y, lax.ScatterDimensionNumbers((1,), (0,), (0,))),
            np.zeros((3, 4), kind),
            np.arange(50)[:, None] % 7 % 4,
            (MANY.ravel()[:200].reshape(50, 4)).astype(kind),
        )
        for f in (lax.scatter, lax.scatter_add)
        for kind in ("f4", "f8", "i4", "u1")
    },
    "constant": (lambda x: (jnp.asarray([1, 2, 3]), x), P),
}


@pytest.mark.parametrize("name", SAME)
def test_numpy_gives_what_the_compiled_kernel_gives(name):
    assert_same(*SAME[name])


PARTS_OF_COMPLEX = np.asarray([0.0, -0.0, 1.0, -1.0, 3.3, np.inf, -np.inf, np.nan, 1e22, -7.7e-6])
REAL, IMAG = [part.copy() for part in np.meshgrid(PARTS_OF_COMPLEX, PARTS_OF_COMPLEX)]
Z = np.empty(REAL.size, np.complex128)
Z.real, Z.imag = REAL.ravel(), IMAG.ravel()
X, Y = [part.copy() for part in np.meshgrid(Z, Z)]
MANY_COMPLEX = MANY.astype("f8") * (1 - 0.3j) + 1j * np.roll(MANY, 1, 0)
CUBE_COMPLEX = np.arange(24).reshape(2, 3, 4) * (1 - 0.5j)

COMPLEX = {
    "add": (lambda x, y: x + y, X, Y),
    "sub": (lambda x, y: x - y, X, Y),
    "zero": (lambda x: (x + 0, 0 + x, x - 0, 0 - x), Z),
    "zeros": (lambda x: x + jnp.zeros_like(x), Z),
    "neg": (lambda x: -x, Z),
    "conj": (jnp.conj, Z),
    "parts": (lambda x: (x.real, x.imag * 2), Z),
    "of parts": (lax.complex, REAL, IMAG),
    "of one part": (lambda x, y: (jax.vjp(jnp.real, x)[1](y)[0], jax.vjp(jnp.imag, x)[1](y)[0]), Z, Z.real.copy()),
    "eq": (lax.eq, X, Y),
    "ne": (lax.ne, X, Y),
    "where": (lambda x, y: jnp.where(x == y, x, -y), X, Y),
    "by real": (lambda x, y: x * y, X, Y.real.copy()),
    "by int": (lambda x, y: x * y, Z[:6], WHOLE[0, 0] + np.arange(-2, 4)),
    "by a number": (lambda x, y: (x * y, y * x), Z, 2.5),
    "by one": (lambda x, y: x * y, Z, 1.0),
    "by its part": (lambda x: (x.real + 0j) * x.reshape(-1), Z),
    "by rows": (lambda x, y: x * y[:, None].astype(x.dtype).T.reshape(-1), Z, np.linspace(-3, 3, 100)),
    "narrow": (lambda x: x.astype("c8"), MANY_COMPLEX * 1.1),
    "wide": (lambda x: x.astype("c16"), MANY_COMPLEX.astype("c8")),
    "of int": (lambda x: x.astype("c8"), WHOLE),
    "of bool": (lambda x: x.astype("c16"), P),
    "of float": (lambda x: x.astype("c16"), FLOATS),
    **{f"sum {axes}": (lambda x, axes=axes: x.sum(axes), MANY_COMPLEX) for axes in ((0,), (1,), (2,), (0, 2))},
    "sum of infinities": (lambda x: x.sum(0), X[:11]),
    "moved": (lambda x: jnp.flip(x.transpose(2, 0, 1)[1:], 0).reshape(-1), CUBE_COMPLEX),
    "stacked": (lambda x: jnp.concatenate([jnp.stack([x, -x], 1)[:, 0], x.conj()], 1), CUBE_COMPLEX),
    "padded": (lambda x: lax.pad(x, np.complex128(7 + 2j), [(1, 0, 0), (0, 2, 1), (0, 0, 2)]), CUBE_COMPLEX),
    "dynamic": (lambda x, i: lax.dynamic_slice(x, (i, i * 0, i), (1, 2, 3)), CUBE_COMPLEX, np.int32(5)),
    "updated": (lambda x, i: lax.dynamic_update_slice(x, -x[:1, :2], (i, i, i * 0)), CUBE_COMPLEX, np.int32(1)),
    **{f"gather, {mode}": (lambda x, i, mode=mode: gather(x, i, mode), CUBE_COMPLEX, PAIRS) for mode in MODES},
    "filled": (lambda x, i: x.at[i].get(mode="fill"), CUBE_COMPLEX, PAIRS),
    **{
        f"{f.__name__} to one place": (
            lambda x, i, y, f=f: f(x, i, y, lax.ScatterDimensionNumbers((1,), (0,), (0,))),
            np.zeros((3, 4), np.complex128),
            np.arange(50)[:, None] % 7 % 4,
            MANY_COMPLEX.ravel()[:200].reshape(50, 4),
        )
        for f in (lax.scatter, lax.scatter_add)
    },
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_by_numpy_and_by_the_compiled_kernel(name):
    assert_same(*COMPLEX[name])


POINTS = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
ONE = lax.GatherDimensionNumbers((1,), (0,), (0,))
OTHERS = {
    "a number of bits": (lambda x: lax.bitcast_convert_type(x, np.float32) * 3, PAIRS),
    "sum of many": (jnp.sum, np.ones(33, np.float32)),
    "sum of equal elements": (lambda x: jnp.broadcast_to(x[:, None], (14, 3)).sum(1), FLOATS),
    "sum of sums": (lambda x: x.sum(1).sum(), CUBE),
    "sum of the reshaped": (lambda x: x.reshape(4, 6).sum(0), CUBE),
    "matmul": (jnp.matmul, A, B),
    **{
        f"complex {name}": (f, Z)
        for name, f in {
            "product of products": lambda x: x * x[::-1] * x,
            "power": lambda x: lax.integer_pow(x, 3),
            "by a constant": lambda x: x * 2,
            "by one": lambda x: x * 1,
            "by a real constant": lambda x: x * jnp.ones(x.shape).astype(x.dtype),
            "largest": lambda x: jnp.argmax(x),
            "quotient of quotients": lambda x: x / (x[::-1] / x),
        }.items()
    },
    "largest of none": (lambda x: x.max(1, initial=-1), np.ones((3, 0), np.float32)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2, x), A),
    "large constant": (lambda x: x + np.arange(4096.0).astype("f4"), np.float32(1)),
    "gather by bytes": (lambda x, i: lax.gather(x, i, ONE, (1, 14), mode="clip"), A, np.ones((1, 1), np.uint8)),
    "scatter of many": (lambda x, i: x.at[i].add(1), A, np.zeros(300, np.int32)),
    "scattered products": (lambda x, i: x.at[i].multiply(2), A, np.arange(3)),
    "applied": (lambda x, i: lax.scatter_apply(x, i, jnp.abs, POINTS, update_shape=(6,)), A, PAIRS),
    "logarithm of powers": (lambda x, y: jnp.log(x**y), A, B),
    "product of powers": (lambda x, y: jnp.exp(x) * jnp.exp(y), A, B),
    "square of a power": (lambda x: lax.square(jnp.exp(x)), A),
    "over a power": (lambda x, y: x / jnp.exp(y), A, B),
    "over a root": (lambda x, y: x / lax.sqrt(y), A, B),
    "over a quotient": (lambda x, y: x / (y / x), A, B),
    "a quotient over": (lambda x, y: x / y / x, A, B),
    "power of a number": (lambda x: lax.pow(x, jnp.full_like(x, 2)), A),
    "numbers added twice": (lambda x: x + 3 + 0.5, A),
    "factors twice": (lambda x: x * 3 * 0.3, A),
    "equal rows": (lambda x: jnp.broadcast_to(x, (3, 14)) / jnp.broadcast_to(x, (3, 14)) + 1, FLOATS),
    "halves between": (lambda x: (x + x) * x, jnp.ones(3, "bfloat16")),
    "rounded in between": (lambda x: x.astype("f2").astype("f4"), A),
    "function of many": (jnp.exp, np.ones(5000, np.float32)),
    "function of a number": (lambda x: x + jnp.exp(jnp.full((3,), 2.0, "f4")), np.float32(1)),
    "functions of a function": (lambda x: lax.asinh(x) * 2, A),
    "rest of a function": (lambda x: lax.rem(x, jnp.tanh(x)), A),
    "long": (lambda x: sum([x * i for i in range(300)]), A),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_rest_is_left_to_the_compiler(name):
    f, *arguments = OTHERS[name]
    assert numpy_programs.written(compiling.traced(f, arguments).jaxpr) is None


@pytest.mark.parametrize("shape, calls, expected", [
    ((2,), CALLS - 1, 0), ((TINY,), CALLS, 1), ((2,), 3 * CALLS, 1), ((LARGE // 4,), 7, 0), ((LARGE // 4,), 8, 1),
    ((LARGE + 1,), 1, 1),
])  # fmt: skip
def test_a_kernel_is_compiled_once_it_is_worth_it(monkeypatch, shape, calls, expected):
    assert compiling.host() is not None  # with a version of jax that is not known, a trial has been compiled now
    seen, compiled = [], compiling.compiled
    monkeypatch.setattr(compiling, "compiled", lambda *args: (seen.append(args), compiled(*args))[1])
    kernel, x = jit(lambda x: (x + x) * 2), jnp.linspace(0, 1, shape[0], dtype=jnp.float32)
    results = {np.asarray(kernel(x)).tobytes() for _ in range(calls)}
    assert len(seen) == expected and len(results) == 1


def test_results_share_no_memory_with_arguments():
    source = np.arange(4096, dtype=np.float32)
    x = compiling.put([source], [jax.core.ShapedArray(source.shape, source.dtype)], False)[0]
    same, part = jit(lambda x: (x, x[64:]))(x)
    places = [a.unsafe_buffer_pointer() for a in (x, same, part)]
    assert len({*places}) == 3 and abs(places[2] - places[0] - 256) > 0 and part.tolist() == source[64:].tolist()


def test_results_have_the_kinds_that_compiled_kernels_give():
    for arguments in ((2.0, 3), (jnp.asarray(2.0), 1), (np.float32(2), True), (jax.device_put(1, jax.devices()[0]), 2)):
        mine, theirs = jit(lambda x, y: x * y)(*arguments), jax.jit(lambda x, y: x * y)(*arguments)
        assert mine.aval == theirs.aval and mine._committed == theirs._committed and mine.sharding == theirs.sharding


SMALL = {
    "given": (lambda x: x * np.float32(1.5), np.float32([1e-40, 1.0])),
    "exact": (lambda x: x + x, np.float32([-3e-41])),
    "made": (lambda x: x * x, np.float32([1e-20, 1e-3])),
    "between": (lambda x: x * x * np.float32(1e30), np.float32([1.7e-20])),
    "cast": (lambda x: x.astype("f4"), np.float64([1e-40])),
    "double": (lambda x: x * 0.3, np.float64([3e-308])),
    "complex": (lambda x: x + 1, np.complex64([1e-40j, 3e-41])),
    "complex made": (lambda x: x * x.imag, np.complex64([1e-20j, 1e-3])),
}


@pytest.mark.parametrize("name", SMALL)
def test_numbers_that_xla_takes_for_zero_do_not_depend_on_the_number_of_calls(name):
    f, x = SMALL[name]
    kernel, x = jit(f, None), jnp.asarray(x)
    results = [np.asarray(kernel(x)).tobytes() for _ in range(CALLS + 2)]
    assert set(results) == {np.asarray(jax.jit(f)(x)).tobytes()}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.complex64])
def test_numbers_that_xla_takes_for_zero_are_found(dtype):
    kind = np.finfo(dtype)
    numbers = [0, -0.0, kind.smallest_normal, -kind.smallest_normal, kind.max, np.inf, -np.inf, np.nan, 1]
    with np.errstate(under="raise", invalid="ignore"):
        assert not numpy_programs.suspect(np.asarray(numbers, dtype))
        least = kind.smallest_subnormal
        for small in (least, -least, kind.smallest_normal - least):
            row = np.asarray([*numbers, small], dtype)
            assert all(
                map(numpy_programs.suspect, (row, row[::-1], row[-1:].reshape(()), np.full((2, 3), small, dtype)))
            )
    assert not numpy_programs.suspect(np.arange(3)) and not numpy_programs.suspect(np.zeros((0, 2), dtype))
