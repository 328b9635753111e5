"""Update rules of the optimizers: one parameter each, and the loop over all of a group.

A rule is ``rule(p, g, state, t, n, **options) -> (new p, new state)``: ``state`` a tuple of arrays, ``t``
the step count (float64) or None, ``n`` a dict of the group's numbers (float64 scalars), ``options`` static.
Complex parameters reach it as real arrays with a last axis of 2. Numbers are combined in float64 and cast
last, as PyTorch combines them in Python. Rules are made of the operators that PyTorch calls, so that 16-bit floats
are rounded where PyTorch rounds them.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlike._ops._elementwise import is_reduced, widely


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


def _once(f, *arrays):
    """``f`` as one operator of PyTorch: 16-bit floats are computed in float32 and rounded once, explicitly.

    By casts alone they would not be: XLA drops casts there and back within a program.
    """
    dtype = arrays[0].dtype
    return widely(lambda *wide: _rounded(f(*wide), dtype), *arrays)


def _rounded(x, dtype):
    """Numbers in float32, rounded to what a ``dtype`` of 16 bits holds; others are as they are."""
    if dtype.itemsize != 2:
        return x
    if dtype == jnp.bfloat16:
        return lax.reduce_precision(x, 8, 7)
    least, spacing = jnp.finfo(dtype).smallest_normal, jnp.finfo(dtype).smallest_subnormal
    small = lax.round(x / np.float32(spacing), lax.RoundingMethod.TO_NEAREST_EVEN) * np.float32(spacing)
    return jnp.where(jnp.abs(x) < np.float32(least), small, lax.reduce_precision(x, 5, 10))


def _stored(x, number):
    """A number as sums have it: rounded to the dtype of ``x``, though held in float32 if that has 16 bits."""
    return _rounded(jnp.asarray(number).astype(np.float32), x.dtype) if is_reduced(x) else _in(x, number)


def _times(x, number):
    return _once(lambda x: x * _in(x.real, number), x)


def _over(x, number):
    return _once(lambda x: x / _in(x, number), x)


def _shifted(x, number):
    number = _stored(x, number)
    return _once(lambda x: x + number, x)


def _root(x):
    return _once(jnp.sqrt, x)


def _product(x, y):
    return _once(lambda x, y: x * y, x, y)


def _add(x, y, number):
    """``x + number * y``."""
    number = _stored(x.real, number)
    return _once(lambda x, y: x + number * y, x, y)


def _add_product(x, y, z, number):
    """``x + number * y * z``."""
    return _once(lambda x, y, z: x + _in(x, number) * y * z, x, y, z)


def _add_quotient(x, y, z, number):
    """``x + number * y / z``."""
    return _once(lambda x, y, z: x + _in(x, number) * y / z, x, y, z)


def _lerp(a, b, weight):
    return _once(lambda a, b: a + _in(a, weight) * (b - a), a, b)


def _decayed(p, g, n, decay):
    return _add(g, p, n["weight_decay"]) if decay else g


def _square_average(average, g, beta):
    """``beta * average + (1 - beta) * g**2``."""
    return _add_product(_times(average, beta), g, g, 1 - beta)


def sgd(p, g, state, t, n, *, momentum, nesterov, decay):
    g = _decayed(p, g, n, decay)
    if momentum:
        moved = _add(_times(state[0], n["momentum"]), g, 1 - n["dampening"])
        buffer = jnp.where(n["first"] != 0, lax.stop_gradient(g), moved)
        state = (buffer,) = _settled(n, state, (buffer,))
        g = _add(g, buffer, n["momentum"]) if nesterov else buffer
    return _add(p, g, -n["lr"]), state


def adam(p, g, state, t, n, *, amsgrad, decay, decoupled):
    p, g = _decay_first(p, g, n, decay, decoupled)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    square = _square_average(state[1], g, n["beta2"])
    new = (mean, square, jnp.maximum(state[2], square)) if amsgrad else (mean, square)
    mean, square, *tops = state = _settled(n, state, new)
    top = tops[0] if amsgrad else square
    denominator = _shifted(_over(_root(top), jnp.sqrt(1 - n["beta2"] ** t)), n["eps"])
    return _add_quotient(p, mean, denominator, -n["lr"] / (1 - n["beta1"] ** t)), state


_SETTLED: tuple = (sgd, adam)


def rmsprop(p, g, state, t, n, *, centered, momentum, decay):
    g = _decayed(p, g, n, decay)
    square = _square_average(state[0], g, n["alpha"])
    kept = [square]
    spread = square
    if centered:
        mean = _lerp(state[-1], g, 1 - n["alpha"])
        spread = _add_product(square, mean, mean, -1.0)
    spread = _shifted(_root(spread), n["eps"])
    if momentum:
        step = _add_quotient(_times(state[1], n["momentum"]), g, spread, 1.0)
        kept.append(step)
        p = _add(p, step, -n["lr"])
    else:
        p = _add_quotient(p, g, spread, -n["lr"])
    return p, (*kept, mean) if centered else tuple(kept)


def adagrad(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    total = _add_product(state[0], g, g, 1.0)
    rate = n["lr"] / (1 + (t - 1) * n["lr_decay"])
    return _add_quotient(p, g, _shifted(_root(total), n["eps"]), -rate), (total,)


def adadelta(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    square = _square_average(state[0], g, n["rho"])
    spread, size = (_root(_shifted(x, n["eps"])) for x in (square, state[1]))
    delta = _product(_once(lambda x, y: x / y, size, spread), g)
    return _add(p, delta, -n["lr"]), (square, _square_average(state[1], delta, n["rho"]))


def adamax(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    mean = _lerp(state[0], g, 1 - n["beta1"])
    largest = jnp.maximum(_times(state[1], n["beta2"]), _shifted(jnp.abs(g), n["eps"]))
    return _add_quotient(p, mean, largest, -n["lr"] / (1 - n["beta1"] ** t)), (mean, largest)


def _decay_first(p, g, n, decay, decoupled):
    """The parameter and the gradient after weight decay of either kind."""
    if decay and decoupled:
        return _times(p, 1 - n["lr"] * n["weight_decay"]), g
    return p, _decayed(p, g, n, decay)


def nadam(p, g, state, t, n, *, decay, decoupled):
    p, g = _decay_first(p, g, n, decay, decoupled)
    mu = n["beta1"] * (1 - 0.5 * 0.96 ** (t * n["momentum_decay"]))
    mu_next = n["beta1"] * (1 - 0.5 * 0.96 ** ((t + 1) * n["momentum_decay"]))
    product = (state[0] * mu.astype(state[0].dtype)).astype(np.float64)
    mean = _lerp(state[1], g, 1 - n["beta1"])
    square = _square_average(state[2], g, n["beta2"])
    denominator = _shifted(_root(_over(square, 1 - n["beta2"] ** t)), n["eps"])
    p = _add_quotient(p, g, denominator, -n["lr"] * (1 - mu) / (1 - product))
    p = _add_quotient(p, mean, denominator, -n["lr"] * mu_next / (1 - product * mu_next))
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
    step = _times(_over(mean, 1 - n["beta1"] ** t), n["lr"])
    inverse = _once(lambda x: 1 / x, _shifted(_root(square), n["eps"]))
    adapted = _times(_product(step, _times(inverse, jnp.sqrt(correction))), rectified)
    return _add(p, jnp.where(enough, adapted, step), -1.0), (mean, square)


def asgd(p, g, state, t, n, *, decay):
    g = _decayed(p, g, n, decay)
    eta, mu, average = state[0].astype(np.float64), state[1].astype(np.float64), state[2]
    p = _add(_times(p, 1 - n["lambd"] * eta), g, -eta)
    average = jnp.where(mu == 1, p, _add(average, _times(_add(p, average, -1.0), mu), 1.0))
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
    return _rounded(x.astype(np.float32), jnp.dtype(jnp.bfloat16))
