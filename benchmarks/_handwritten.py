"""The programs of the benchmarks as somebody would write them in JAX alone: one jitted step with donated state.

They are the baseline, so each takes the fastest of the usual ways to write it: on CPU that is pictures with
channels last and pooling without overlap as a maximum over reshaped axes (PyTorch's layout and ``reduce_window``
take 2.8 times as long on the CNN), and plain attention, which ``jax.nn.dot_product_attention`` does not beat.
Matrix products are full float32, as PyTorch's are; on CPU that is XLA's only choice.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PICTURES = ("NHWC", "HWIO", "NHWC")


def linear(p, name, x):
    w = p[f"{name}.weight"]
    y = x.astype(w.dtype) @ w.T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def conv(p, name, x, stride=1, padding=1):
    places, w = [(padding, padding)] * 2, p[f"{name}.weight"]
    y = lax.conv_general_dilated(x.astype(w.dtype), w, (stride, stride), places, dimension_numbers=PICTURES)
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def halved(x):
    """Max pooling of 2 x 2 without overlap."""
    n, h, w, c = x.shape
    return jnp.max(x.reshape(n, h // 2, 2, w // 2, 2, c), (2, 4))


def max_pool(x, size, stride, padding=0):
    pads = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1), pads)


def layer_norm(p, name, x):
    mean = jnp.mean(x, -1, keepdims=True)
    var = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]


def batch_norm(p, buffers, new, name, x):
    n = x.size // x.shape[-1]
    mean, var = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
    new[f"{name}.running_mean"] = 0.9 * buffers[f"{name}.running_mean"] + 0.1 * mean
    new[f"{name}.running_var"] = 0.9 * buffers[f"{name}.running_var"] + 0.1 * var * (n / (n - 1))
    new[f"{name}.num_batches_tracked"] = buffers[f"{name}.num_batches_tracked"] + 1
    return (x - mean) * (p[f"{name}.weight"] * lax.rsqrt(var + 1e-5)) + p[f"{name}.bias"]


def mlp(p, buffers, x):
    count = len(p) // 2
    for i in range(count):
        x = linear(p, str(2 * i), x)
        x = jax.nn.relu(x) if i < count - 1 else x
    return x, {}


def cnn(p, buffers, x):
    x = halved(jax.nn.relu(conv(p, "0", x)))
    x = halved(jax.nn.relu(conv(p, "3", x)))
    return linear(p, "7", x.reshape(x.shape[0], -1)), {}


def lstm(p, buffers, x):
    """The products of all inputs are one, ahead of the loop."""
    w, hidden = p["lstm.weight_hh_l0"], p["lstm.weight_hh_l0"].shape[1]
    x = x.astype(w.dtype) @ p["lstm.weight_ih_l0"].T + (p["lstm.bias_ih_l0"] + p["lstm.bias_hh_l0"])

    def cell(state, gates):
        h, c = state
        i, f, g, o = jnp.split(gates + h @ w.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    nothing = jnp.zeros((len(x), hidden), w.dtype)
    (h, _), _ = lax.scan(cell, (nothing, nothing), x.swapaxes(0, 1))
    return linear(p, "head", h), {}


def attention(q, k, v):
    """Causal, over [batch, heads, length, width]."""
    mask = jnp.tril(jnp.ones((q.shape[2], q.shape[2]), bool))
    scores = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[3])
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v


def gpt(p, buffers, tokens, heads=4, attention=attention):
    n, t = tokens.shape
    d = p["words.weight"].shape[1]
    x = p["words.weight"][tokens] + p["places.weight"][:t]
    i = 0
    while f"blocks.{i}.qkv.weight" in p:
        b = f"blocks.{i}."
        qkv = linear(p, b + "qkv", layer_norm(p, b + "norm1", x)).reshape(n, t, 3, heads, d // heads)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        h = attention(q, k, v)
        x = x + linear(p, b + "out", h.swapaxes(1, 2).reshape(n, t, d))
        x = x + linear(p, b + "down", jax.nn.gelu(linear(p, b + "up", layer_norm(p, b + "norm2", x))))
        i += 1
    return linear(p, "head", layer_norm(p, "norm", x)).reshape(n * t, -1), {}


def resnet18(p, buffers, x):
    new = {}
    x = max_pool(jax.nn.relu(batch_norm(p, buffers, new, "norm", conv(p, "conv", x, 2, 3))), 3, 2, 1)
    i = 0
    while f"layers.{i}.conv1.weight" in p:
        b = f"layers.{i}."
        down = f"{b}down.0.weight" in p
        stride = 2 if p[b + "conv1.weight"].shape[-1] != x.shape[-1] else 1
        h = jax.nn.relu(batch_norm(p, buffers, new, b + "norm1", conv(p, b + "conv1", x, stride)))
        h = batch_norm(p, buffers, new, b + "norm2", conv(p, b + "conv2", h))
        if down:
            x = batch_norm(p, buffers, new, b + "down.1", conv(p, b + "down.0", x, stride, 0))
        x = jax.nn.relu(h + x)
        i += 1
    return linear(p, "head", jnp.mean(x, (1, 2))), new


def adam(params, grads, m, v, t, lr=1e-3):
    t = t + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    c1, c2 = 1 - 0.9**t, jnp.sqrt(1 - 0.999**t)
    new = jax.tree.map(lambda p, m, v: p - (lr / c1) * m / (jnp.sqrt(v) / c2 + 1e-8), params, m, v)
    return new, m, v, t


def _is_buffer(name):
    return "running_" in name or "num_batches" in name


def channels_last(state):
    """PyTorch's numbers in the layout of these programs."""
    state = {k: a.transpose(2, 3, 1, 0) if a.ndim == 4 else a for k, a in state.items()}
    if "7.weight" in state:  # of the CNN: the features of the flattened pictures
        w, channels = state["7.weight"], len(state["3.bias"])
        side = math.isqrt(w.shape[1] // channels)
        state["7.weight"] = w.reshape(-1, channels, side, side).transpose(0, 2, 3, 1).reshape(w.shape)
    return state


def lowered(params, low):
    """The parameters of products in another dtype, those of norms and embeddings as they are."""
    return {k: a if "norm" in k or k.startswith(("words", "places")) else a.astype(low) for k, a in params.items()}


def update_of(forward, low=None):
    """One training step with Adam as a function of the state (params, buffers, m, v, t), inputs and labels.

    ``low``: the dtype that products are computed in, if it is not float32; the state and the loss are float32.
    """

    def update(params, buffers, m, v, t, x, y):
        def loss_of(params):
            out, new = forward(params if low is None else lowered(params, low), buffers, x)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out.astype(jnp.float32)), y[:, None], 1)), new

        with jax.default_matmul_precision("highest"):
            (loss, buffers), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        params, m, v, t = adam(params, grads, m, v, t)
        return [params, buffers, m, v, t], loss

    return update


