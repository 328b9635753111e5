"""What numpy gives for a function of arrays, beside what XLA's code gives."""

import jax
import numpy as np

from torchlike._executor import compiling, kernels, numpy_programs


def both(f, *arguments):
    """What numpy and the compiled kernel give; None if numpy has no program, or leaves these numbers to XLA."""
    found = compiling.traced(f, arguments)
    program = numpy_programs.written(found.jaxpr)
    if program is None:
        return None
    try:
        mine = numpy_programs.HostProgram(program)(arguments)
    except numpy_programs.Subnormal:
        return None
    code, _ = compiling.compiled(found, (), kernels.options_for("quickly", found.jaxpr))
    out, _ = compiling.call(code, jax.tree.leaves(arguments), False)
    return mine, [np.asarray(a) for a in jax.tree.leaves(out)]


def assert_same(f, *arguments):
    """Both give the same: kinds, numbers, signs of zeros."""
    found = both(f, *arguments)
    assert found is not None, compiling.traced(f, arguments).jaxpr
    assert_alike(*found)


def assert_alike(mine, theirs):
    for x, y in zip(mine, theirs, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        for a, b in zip(_parts(x), _parts(y), strict=True):
            np.testing.assert_array_equal(a, b)
            if a.dtype.kind == "f":
                there = ~np.isnan(a)
                np.testing.assert_array_equal(np.signbit(a)[there], np.signbit(b)[there])


def _parts(x):
    if x.dtype.kind == "c":
        return x.real, x.imag
    return (x.astype("f4") if x.dtype.name == "bfloat16" else x,)
