"""Functions over many arrays at once, compiled as one program: optimizer steps, norms of all gradients."""

import functools

import jax

from torchlike._base.state import state
from torchlike._executor.immediate import Abstract
from torchlike._executor.pending import Pending, settled


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
    recorder, kernel = state.recorder, compiled(function, static)
    try:
        return kernel(*trees) if recorder is None else _recorded(recorder, function, static, trees)
    except (TypeError, ValueError):
        if any(type(x) is Pending for x in jax.tree.leaves(trees)):
            return kernel(*jax.tree.map(settled, trees))
        if any(type(x) is Abstract for x in jax.tree.leaves(trees)):
            return jax.tree.map(lambda s: Abstract(s.shape, s.dtype), jax.eval_shape(kernel, *trees))
        raise


def _recorded(recorder, function, static, trees):
    """As :func:`run`, appended to the trace of this thread as one call."""
    leaves, tree = jax.tree.flatten(trees)
    return recorder.record(_flat(function, static, tree), leaves, function.__name__)


@functools.lru_cache(1024)
def _flat(function, static, tree):
    whole = functools.partial(function, **dict(static))
    return jax.jit(lambda *leaves: whole(*jax.tree.unflatten(tree, leaves)))


def device_of(value):
    """Where an array lives; None for tracers and abstract values."""
    if isinstance(value, jax.Array | Pending) and not isinstance(value, jax.core.Tracer):
        return next(iter(value.devices()))
    return None


def moved(value, device):
    """``value`` on ``device``."""
    return value if device is None else jax.device_put(settled(value), device)
