"""gradcheck of 100, 1,200 and 4,000 inputs in float64; next to PyTorch's.

    python benchmarks/gradcheck.py [--only NAME ...] [--quick]

Every case calls the same function of the same inputs, eagerly; the verdicts must be True. Sizes are rounded down to
what fits the shapes.
"""

import numpy as np
from _cases import GPU, Case, torch
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

TARGET, FROM = 1.0, 1000  # times PyTorch's, from so many inputs on
SIZES = (100, 1200, 4000)


def inputs(lib, *shapes):
    """Tensors of these shapes that require grad."""
    rng = np.random.default_rng(0)
    return [lib.tensor(rng.standard_normal(shape), requires_grad=True) for shape in shapes]


def pointwise(lib, n):
    """``(x * w).sin()``: as many outputs as half the inputs."""
    return lambda x, w: (x * w).sin(), inputs(lib, n // 2, n // 2)


def layer(lib, n):
    """A linear layer and a softmax for one example of 10 features."""
    return lambda x, w: (x @ w).softmax(-1), inputs(lib, 10, (10, n // 10 - 1))


def loss(lib, n):
    """A mean of squares: one output."""
    return lambda x, w: ((x - w) ** 2).mean(), inputs(lib, n // 2, n // 2)


def products(lib, n):
    """Two products of square matrices and a logarithm of sums of exponentials."""
    m = int((n / 4) ** 0.5)
    return lambda a, b: (a @ b).logsumexp(-1), inputs(lib, (2, m, m), (2, m, m))


def convolution(lib, n):
    """A convolution of a picture by two filters."""
    k = n // 78
    return lambda x, w: lib.nn.functional.conv2d(x, w).tanh(), inputs(lib, (1, k, 6, 10), (2, k, 3, 3))


KINDS = {
    "pointwise": ("`(x * w).sin()`", pointwise),
    "layer": ("linear and softmax", layer),
    "loss": ("mean squared error", loss),
    "products": ("matrix products and logsumexp", products),
    "convolution": ("convolution and tanh", convolution),
}


def measure(name, quick=False):
    """A row for each number of inputs: ours over PyTorch's."""
    if torch is None or GPU:
        return []
    Case(None, (), "immediate").enter()
    title, make = KINDS[name]
    rows = []
    for n in SIZES[:1] if quick else SIZES:
        cases = {}
        for label, lib in (("ours", torchlike), ("torch", torch)):
            f, args = make(lib, n)
            check = lib.autograd.gradcheck
            cases[label] = lambda check=check, f=f, args=args: check(f, args)
            assert cases[label]() is True, f"{label} says that the gradients of {title} are wrong"
        # the verdicts above have warmed both; PyTorch's of 4,000 pointwise inputs takes half a minute if busy
        t = best_times(cases, calls=0, rounds=12, fewest=1, budget=5.0, quick=quick)
        target = TARGET if n >= FROM else None
        rows.append(
            Row(name, f"{title}, {n:,} inputs", "PyTorch", t["torch"] * 1e3, "ms", t["ours"] / t["torch"], target)
        )
    return rows


if __name__ == "__main__":
    command(__doc__, JOBS["gradcheck"], measure)
