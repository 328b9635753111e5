"""The cost of a backward: plain, with hooks, with create_graph, double, and per node of a long chain; next to torch.

    python benchmarks/backward.py [--only NAME ...] [--quick]

Immediate execution of 8 layers on 16 numbers, where only the cost of each call counts; ``chain``: 1,000 nodes.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _cases import GPU, Case, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

LIBRARIES = {"ours": torchlike} | ({"torch": torch} if torch is not None and not GPU else {})
X = np.linspace(0.1, 0.9, 16, dtype=np.float32)
NODES, CHAIN = 1000, 3.0  # and the target


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


KINDS = {
    "plain": ("forward and backward", plain),
    "hooks": ("with a hook on every tensor, node and leaf", lambda lib: plain(lib, hooked=True)),
    "create_graph": ("create_graph=True", differentiable),
    "double": ("double backward", double),
}


def measure(name, quick=False):
    """The rows of one kind of backward over PyTorch's, or of the chain over bare jitted calls."""
    Case(None, (), "immediate").enter()
    title, make = KINDS.get(name, ("", chain))
    cases = {label: make(lib) for label, lib in LIBRARIES.items()}
    if name == "chain":
        cases["bare"] = chain_by_hand()
    t = best_times(cases, quick=quick)
    theirs = t.get("torch")
    if name == "chain":
        note = "" if theirs is None else f"torch {theirs / t['bare']:.2f}"
        each, ratio = t["bare"] / NODES * 1e6, t["ours"] / t["bare"]
        return [Row("backward", f"{NODES} nodes", "bare jitted calls", each, "us a node", ratio, CHAIN, note)]
    if theirs is None:
        return [Row("backward", f"8 layers, {title}", "torch", None, "us", None, note="no torch here")]
    return [Row("backward", f"8 layers, {title}", "torch", theirs * 1e6, "us", t["ours"] / theirs)]


if __name__ == "__main__":
    command(__doc__, JOBS["backward"], measure)
