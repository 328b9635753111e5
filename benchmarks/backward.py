"""The cost of a backward: plain, with hooks, with create_graph, and per node of a long chain; next to torch.

Target: a chain of 1,000 nodes takes at most 3 times the bare jitted calls, forward and backward.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _timing import best_times, table

import torchlike

try:
    import torch
except ImportError:
    torch = None

LIBRARIES = {"ours": torchlike} | ({"torch": torch} if torch is not None else {})
X = np.linspace(0.1, 0.9, 16, dtype=np.float32)
NODES = 1000


def layers(lib, hooked):
    """The loss of 8 layers ``h * w + w``; with hooks on every activation, node and leaf."""
    w = lib.from_numpy(X.copy()).requires_grad_()
    if hooked:
        w.register_post_accumulate_grad_hook(lambda t: None)

    def build():
        h = w
        for _ in range(8):
            h = h * w + w
            if hooked:
                h.register_hook(lambda g: None)
                h.grad_fn.register_hook(lambda inputs, outputs: None)
        return h.sum()

    return w, build


def plain(lib, hooked=False):
    w, build = layers(lib, hooked)

    def run():
        w.grad = None
        build().backward()

    return run


def double(lib):
    w, build = layers(lib, False)

    def run():
        (g,) = lib.autograd.grad(build(), w, create_graph=True)
        return lib.autograd.grad(g.sum(), w)

    return run


def differentiable(lib):
    w, build = layers(lib, False)
    return lambda: lib.autograd.grad(build(), w, create_graph=True)


def chain(lib):
    x = lib.from_numpy(X.copy()).requires_grad_()
    seed = lib.ones(16)

    def run():
        y = x
        for _ in range(NODES):
            y = y.sin()
        x.grad = None
        y.backward(seed)

    return run


def chain_by_hand():
    """The same kernels, each a bare jitted call."""
    x, one = jnp.asarray(X), jnp.ones(16)
    sin, back = jax.jit(jnp.sin), jax.jit(lambda x, g: g * jnp.cos(x))

    def run():
        kept, y = [], x
        for _ in range(NODES):
            kept.append(y)
            y = sin(y)
        g = one
        while kept:
            g = back(kept.pop(), g)
        return g

    return run


def main():
    kinds = {
        "backward": plain,
        "with hooks": lambda lib: plain(lib, hooked=True),
        "create_graph": differentiable,
        "double backward": double,
    }
    rows = []
    for name, make in kinds.items():
        t = best_times({label: make(lib) for label, lib in LIBRARIES.items()})
        theirs = t.get("torch", float("nan"))
        rows.append([name, t["ours"] * 1e6, theirs * 1e6, t["ours"] / theirs])
    table("forward and backward of 8 layers of two operators on 16 numbers", ["", "ours us", "torch us", "ratio"], rows)

    cases = {"hand": chain_by_hand()} | {label: chain(lib) for label, lib in LIBRARIES.items()}
    t = best_times(cases, rounds=7, seconds=0.05)
    per_node = t["hand"] / NODES * 1e6
    ratios = [t[label] / t["hand"] if label in t else float("nan") for label in ("ours", "torch")]
    table(
        f"a chain of {NODES} nodes, forward and backward, over the bare jitted calls (target: 3.00)",
        ["", "by hand us/node", "ours", "torch"],
        [["sin", per_node, *ratios]],
    )


if __name__ == "__main__":
    main()
