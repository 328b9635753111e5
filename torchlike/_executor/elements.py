"""Steps of numpy programs that XLA computes: functions of each element, compiled once for all shapes.

What IEEE 754 leaves a choice about (``exp``, a complex product, a float that becomes a half) has to give what compiled
kernels give. These compute each element by the same instructions, wherever it stands: so one primitive compiled for a
row of elements, which is filled up, serves all the kernels that use it at whatever shape.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np
from jax import lax

from torchlike._executor import compiling, identity
from torchlike._executor.store import STORE

ROWS = (1 << 8, 1 << 12)  # elements of the rows that functions are compiled for

# Functions whose instructions do not depend on what stands beside them.
NAMES = frozenset({
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e",
    "cbrt", "ceil", "clz", "cos", "cosh", "digamma", "div", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1",
    "floor", "igamma", "igammac", "lgamma", "log", "log1p", "logistic", "max", "min", "mul", "neg", "nextafter",
    "polygamma", "population_count", "pow", "regularized_incomplete_beta", "rem", "rsqrt", "sign", "sin",
    "sinh", "sqrt", "square", "sub", "tan", "tanh", "zeta",
})  # fmt: skip
# XLA's simplifier looks for the first beside products, quotients and the second, and for known numbers in the third.
JOINED = frozenset({"exp", "pow", "rsqrt"})
JOINS = frozenset({"log", "pow", "rsqrt", "sqrt", "square", "integer_pow"})
# What XLA makes of several instructions, which it simplifies together with others.
MADE = NAMES - {"exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "tan", "cbrt", "rsqrt", "sqrt", "abs", "atan2",
                "clz", "erf", "max", "min", "neg", "pow", "population_count", "rem", "sign", "floor",
                "ceil"}  # fmt: skip
# Their last bits depend on which of the others a loop computes besides.
UNSTABLE = frozenset({"tanh", "log1p", "rsqrt"})
BESIDE = UNSTABLE | {"exp", "expm1", "log", "rem", "sign"}
ALGEBRA = frozenset({"mul", "div", "pow", "add", "sub"})


def parameters(eqn: Any) -> tuple[str, ...] | None:
    """What tells a function from others; None if it is compiled as a part of its kernel."""
    name, params = eqn.primitive.name, eqn.params
    if name == "convert_element_type":
        plain = params.get("sharding") is None
        return (name, np.dtype(params["new_dtype"]).name) if plain else None
    if name == "round":
        return (name, params["rounding_method"].name)
    plain = name in NAMES and all(value is None for value in params.values())
    return (name, *sorted(params)) if plain else None


def _function(name: str, *params: str) -> Any:
    """What :func:`parameters` tells of."""
    if name == "convert_element_type":
        return lambda x: lax.convert_element_type(x, np.dtype(params[0]))
    if name == "round":
        return lambda x: lax.round(x, lax.RoundingMethod[params[0]])
    primitive = getattr(lax, f"{name}_p")
    return lambda *xs: primitive.bind(*xs, **dict.fromkeys(params))


@functools.lru_cache(1024)
def _code(function: tuple[str, ...], kinds: tuple[str, ...], size: int) -> compiling.Code:
    """The code of a function for rows of ``size`` elements, from the store or compiled."""
    try:
        environment = identity.environment(compiling.trace_context())
    except identity.Nameless:
        environment = None
    key = None if environment is None else f"element|{environment}|{function}|{kinds}|{size}"
    kept = None if key is None else STORE.get(key)
    if kept is not None:
        return compiling.unpacked(kept)
    rows = [jax.ShapeDtypeStruct((size,), np.dtype(kind)) for kind in kinds]
    found = compiling.compiled(compiling.traced(_function(*function), rows), (), compiling.QUICKLY)
    assert found is not None  # these have no effects
    code, portable = found
    if key is not None and portable:
        STORE.put(key, compiling.packed(code))
    return code


def call(*args: Any) -> np.ndarray:
    """A function, named by the last argument, of each element of the others, of one shape or none."""
    *arrays, function = args
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    count = math.prod(shape)
    size = next(n for n in ROWS if n >= count)
    code = _code(function, tuple([x.dtype.name for x in arrays]), size)
    results, _ = compiling.call(code, [_row(x, shape, count, size) for x in arrays], False)
    return np.asarray(results)[:count].reshape(shape)


def _row(x: np.ndarray, shape: tuple[int, ...], count: int, size: int) -> np.ndarray:
    row = np.ones(size, x.dtype)
    row[:count].reshape(shape)[...] = x
    return row
