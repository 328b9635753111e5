"""Update rules of optimizers for sparse gradients: only the rows that a gradient names are read and written.

A rule is ``rule(p, indices, values, state, n) -> (new p, new state)``; indices may repeat, and come in any order. No
shape depends on numbers: rows that are named several times leave places over, whose index lies outside and is dropped.
"""

import math

import jax.numpy as jnp
import numpy as np


def update_sparse(params, grads, states, steps, numbers, *, rule, maximize=False):
    """The new (params, states, steps) of parameters with sparse gradients, pairs (indices, values), in one program."""
    n = {k: jnp.asarray(v).reshape(()).astype(np.float64) for k, v in numbers.items()}
    counts, new_params, new_states = [s + 1 for s in steps], [], []
    for i, (p, (indices, values), state) in enumerate(zip(params, grads, states, strict=True)):
        t = {"step": counts[i].astype(np.float64)} if steps else {}
        values = (-values if maximize else values).astype(p.dtype)
        new_p, new_state = rule(p, indices, values, state, n | t) if values.shape[0] else (p, state)
        new_params.append(new_p)
        new_states.append(new_state)
    return new_params, new_states, counts


def _rows(x, indices):
    """``x`` with its sparse dimensions as one, and the numbers of the rows that are named."""
    lengths = x.shape[: indices.shape[0]]
    flat = jnp.zeros(indices.shape[1], indices.dtype)
    for row, length in zip(indices, lengths, strict=True):
        flat = flat * length + row
    return x.reshape(math.prod(lengths), *x.shape[indices.shape[0] :]), flat


def _coalesced(flat, values, total):
    """Each row once: its number, ``total`` in places left over, and the sum of its values."""
    order = jnp.argsort(flat)
    flat = flat[order]
    new = jnp.concatenate([jnp.ones(1, bool), flat[1:] != flat[:-1]])
    group = jnp.cumsum(new) - 1
    rows = jnp.full(flat.shape, total, flat.dtype).at[group].set(flat)
    return rows, jnp.zeros_like(values).at[group].add(values[order])


def _add(x, rows, values):
    return x.at[rows].add(values.astype(x.dtype), mode="drop")


def _at(x, rows):
    return x.at[rows].get(mode="fill", fill_value=0)


def sgd(p, indices, values, state, n):
    """``p -= lr * grad``."""
    x, flat = _rows(p, indices)
    return _add(x, flat, -n["lr"].astype(p.dtype) * values).reshape(p.shape), state


def adagrad(p, indices, values, state, n):
    """As for dense gradients, where there is one."""
    x, flat = _rows(p, indices)
    rows, grad = _coalesced(flat, values, x.shape[0])
    total = _add(_rows(state[0], indices)[0], rows, grad * grad)
    rate = (n["lr"] / (1 + (n["step"] - 1) * n["lr_decay"])).astype(p.dtype)
    new = _add(x, rows, -rate * (grad / (jnp.sqrt(_at(total, rows)) + n["eps"].astype(p.dtype))))
    return new.reshape(p.shape), (total.reshape(p.shape),)


def sparse_adam(p, indices, values, state, n):
    """Adam's step of the rows that are named; the moments of others stay."""
    x, flat = _rows(p, indices)
    rows, grad = _coalesced(flat, values, x.shape[0])
    means, squares = [_rows(s, indices)[0] for s in state]
    mean, square = _at(means, rows), _at(squares, rows)
    to_mean = (grad - mean) * (1 - n["beta1"]).astype(p.dtype)
    to_square = (grad * grad - square) * (1 - n["beta2"]).astype(p.dtype)
    step = (mean + to_mean) / (jnp.sqrt(square + to_square) + n["eps"].astype(p.dtype))
    new = _add(x, rows, -n["rate"].astype(p.dtype) * step)
    state = _add(means, rows, to_mean).reshape(p.shape), _add(squares, rows, to_square).reshape(p.shape)
    return new.reshape(p.shape), state