def start(forward, state, x, y, low=None):
    """(step, arguments, lowered) over numpy ``state``: ``step(x, y)`` takes one training step with Adam."""
    state = channels_last(state)
    params = {k: jnp.array(a) for k, a in state.items() if not _is_buffer(k)}
    buffers = {k: jnp.array(a) for k, a in state.items() if _is_buffer(k)}
    m, v = jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params)
    held = [params, buffers, m, v, jnp.zeros((), jnp.float32)]
    run = jax.jit(update_of(forward, low), donate_argnums=(0, 1, 2, 3, 4))

    def step(x, y):
        held[:], loss = run(*held, x, y)
        return loss

    x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if x.ndim == 4 else x
    x, y = jnp.asarray(x, None if x.dtype == np.float32 else jnp.int32), jnp.asarray(y, jnp.int32)
    return step, (x, y), lambda: run.lower(*held, x, y)


def parameters_alone(count=150, shape=(64, 64)):
    """(step, arguments, lowered): an Adam step of many parameters."""
    rng = np.random.RandomState(0)
    params, grads = [], []
    for some in (params, grads):
        some += [jnp.asarray(rng.randn(*shape), jnp.float32) for _ in range(count)]
    m, v = [jnp.zeros_like(p) for p in params], [jnp.zeros_like(p) for p in params]
    held = [params, m, v, jnp.zeros((), jnp.float32)]
    run = jax.jit(lambda p, m, v, t, g: list(adam(p, g, m, v, t)), donate_argnums=(0, 1, 2, 3))

    def step():
        held[:] = run(*held, grads)
        return held[0][0]

    return step, (), lambda: run.lower(*held, grads)
