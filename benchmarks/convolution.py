"""Ways to compute a convolution and its gradients on the CPU, next to PyTorch's, shape by shape.

    python benchmarks/convolution.py [--only NAME] [--quick] [--threads N]

Every number is a ratio over PyTorch's time for the same thing in the same run; * marks the way that the
rules in ``torchlike/_ops/_conv_cpu.py`` choose. Calls are timed one by one and the fastest counts.
"""

import argparse
import math
import time

import jax
import numpy as np
import torch

from torchlike._ops import _conv_cpu as cpu

# name: (batch, channels, size, out, kernel, stride, padding)
SHAPES = {
    "CNN 1": (32, 3, (32, 32), 32, 3, 1, 1),
    "CNN 2": (32, 32, (16, 16), 64, 3, 1, 1),
    "32 to 64 at 32x32": (32, 32, (32, 32), 64, 3, 1, 1),
    "LeNet 1": (64, 1, (28, 28), 20, 5, 1, 0),
    "LeNet 2": (64, 20, (12, 12), 50, 5, 1, 0),
    "ResNet 7x7 at 64": (8, 3, (64, 64), 64, 7, 2, 3),
    "ResNet 64 at 16": (8, 64, (16, 16), 64, 3, 1, 1),
    "ResNet 64-128 /2": (8, 64, (16, 16), 128, 3, 2, 1),
    "ResNet 128 at 8": (8, 128, (8, 8), 128, 3, 1, 1),
    "ResNet 128-256 /2": (8, 128, (8, 8), 256, 3, 2, 1),
    "ResNet 256 at 4": (8, 256, (4, 4), 256, 3, 1, 1),
    "ResNet 256-512 /2": (8, 256, (4, 4), 512, 3, 2, 1),
    "ResNet 512 at 2": (8, 512, (2, 2), 512, 3, 1, 1),
    "1x1 64-128 /2": (8, 64, (16, 16), 128, 1, 2, 0),
    "1x1 256-512 /2": (8, 256, (4, 4), 512, 1, 2, 0),
    "1x1 64-256 at 32": (8, 64, (32, 32), 256, 1, 1, 0),
    "1x1 1024-256 at 14": (4, 1024, (14, 14), 256, 1, 1, 0),
    "ResNet 7x7 at 224": (2, 3, (224, 224), 64, 7, 2, 3),
    "ResNet 64 at 56": (2, 64, (56, 56), 64, 3, 1, 1),
    "ResNet 256 at 14": (2, 256, (14, 14), 256, 3, 1, 1),
    "ResNet 512 at 7": (2, 512, (7, 7), 512, 3, 1, 1),
    "1d 64, k 3": (16, 64, (256,), 64, 3, 1, 1),
    "1d 32, k 9": (16, 32, (1024,), 32, 9, 1, 4),
    "3d 1-16": (4, 1, (16, 16, 16), 16, 3, 1, 1),
    "3d 32-64 /2": (4, 32, (16, 16, 16), 64, 3, 2, 1),
    "3d 8-16": (2, 8, (16, 16, 16), 16, 3, 1, 1),
    "3d 32-32": (4, 32, (8, 8, 8), 32, 3, 1, 1),
}


def arrays(batch, channels, size, out, kernel, stride, padding):
    """(geometry, x, w, grad) of a shape, in numpy."""
    n, rng = len(size), np.random.RandomState(0)
    w = rng.randn(out, channels, *(kernel,) * n).astype(np.float32)
    g = cpu.geometry(size, w, (stride,) * n, ((padding, padding),) * n, (1,) * n)
    x = rng.randn(batch, channels, *size).astype(np.float32)
    return g, x, w, rng.randn(batch, out, *g.out).astype(np.float32)


def of_torch(kind, g, x, w, grad):
    """PyTorch's own computation, as a function without arguments."""
    x, w, grad = map(torch.from_numpy, (x, w, grad))
    n, padding = len(g.size), [lo for lo, _ in g.pairs]
    if kind == "forward":
        convolve = getattr(torch, f"conv{n}d")
        return lambda: convolve(x, w, None, g.stride, padding)
    numbers = (None, g.stride, padding, g.dilation, False, [0] * n, 1)
    mask = [kind == "for input", kind == "for weight", False]
    return lambda: torch.ops.aten.convolution_backward(grad, x, w, *numbers, mask)


def ways(kind, g, x, w, grad):
    """({way: a function without arguments}, the way that the rule names); all must agree."""
    known, rule, first, second = {
        "forward": (cpu.FORWARD, cpu.forward_rule, x, w),
        "for input": (cpu.FOR_INPUT, cpu.input_rule, grad, w),
        "for weight": (cpu.FOR_WEIGHT, cpu.weight_rule, grad, x),
    }[kind]
    a, b, found, expected = jax.device_put(first), jax.device_put(second), {}, None
    for name, way in known.items():
        if name == "planes" and len(g.size) != 3:
            continue
        compiled = jax.jit(lambda a, b, way=way: way(a, b, g))
        got = np.asarray(compiled(a, b))
        expected = got if expected is None else expected
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
        found[name] = lambda compiled=compiled: compiled(a, b).block_until_ready()
    return found, rule(a, b, g)


def fastest(cases, seconds):
    """{name: seconds of the fastest call}; the cases take turns."""
    best = dict.fromkeys(cases, float("inf"))
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < 4 or (time.perf_counter() < end and rounds < 200):
        for name, f in cases.items():
            for _ in range(2):
                start = time.perf_counter()
                f()
                best[name] = min(best[name], time.perf_counter() - start)
        rounds += 1
    return best


def row(name, kind, seconds):
    """A line of the table."""
    g, x, w, grad = arrays(*SHAPES[name])
    found, chosen = ways(kind, g, x, w, grad)
    best = fastest({"torch": of_torch(kind, g, x, w, grad), **found}, seconds)
    flops = 2 * grad.size * math.prod(w.shape[1:])
    cells = [f"{best[n] / best['torch']:.2f}{'*' if n == chosen else ' '}" if n in best else "" for n in cpu.FOR_WEIGHT]
    return [name, f"{flops / 1e6:.0f}", f"{best['torch'] * 1e3:.2f}", *cells]


def show(title, rows):
    """Print the rows under a title, aligned."""
    rows = [["shape", "MFLOP", "torch ms", *cpu.FOR_WEIGHT], *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    print(f"\n{title}, over PyTorch")
    for first, *others in rows:
        print("  ", first.ljust(widths[0]), *(c.rjust(n) for c, n in zip(others, widths[1:], strict=True)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=0, help="PyTorch's; XLA's follow the process's CPU affinity")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    for kind in ("forward", "for input", "for weight"):
        rows = [row(n, kind, 0.6 if options.quick else 1.5) for n in SHAPES if options.only.lower() in n.lower()]
        show(kind, rows)


if __name__ == "__main__":
    main()
