"""Update rules of the optimizers: one parameter each, and the loop over all of a group.

A rule is ``rule(p, g, state, t, n, **options) -> (new p, new state)``: ``state`` a tuple of arrays, ``t``
the step count (float64) or None, ``n`` a dict of the group's numbers (float64 scalars), ``options`` static.
Complex parameters reach it as real arrays with a last axis of 2. Numbers are combined in float64 and cast
last, as PyTorch combines them in Python.
"""

import jax.numpy as jnp
import numpy as np
from jax import lax


def update_all(params, grads, states, steps, numbers, *, rule, which, maximize=False, whole=False, **options):
    """The new (params, states, steps) of a group, in one program.

    ``steps`` holds the distinct step counts, ``which[i]`` says which of them is that of parameter i.
    ``whole``: the rule takes complex arrays as they are.
    """
    numbers = {k: jnp.asarray(v).reshape(()).astype(np.float64) for k, v in numbers.items()}
    counts = [s + 1 for s in steps]
    new_params, new_states = [], []
    for i, (p, g, state) in enumerate(zip(params, grads, states, strict=True)):
        t = counts[which[i]].astype(np.float64) if steps else None
        g = -g if maximize else g
        view, back = (_same, _same) if whole else (_real, _as)
        new_p, new_state = rule(view(p), view(g), tuple(map(view, state)), t, numbers, **options)
        new_params.append(back(new_p, p))
        new_states.append(tuple(map(back, new_state, state)))
    return new_params, new_states, counts


def _same(x, like=None):
    return x if like is None else x.astype(like.dtype)


def _real(x):
    return jnp.stack([x.real, x.imag], -1) if jnp.iscomplexobj(x) else x


def _as(x, like):
    if jnp.iscomplexobj(like):
        x = lax.complex(x[..., 0], x[..., 1])
    return x.astype(like.dtype)


def _in(p, x):
    """A number in the dtype of ``p``."""
    return jnp.asarray(x).astype(p.dtype)


def _decayed(p, g, n, decay):
    return g + _in(p, n["weight_decay"]) * p if decay else g


def _lerp(a, b, weight):
    return a + _in(a, weight) * (b - a)


def _square_average(average, g, beta):
    """``beta * average + (1 - beta) * g**2``."""
    return average * _in(g, beta) + _in(g, 1 - beta) * g * g


def sgd(p, g, state, t, n, *, momentum, nesterov, decay):
    g = _decayed(p, g, n, decay)
    if momentum:
        fresh, m = n["first"] != 0, _in(p.real, n["momentum"])
        buffer = jnp.where(fresh, g, m * state[0] + _in(p.real, 1 - n["dampening"]) * g)
        g = g + m * buffer if nesterov else buffer
        state = (buffer,)
    return p - _in(p.real, n["lr"]) * g, state


def adam(p, g, state, t, n, *, amsgrad, decay, decoupled):
    if decay and decoupled:
        p = p * _in(p, 1 - n["lr"] * n["weight_decay"])
    elif decay:
        g = _decayed(p, g, n, True)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    square = _square_average(state[1], g, n["beta2"])
    top = jnp.maximum(state[2], square) if amsgrad else square
    correction = jnp.sqrt(1 - n["beta2"] ** t)
    denominator = jnp.sqrt(top) / _in(p, correction) + _in(p, n["eps"])
    step_size = n["lr"] / (1 - n["beta1"] ** t)
    return p - _in(p, step_size) * (mean / denominator), (mean, square, top)[: len(state)]
