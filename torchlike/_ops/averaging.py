"""Running averages of many arrays at once."""

import jax.numpy as jnp
import numpy as np


def averaged(arrays, current, n, decay, *, rule, copies):
    """The averages of ``n`` values each, and one more; integers are cut off.

    ``copies``: the current ones for ``n`` 0.
    """
    new = [_RULES[rule](_floating(a), _floating(b), n, decay).astype(a.dtype)
           for a, b in zip(arrays, current, strict=True)]  # fmt: skip
    if not copies:
        return new
    return [jnp.where(n == 0, b.astype(a.dtype), x) for a, b, x in zip(arrays, current, new, strict=True)]


def _floating(a):
    return a if jnp.issubdtype(a.dtype, np.inexact) else a.astype(np.float32)


def _in(a, number):
    return jnp.asarray(number).astype(a.real.dtype)


def _equal(a, b, n, decay):
    return a + (b - a) / _in(a, n + 1)


def _lerp(a, b, n, decay):
    weight = 1 - decay
    near = a + _in(a, weight) * (b - a)
    return jnp.where(weight < 0.5, near, b - _in(a, 1 - weight) * (b - a))


def _weighted(a, b, n, decay):
    return a * _in(a, decay) + b * _in(a, 1 - decay)


_RULES = {"equal": _equal, "lerp": _lerp, "weighted": _weighted}
