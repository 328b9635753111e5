"""The baseline itself: other usual ways to write the hand-written JAX steps, over the way that was taken.

    python benchmarks/baseline.py [--only NAME ...] [--quick]

A ratio under 1 would mean that ``_handwritten.py`` is not the best that a user of JAX writes on this machine.
"""

import _handwritten as steps
import jax
import jax.numpy as jnp
from _cases import Forms, agree, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times
from jax import lax

TAKEN = "hand-written JAX"


def cnn_reduce_window(p, buffers, x):
    """Pooling as flax does it."""
    x = steps.max_pool(jax.nn.relu(steps.conv(p, "0", x)), 2, 2)
    x = steps.max_pool(jax.nn.relu(steps.conv(p, "3", x)), 2, 2)
    return steps.linear(p, "7", x.reshape(x.shape[0], -1)), {}


def cnn_channels_first(p, buffers, x):
    """PyTorch's layout, with the input and the last pictures transposed once."""
    x = x.transpose(0, 3, 1, 2)
    for name in ("0", "3"):
        weight, bias = p[f"{name}.weight"].transpose(3, 2, 0, 1), p[f"{name}.bias"]
        x = jax.nn.relu(lax.conv_general_dilated(x, weight, (1, 1), [(1, 1)] * 2) + bias[:, None, None])
        n, c, h, w = x.shape
        x = jnp.max(x.reshape(n, c, h // 2, 2, w // 2, 2), (3, 5))
    return steps.linear(p, "7", x.transpose(0, 2, 3, 1).reshape(x.shape[0], -1)), {}


def attend(q, k, v):
    """jax.nn.dot_product_attention over [batch, heads, length, width]."""
    q, k, v = (t.swapaxes(1, 2) for t in (q, k, v))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True).swapaxes(1, 2)


def gpt_dot_product_attention(p, buffers, tokens, heads=4):
    return steps.gpt(p, buffers, tokens, heads, attend)


VARIANTS = {
    "cnn": {"reduce_window for pooling": cnn_reduce_window, "channels first": cnn_channels_first},
    "gpt": {"jax.nn.dot_product_attention": gpt_dot_product_attention},
}


def measure(name, quick=False):
    """The rows of one program: each other way, and PyTorch."""
    forms = Forms(name, quick)
    cases = {TAKEN: forms.by_hand()[0]}
    for title, forward in VARIANTS[name].items():
        cases[title] = forms.by_hand(forward)[0]
    if torch is not None:
        cases["torch eager"] = forms.of(torch)
    agree(cases)
    t = best_times(cases, quick=quick)
    base = t.pop(TAKEN)
    return [Row(f"baseline: {case}", forms.program.title, TAKEN, base * 1e3, "ms", s / base) for case, s in t.items()]


if __name__ == "__main__":
    command(__doc__, JOBS["baseline"], measure)
