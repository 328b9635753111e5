"""One eager training step (forward, backward, Adam) next to torch eager, and next to one jitted JAX function.

Operator-by-operator execution pays a launch for each operator; the compiled step is what XLA makes of
the whole. Ratios are over torch eager in the same run.
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


def mlp(lib):
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def cnn(lib):
    nn = lib.nn
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 8 * 8, 10),
    )  # fmt: skip


PROGRAMS = {
    "MLP 784-512-512-10, batch 128": (mlp, (128, 784)),
    "CNN 3-32-64, batch 32 at 32x32": (cnn, (32, 3, 32, 32)),
}


def step_of(lib, make, shape):
    """A function that takes one training step on fixed random data."""
    rng = np.random.RandomState(0)
    x = lib.from_numpy(rng.randn(*shape).astype(np.float32))
    y = lib.from_numpy(rng.randint(0, 10, shape[0]))
    lib.manual_seed(0)
    model = make(lib)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = lib.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def jax_mlp_step(shape):
    """The MLP step written in JAX and jitted as a whole, with donated state."""
    rng = np.random.RandomState(0)
    sizes = (784, 512, 512, 10)
    params = [
        (jnp.asarray(rng.randn(a, b), jnp.float32) / a**0.5, jnp.zeros(b, jnp.float32))
        for a, b in zip(sizes, sizes[1:], strict=False)
    ]
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"s": (params, zeros, jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.float32))}
    x = jnp.asarray(rng.randn(*shape), jnp.float32)
    y = jnp.asarray(rng.randint(0, 10, shape[0]))

    def loss_of(params):
        h = x
        for i, (w, b) in enumerate(params):
            h = jnp.dot(h, w, precision="highest") + b
            h = jax.nn.relu(h) if i < 2 else h
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1))

    @jax.jit
    def update(params, m, v, t):
        loss, g = jax.value_and_grad(loss_of)(params)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        new = jax.tree.map(
            lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8),
            params,
            m,
            v,
        )
        return (new, m, v, t), loss

    def step():
        state["s"], loss = update(*state["s"])
        return loss.item()

    return step


def main():
    rows = []
    for name, (make, shape) in PROGRAMS.items():
        cases = {"ours": step_of(torchlike, make, shape)}
        if torch is not None:
            cases["torch"] = step_of(torch, make, shape)
        if make is mlp:
            cases["jax"] = jax_mlp_step(shape)
        t = best_times(cases, rounds=12, seconds=0.15)
        base = t.get("torch", float("nan"))
        rows.append([name, base * 1e3, t["ours"] / base, t.get("jax", float("nan")) / base])
    table(
        "one eager training step, over torch eager",
        ["program", "torch ms", "torchlike eager", "one jitted JAX step"],
        rows,
    )


if __name__ == "__main__":
    main()
