"""Gradients divided by the scale of their loss, and the scale after each step."""

import jax.numpy as jnp
import numpy as np


def unscaled(arrays, numbers):
    """(the arrays times ``inverse``, 1 where any of them is not finite, else ``found``), two of the numbers.

    Without them, the inverse of ``scale`` as PyTorch rounds it, and 0.
    """
    if "scale" in numbers:
        inverse = (1 / numbers["scale"].astype(np.float64)).astype(np.float32)
        found = jnp.zeros((), np.float32)
    else:
        inverse, found = numbers["inverse"], numbers["found"]
    return [_times(a, inverse) for a in arrays], _checked(arrays, found)


def nonfinite(arrays):
    """1 if any number of the arrays is infinite or NaN, else 0."""
    return _checked(arrays, jnp.zeros((), np.float32))


def unscaled_unless(arrays, scale, found):
    """The arrays divided by ``scale``, unless ``found`` is not 0."""
    whole = [a.astype(_wide(a)) / scale.reshape(()).astype(_wide(a)) for a in arrays]
    skip = jnp.asarray(found).reshape(()) != 0
    return [jnp.where(skip, a, w.astype(a.dtype)) for a, w in zip(arrays, whole, strict=True)]


def rescaled(scale, tracker, found, growth, backoff, interval):
    """The (scale, steps since it last changed) after a step: smaller if ``found``, greater after ``interval`` steps."""
    failed = found.reshape(scale.shape) != 0
    steps = tracker.reshape(scale.shape) + 1
    full = steps == interval
    grown = _product(scale, growth)
    grown = jnp.where(full & jnp.isfinite(grown), grown, scale)
    steps = jnp.where(failed | full, 0, steps).astype(tracker.dtype)
    return jnp.where(failed, _product(scale, backoff), grown), steps.reshape(tracker.shape)


def _product(scale, factor):
    return (scale.astype(np.float64) * jnp.asarray(factor).astype(np.float64)).astype(scale.dtype)


def _wide(a):
    return np.float64 if a.dtype == np.float64 else np.float32


def _times(a, inverse):
    return (a.astype(_wide(a)) * inverse.reshape(()).astype(_wide(a))).astype(a.dtype)


def _checked(arrays, found):
    for a in arrays:  # NaN is the largest of all; a third of the time that XLA takes for isfinite(a).all()
        largest = jnp.max(jnp.abs(a), initial=0)
        found = jnp.where(jnp.isfinite(largest), found, jnp.ones((), found.dtype))
    return found
