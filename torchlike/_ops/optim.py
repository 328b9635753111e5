"""Update rules of the optimizers: one parameter each, and the loop over all of a group.

A rule is ``rule(p, g, state, t, n, **options) -> (new p, new state)``: ``state`` a tuple of arrays, ``t``
the step count (float64) or None, ``n`` a dict of the group's numbers (float64 scalars), ``options`` static.
Complex parameters reach it as real arrays with a last axis of 2. Numbers are combined in float64 and cast
last, as PyTorch combines them in Python.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def update_all(params, grads, states, steps, numbers, *, rule, which, maximize=False, whole=False, **options):
    """The new (params, states, steps) of a group, in one program.

    ``steps`` holds the distinct step counts, ``which[i]`` says which of them is that of parameter i. Nothing
    changes if one of the numbers is ``found_inf`` and not 0.
    ``whole``: the rule takes complex arrays as they are.
    """
    numbers = {k: jnp.asarray(v).reshape(()).astype(np.float64) for k, v in numbers.items()}
    found = numbers.get("found_inf")
    counts = [s + 1 for s in steps]
    new_params, new_states = [], []
    for i, (p, g, state) in enumerate(zip(params, grads, states, strict=True)):
        t = counts[which[i]].astype(np.float64) if steps else None
        g = -g if maximize else g
        view, back = (_same, _same) if whole else (_real, _as)
        new_p, new_state = rule(view(p), view(g), tuple(map(view, state)), t, numbers, **options)
        new_params.append(back(new_p, p))
        new_states.append(tuple(map(back, new_state, state)))
    if found is None:
        return new_params, new_states, counts
    if getattr(rule, "__wrapped__", rule) not in _SETTLED:
        new_states = _unless(found, list(map(tuple, states)), new_states)
    return _unless(found, list(params), new_params), new_states, _unless(found, list(steps), counts)


def _unless(found, old, new):
    return jax.tree.map(lambda before, after: jnp.where(found != 0, before, after), old, new)


def _settled(n, old, new):
    """The state after a step, which may be one that changes nothing.

    A rule that goes on with what this returns is in ``_SETTLED``. Otherwise XLA would compute the new state twice, the
    second time from a copy of the old one, which it has overwritten.
    """
    return new if "found_inf" not in n else _unless(n["found_inf"], old, new)


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
        buffer = jnp.where(fresh, lax.stop_gradient(g), m * state[0] + _in(p.real, 1 - n["dampening"]) * g)
        state = (buffer,) = _settled(n, state, (buffer,))
        g = g + m * buffer if nesterov else buffer
    return p - _in(p.real, n["lr"]) * g, state


def adam(p, g, state, t, n, *, amsgrad, decay, decoupled):
    if decay and decoupled:
        p = p * _in(p, 1 - n["lr"] * n["weight_decay"])
    elif decay:
        g = _decayed(p, g, n, True)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    square = _square_average(state[1], g, n["beta2"])
    new = (mean, square, jnp.maximum(state[2], square)) if amsgrad else (mean, square)
    mean, square, *tops = state = _settled(n, state, new)
    top = tops[0] if amsgrad else square
    correction = jnp.sqrt(1 - n["beta2"] ** t)
    denominator = jnp.sqrt(top) / _in(p, correction) + _in(p, n["eps"])
    step_size = n["lr"] / (1 - n["beta1"] ** t)
    return p - _in(p, step_size) * (mean / denominator), state


_SETTLED: tuple = (sgd, adam)


def rmsprop(p, g, state, t, n, *, centered, momentum, decay):
    g = _decayed(p, g, n, decay)
    square = _square_average(state[0], g, n["alpha"])
    kept = [square]
    spread = square
    if centered:
        mean = _lerp(state[-1], g, 1 - n["alpha"])
        spread = square - mean * mean
    step = g / (jnp.sqrt(spread) + _in(p, n["eps"]))
    if momentum:
        step = _in(p, n["momentum"]) * state[1] + step
        kept.append(step)
    return p - _in(p, n["lr"]) * step, (*kept, mean) if centered else tuple(kept)


def adagrad(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    total = state[0] + g * g
    rate = n["lr"] / (1 + (t - 1) * n["lr_decay"])
    return p - _in(p, rate) * g / (jnp.sqrt(total) + _in(p, n["eps"])), (total,)


def adadelta(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    square = _square_average(state[0], g, n["rho"])
    eps = _in(p, n["eps"])
    delta = jnp.sqrt(state[1] + eps) / jnp.sqrt(square + eps) * g
    return p - _in(p, n["lr"]) * delta, (square, _square_average(state[1], delta, n["rho"]))


def adamax(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    largest = jnp.maximum(_in(p, n["beta2"]) * state[1], jnp.abs(g) + _in(p, n["eps"]))
    return p - _in(p, n["lr"] / (1 - n["beta1"] ** t)) * (mean / largest), (mean, largest)


def _decay_first(p, g, n, decay, decoupled):
    """The parameter and the gradient after weight decay of either kind."""
    if decay and decoupled:
        return p * _in(p, 1 - n["lr"] * n["weight_decay"]), g
    return p, _decayed(p, g, n, decay)


def nadam(p, g, state, t, n, *, decay, decoupled):
    p, g = _decay_first(p, g, n, decay, decoupled)
    mu = n["beta1"] * (1 - 0.5 * 0.96 ** (t * n["momentum_decay"]))
    mu_next = n["beta1"] * (1 - 0.5 * 0.96 ** ((t + 1) * n["momentum_decay"]))
    product = (state[0] * mu.astype(state[0].dtype)).astype(np.float64)
    mean = _lerp(state[1], g, 1 - n["beta1"])
    square = _square_average(state[2], g, n["beta2"])
    denominator = jnp.sqrt(square / _in(p, 1 - n["beta2"] ** t)) + _in(p, n["eps"])
    p = p - _in(p, n["lr"] * (1 - mu) / (1 - product)) * (g / denominator)
    p = p - _in(p, n["lr"] * mu_next / (1 - product * mu_next)) * (mean / denominator)
    return p, (product, mean, square)


def radam(p, g, state, t, n, *, decay, decoupled):
    p, g = _decay_first(p, g, n, decay, decoupled)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    square = _square_average(state[1], g, n["beta2"])
    correction = 1 - n["beta2"] ** t
    longest = 2 / (1 - n["beta2"]) - 1
    length = longest - 2 * t * n["beta2"] ** t / correction  # of the approximated simple moving average
    enough = length > 5
    safe = jnp.where(enough, length, longest)
    rectified = jnp.sqrt((safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe))
    adaptive = _in(p, jnp.sqrt(correction)) / (jnp.sqrt(square) + _in(p, n["eps"])) * _in(p, rectified)
    step = mean / _in(p, 1 - n["beta1"] ** t) * _in(p, n["lr"]) * jnp.where(enough, adaptive, 1)
    return p - step, (mean, square)


def asgd(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    eta, mu, average = state[0].astype(np.float64), state[1].astype(np.float64), state[2]
    p = p * _in(p, 1 - n["lambd"] * eta) - _in(p, eta) * g
    average = jnp.where(mu == 1, p, average + _in(p, mu) * (p - average))
    eta = n["lr"] / (1 + n["lambd"] * n["lr"] * t) ** n["alpha"]
    return p, (eta, 1 / jnp.maximum(1, t - n["t0"]), average)


def rprop(p, g, state, t, n):
    agree = g * state[0]
    factor = jnp.where(agree > 0, n["eta_plus"], jnp.where(agree < 0, n["eta_minus"], 1)).astype(p.dtype)
    size = jnp.clip(state[1] * factor, _in(p, n["smallest"]), _in(p, n["largest"]))
    g = jnp.where(agree < 0, 0, g)
    return p - jnp.sign(g) * size, (g, size)


def adafactor(p, g, state, t, n, *, decay, least):
    """``least`` is eps1, None for that of the dtype."""
    least = jnp.finfo(p.dtype).eps if least is None else least
    fresh = t ** n["beta2_decay"]
    rate = jnp.minimum(n["lr"], 1 / jnp.sqrt(t))
    scale = jnp.maximum(n["eps2"], _root_mean_square(p).astype(np.float64)) * rate
    if decay:
        p = p * _in(p, 1 - n["lr"] * n["weight_decay"])
    if g.ndim > 1:
        rows = _lerp(state[0], jnp.mean(g * g, -1, keepdims=True), fresh)
        columns = _lerp(state[1], jnp.mean(g * g, -2, keepdims=True), fresh)
        estimate = rows @ columns / jnp.maximum(jnp.mean(rows, -2, keepdims=True), _in(p, least))
        state = rows, columns
    else:
        estimate = _lerp(state[0], g * g, fresh)
        state = (estimate,)
    step = g / jnp.sqrt(jnp.maximum(estimate, _in(p, least * least)))
    clipped = jnp.maximum(1.0, _root_mean_square(step).astype(np.float64) / n["d"])
    return p - _in(p, scale / clipped) * step, state


def _root_mean_square(x):
    return jnp.sqrt(jnp.mean(x * x))


def muon(p, g, state, t, n, *, nesterov, coefficients, iterations, adjust, least):
    buffer = _lerp(state[0], g, 1 - n["momentum"])
    unit = _unit(_lerp(g, buffer, n["momentum"]) if nesterov else buffer, least)
    if not nesterov and buffer.dtype == jnp.bfloat16:  # which PyTorch divides in place
        buffer = unit.astype(buffer.dtype)
    step = _orthogonal(unit, coefficients, iterations)
    rows, columns = p.shape
    ratio = 0.2 * max(rows, columns) ** 0.5 if adjust == "match_rms_adamw" else max(1, rows / columns) ** 0.5
    p = p * _in(p, 1 - n["lr"] * n["weight_decay"])
    return p - _in(p, n["lr"] * ratio) * step.astype(p.dtype), (buffer,)


def _unit(x, least):
    """x over its norm, in bfloat16."""
    x = _bfloat16(x)
    return _bfloat16(x / jnp.maximum(_bfloat16(jnp.sqrt(jnp.sum(x * x))), _bfloat16(jnp.asarray(least))))


def _orthogonal(x, coefficients, iterations):
    """An approximation of the orthogonal factor U V of x = U S V by Newton-Schulz iterations in bfloat16."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(iterations):
        gram = _bfloat16(x @ x.T)
        x = _plus(a, x, _plus(b, gram, c * (gram @ gram)) @ x)
    return x.T if tall else x


def _plus(number, x, y):
    """``number * x + y`` rounded once, in double precision since XLA may round the product or may not."""
    exact = np.float64(np.float32(number)) * x.astype(np.float64) + y.astype(np.float64)
    return _bfloat16(exact.astype(np.float32))


def _bfloat16(x):
    """Rounded to bfloat16 but held in float32: XLA drops roundings by casts there and back."""
    return lax.reduce_precision(x.astype(np.float32), 8, 7)
