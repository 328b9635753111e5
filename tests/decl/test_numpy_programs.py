"""First calls that numpy runs: they give what compiled kernels give, bit by bit, or are none of its business."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from torchlike._executor import compiling, kernels, numpy_programs
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

SAME = {
    "add": (lambda x, y: x + y, A, B),
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
    "gather": (lambda x, i: (x[i], x[i, i[::-1]], x[:, i[:, None]]), A, np.asarray([3, 1, -1])),
    "take": (lambda x, i: (jnp.take(x, i, 1), jnp.take(x, i, mode="clip")), CUBE, np.asarray([[2, 0], [7, -9]])),
    "take of whole": (lambda x, i: jnp.take(x, i, 1), WHOLE, np.asarray([[2, 0], [7, -9]])),
    "take of unsigned": (lambda x, i: jnp.take(x, i), U, np.asarray([2, 70])),
    "take of bools": (lambda x, i: jnp.take(x, i, 1), P, np.asarray([2, 70])),
    "take along": (lambda x, i: jnp.take_along_axis(x, i, 1), CUBE, np.asarray([[[2, 0, 1, 5]], [[0, -1, 2, 2]]])),
    "take along the last": (lambda x, i: jnp.take_along_axis(x, i, -1), A, np.zeros((14, 3), "i4")),
    "no rows": (lambda x, i: x[i], A, np.zeros(0, "i4")),
    "no elements": (lambda x: x[:0] * 2, A),
    "argument": (lambda x: (x, x, x.reshape(-1)), CUBE),
    "constant": (lambda x: (jnp.asarray([1, 2, 3]), x), P),
}


def both(f, *arguments):
    """What numpy and the compiled kernel give."""
    found = compiling.traced(f, arguments)
    program = numpy_programs.written(found.jaxpr)
    assert program is not None, found.jaxpr
    code, _ = compiling.compiled(found, (), kernels.QUICKLY)
    out, _ = compiling.call(code, jax.tree.leaves(arguments), False)
    return numpy_programs.Program(program)(arguments), [np.asarray(a) for a in jax.tree.leaves(out)]


@pytest.mark.parametrize("name", SAME)
def test_numpy_gives_what_the_compiled_kernel_gives(name):
    for mine, theirs in zip(*both(*SAME[name]), strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs)
        if mine.dtype.kind == "f":  # zeros have signs
            there = ~np.isnan(mine)
            np.testing.assert_array_equal(np.signbit(mine)[there], np.signbit(theirs)[there])


OTHERS = {
    "exp": (jnp.exp, A),
    "sum": (jnp.sum, A),
    "matmul": (jnp.matmul, A, B),
    "to int": (lambda x: x.astype("i4"), A),
    "int division": (lax.div, WHOLE, WHOLE),
    "complex": (lambda x: x * 2, A.astype("c8")),
    "bfloat16": (lambda x: x + x, jnp.ones(3, "bfloat16")),
    "largest of none": (lambda x: x.max(1, initial=-1), np.ones((3, 0), np.float32)),
    "cut": (lambda x: lax.pad(x, np.int32(0), [(-1, 0, 0)]), U.astype("i4")),
    "signed shift": (lambda x: lax.shift_right_logical(x, np.int32(1)), WHOLE),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: y * 2, x), A),
    "large constant": (lambda x: x + np.arange(4096.0).astype("f4"), np.float32(1)),
    "gather of slices": (lambda x, i: jax.vmap(lambda i: lax.dynamic_slice(x, (i, 0), (2, 3)))(i), A, np.arange(3)),
    "filled gather": (lambda x, i: x.at[i].get(mode="fill", fill_value=7), A, np.arange(3)),
    "rounding up": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), A),
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
}


@pytest.mark.parametrize("name", SMALL)
def test_numbers_that_xla_takes_for_zero_do_not_depend_on_the_number_of_calls(name):
    f, x = SMALL[name]
    kernel, x = jit(f, None), jnp.asarray(x)
    results = [np.asarray(kernel(x)).tobytes() for _ in range(CALLS + 2)]
    assert set(results) == {np.asarray(jax.jit(f)(x)).tobytes()}
