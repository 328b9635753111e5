"""The cost of one eager call over the bare ``jax.jit`` call it makes, and next to torch where installed.

Targets: 1.6 times the bare call without grad, 2.0 times when a node is recorded, 2.0 times the same
jitted calls made by hand for ``y = ((a * b) + b).sum(); y.backward()``.
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

RNG = np.random.RandomState(0)
A, B = RNG.randn(4, 4).astype(np.float32), RNG.randn(4, 4).astype(np.float32)

FUNCTIONS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "matmul": lambda a, b: a @ b}
if not hasattr(torchlike, "matmul"):
    FUNCTIONS.pop("matmul")
BARE = {
    "add": jax.jit(lambda a, b: a + b),
    "mul": jax.jit(lambda a, b: a * b),
    "matmul": jax.jit(lambda a, b: jnp.matmul(a, b, precision="highest")),
}


def tensors(lib, grad):
    a, b = lib.from_numpy(A.copy()), lib.from_numpy(B.copy())
    if grad:
        a.requires_grad_()
    return a, b


def one_call(name):
    f = FUNCTIONS[name]
    cases = {}
    a, b = jnp.asarray(A), jnp.asarray(B)
    bare = BARE[name]
    cases["bare"] = lambda: bare(a, b)
    for lib, label in ((torchlike, "ours"), (torch, "torch")):
        if lib is not None:
            for grad in (False, True):
                cases[f"{label} {'grad' if grad else 'plain'}"] = _caller(f, *tensors(lib, grad))
    return best_times(cases)


def _caller(f, x, y):
    return lambda: f(x, y)


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


def main():
    rows = []
    for name in FUNCTIONS:
        t = one_call(name)
        torch_plain, torch_grad = t.get("torch plain", float("nan")), t.get("torch grad", float("nan"))
        bare = t["bare"]
        rows.append(
            [
                name,
                bare * 1e6,
                t["ours plain"] / bare,
                t["ours grad"] / bare,
                torch_plain / bare,
                torch_grad / bare,
            ]
        )
    table("one call on 4x4, over the bare jax.jit call (targets: 1.60 plain, 2.00 recording)",
          ["operator", "bare us", "plain", "recording", "torch plain", "torch recording"], rows)  # fmt: skip
    cases = {"hand": by_hand(), "ours": backward(torchlike)}
    if torch is not None:
        cases["torch"] = backward(torch)
    t = best_times(cases)
    hand = t["hand"]
    row = ["forward and backward", hand * 1e6, t["ours"] / hand, t.get("torch", float("nan")) / hand]
    table(
        "((a*b)+b).sum().backward(), over the same jitted calls made by hand (target: 2.00)",
        ["", "by hand us", "ours", "torch"],
        [row],
    )


if __name__ == "__main__":
    main()
