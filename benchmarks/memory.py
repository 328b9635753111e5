"""Live arrays through a backward: saved values are freed as they are used, and nothing is left behind.

Counts with ``jax.live_arrays`` at every layer of the backward of a deep chain, the garbage collector off.
"""

import gc

import jax
from _timing import table

import torchlike as torch

LAYERS, SIZE = 32, 128


def live():
    """Bytes of arrays of the chain's shape that are alive."""
    return sum(a.nbytes for a in jax.live_arrays() if a.shape == (SIZE, SIZE))


def main():
    gc.disable()
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
    after_backward = (live() - before) / unit
    del loss
    weight.grad = None
    freed = (live() - before) / unit
    rows = [
        ["saved by the forward (one a layer is needed)", forward, forward / LAYERS],
        ["peak in the backward", max(counts), max(counts) / forward],
        ["half way through", counts[LAYERS // 2], counts[LAYERS // 2] / forward],
        ["at the last layer", counts[-1], counts[-1] / forward],
        ["after the backward (the weight's gradient)", after_backward, after_backward / forward],
        ["after the graph and the gradient are dropped", freed, freed / forward],
    ]
    table(f"live arrays of a chain of {LAYERS} layers, tanh(h * w)", ["", "arrays", "over the forward's"], rows)
    gc.enable()


if __name__ == "__main__":
    main()
