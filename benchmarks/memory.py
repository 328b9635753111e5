"""Live arrays through a backward: saved values are freed as they are used, and nothing is left behind.

    python benchmarks/memory.py [--quick]

Counts with ``jax.live_arrays`` at every layer of the backward of a deep chain, the garbage collector off.
"""

import contextlib
import gc

import jax
from _jobs import JOBS
from _rows import Row, command

import torchlike as torch

LAYERS, SIZE = 32, 128
LEAST, PEAK = 1.0, 1.05  # the targets


def live():
    """Bytes of arrays of the chain's shape that are alive."""
    return sum(a.nbytes for a in jax.live_arrays() if a.shape == (SIZE, SIZE))


def arrays():
    """How many arrays live: after the forward, at each layer of the backward, after it, and in the end."""
    unit = SIZE * SIZE * 4
    weight = torch.rand(SIZE, SIZE).requires_grad_()
    x = torch.rand(SIZE, SIZE)
    before = live()
    counts = []
    h = x
    for _ in range(LAYERS):
        h = torch.tanh(h * weight)
        h.register_hook(lambda grad: counts.append((live() - before) / unit))
    loss = h.sum()
    del h
    forward = (live() - before) / unit
    loss.backward()
    after = (live() - before) / unit
    del loss
    weight.grad = None
    return forward, counts, after, (live() - before) / unit


def measure(name, quick=False):
    """The rows of a chain of layers ``tanh(h * w)``, executed immediately."""
    gc.disable()
    try:
        with torch.set_execution("immediate") if hasattr(torch, "set_execution") else contextlib.nullcontext():
            forward, counts, after, freed = arrays()
    finally:
        gc.enable()
    assert freed == 0, f"{freed} arrays are left"

    def row(title, found, against, base, target):
        return Row(title, f"{LAYERS} layers tanh(h * w)", against, base, "arrays", found / base, target)

    return [
        row("saved by the forward", forward, "one for each layer", LAYERS, LEAST),
        row("peak of the backward", max(counts), "saved by the forward", forward, PEAK),
        row("half way through the backward", counts[LAYERS // 2], "saved by the forward", forward, None),
        row("after the backward", after, "the weight's gradient", 1, LEAST),
    ]


if __name__ == "__main__":
    command(__doc__, JOBS["memory"], measure)
