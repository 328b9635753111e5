"""Functions over many arrays at once, compiled as one program: optimizer steps, norms of all gradients."""

import functools

import jax

from torchlike._executor.immediate import Abstract


@functools.lru_cache(1024)
def compiled(function, static):
    """``function`` with its static keywords fixed, compiled; shapes, dtypes and structure are keys of
    jax.jit.
    """
    return jax.jit(functools.partial(function, **dict(static)))


def run(function, static, *trees):
    """The result of ``function(*trees, **dict(static))``; trees are lists, tuples and dicts of arrays and
    numbers.
    """
    kernel = compiled(function, static)
    try:
        return kernel(*trees)
    except TypeError:
        if any(type(x) is Abstract for x in jax.tree.leaves(trees)):
            return jax.tree.map(lambda s: Abstract(s.shape, s.dtype), jax.eval_shape(kernel, *trees))
        raise


def device_of(value):
    """Where an array lives; None for tracers and abstract values."""
    if isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        return next(iter(value.devices()))
    return None


def moved(value, device):
    """``value`` on ``device``."""
    return value if device is None else jax.device_put(value, device)
