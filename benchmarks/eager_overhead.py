"""The cost of one eager call over the bare ``jax.jit`` call that it makes, and next to torch where installed.

    python benchmarks/eager_overhead.py [--only NAME ...] [--quick]

Immediate execution, on 4x4 float32. ``backward`` is ``((a * b) + b).sum().backward()`` over the same jitted calls
made by hand.
"""

import jax
import jax.numpy as jnp
import numpy as np
from _cases import DEVICE, Case, torch, wait
from _jobs import JOBS
from _rows import Row, command
from _timing import best_times

import torchlike

PLAIN, RECORDING, BACKWARD = 1.6, 2.0, 2.0  # the targets
RNG = np.random.RandomState(0)
A, B = RNG.randn(4, 4).astype(np.float32), RNG.randn(4, 4).astype(np.float32)
FUNCTIONS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "matmul": lambda a, b: a @ b}
BARE = {
    "add": jax.jit(lambda a, b: a + b),
    "mul": jax.jit(lambda a, b: a * b),
    "matmul": jax.jit(lambda a, b: jnp.matmul(a, b, precision="highest")),
}


def tensors(lib, grad):
    a, b = (lib.from_numpy(x.copy()) for x in (A, B))
    if DEVICE:
        a, b = a.to(DEVICE), b.to(DEVICE)
    return a.requires_grad_(grad), b


def calls(name):
    """{case: function}: the bare call, and ours and torch's without grad ("plain") and with."""
    f, bare = FUNCTIONS[name], BARE[name]
    a, b = jnp.asarray(A), jnp.asarray(B)
    cases = {"bare": lambda: bare(a, b)}
    for lib, label in ((torchlike, "ours"), (torch, "torch")):
        if lib is not None:
            for grad in (False, True):
                x, y = tensors(lib, grad)
                cases[f"{label} {'recording' if grad else 'plain'}"] = lambda x=x, y=y: f(x, y)
    return cases


def by_hand():
    """The kernels of ((a * b) + b).sum().backward() with both a and b requiring grad."""
    a, b = jnp.asarray(A), jnp.asarray(B)
    mul, add = BARE["mul"], BARE["add"]
    total = jax.jit(jnp.sum)
    one = jax.jit(lambda: jnp.ones((), jnp.float32))
    spread = jax.jit(lambda g: jnp.broadcast_to(g, (4, 4)))
    mul_back = jax.jit(lambda a, b, g: (g * b, g * a))

    def run():
        total(add(mul(a, b), b))
        g = spread(one())
        ga, gb = mul_back(a, b, g)
        return ga, add(g, gb)

    return run


def backward(lib):
    a, b = tensors(lib, True)
    b.requires_grad_()

    def run():
        a.grad = b.grad = None
        ((a * b) + b).sum().backward()

    return run


def backwards():
    cases = {"bare": by_hand(), "ours": backward(torchlike)}
    return cases | ({"torch": backward(torch)} if torch is not None else {})


def measure(name, quick=False):
    """The rows of one operator, or of the backward."""
    cases = backwards() if name == "backward" else calls(name)
    Case(None, (), "immediate").enter()
    t = best_times(cases, quick=quick)
    wait(cases["bare"]() if name != "backward" else cases["bare"]()[1])
    titles = {"ours plain": ("one call, no grad", PLAIN), "ours recording": ("one call, recording a node", RECORDING),
              "ours": ("forward and backward", BACKWARD)}  # fmt: skip
    program = "((a*b)+b).sum().backward()" if name == "backward" else f"{name}, 4x4"
    rows = []
    for case, (title, target) in titles.items():
        if case in t:
            theirs = t.get(case.replace("ours", "torch"))
            note = "" if theirs is None else f"torch {theirs / t['bare']:.2f}"
            base = t["bare"]
            rows.append(Row(title, program, "bare jitted calls", base * 1e6, "us", t[case] / base, target, note))
    return rows


if __name__ == "__main__":
    command(__doc__, JOBS["eager_overhead"], measure)
