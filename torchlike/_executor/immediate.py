"""Immediate execution: one cached, compiled kernel per operator and static arguments.

Shapes and dtypes are keys of jax.jit itself. ``meta`` tensors hold ``jax.ShapeDtypeStruct`` values;
a call that meets one infers shapes instead of computing.
"""

import functools

import jax
import jax.numpy as jnp

from torchlike._base.state import state

Abstract = jax.ShapeDtypeStruct
Tracer = jax.core.Tracer


def compiled(op, static):
    """The compiled kernel of ``op`` for ``static``, made on first use."""
    found = op.kernels.get(static)
    if found is None:
        function = op.forward(static)
        if op.checked is not None:
            function = _with_verdict(function, op.verdict(static))
        found = op.kernels[static] = jax.jit(function)
    return found


def _with_verdict(forward, verdict):
    return lambda *values: (forward(*values), verdict(*values))


def verified(op, static, values, out):
    """The result of a checked operator; raises what its check says about concrete values."""
    result, bad = out
    if not isinstance(bad, jax.core.Tracer | Abstract) and bool(bad):
        error = op.examine(static, values)[1]
        raise error() if callable(error) else error
    if state.capture is not None:
        state.capture.examine(bad, op, static, values)
    return result


def run(op, static, values):
    """The result (or tuple of results) of ``op`` on ``values``; numbers may be Python numbers."""
    kernel = op.kernels.get(static) or compiled(op, static)
    try:
        return kernel(*values)
    except TypeError:
        if any(type(v) is Abstract for v in values):
            return infer(kernel, values)
        raise


def infer(kernel, values):
    """Results on the meta device: shapes and dtypes only."""
    return jax.tree.map(lambda s: Abstract(s.shape, s.dtype), jax.eval_shape(kernel, *values))


def cast(value, dtype):
    """``value`` in another dtype."""
    return Abstract(value.shape, dtype) if type(value) is Abstract else value.astype(dtype)


@functools.lru_cache(4096)
def _filler(shape, dtype, one):
    make = jnp.ones if one else jnp.zeros
    return jax.jit(lambda: make(shape, dtype))


def zeros(shape, dtype):
    """An array of zeros."""
    return _filler(shape, dtype, False)()


def ones(shape, dtype):
    """An array of ones."""
    return _filler(shape, dtype, True)()


_ones: dict = {}


def one(shape, dtype):
    """The array of ones of a shape with one element; made once, since arrays never change."""
    found = _ones.get((shape, dtype))
    if found is None:
        found = ones(shape, dtype)
        if not isinstance(found, jax.core.Tracer):
            _ones[shape, dtype] = found
    return found


def shared_arrays():
    """The arrays that this module hands out again and again."""
    return _ones.values()
