"""torch.func: gradients per sample, a Hessian and a Jacobian, eager and compiled; next to PyTorch and raw JAX.

    python benchmarks/transforms.py [--only NAME ...] [--quick]

The functions are written once over tensors, and once more in jax.numpy; the results must agree before they are timed.
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
EAGER, COMPILED = 1.0, 1.2  # the targets: over PyTorch's eager call, over jitted JAX


def numbers(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) / 4


PARAMS = {"w1": numbers(64, 128), "b1": numbers(128), "w2": numbers(128, 10), "b2": numbers(10)}
FILTERS = {"c1": numbers(8, 1, 3, 3), "c2": numbers(16, 8, 3, 3), "w": numbers(16 * 2 * 2, 10)}


def per_sample(lib):
    """Gradients of a perceptron for each of 64 examples."""

    def loss(p, x, y):
        h = (x @ p["w1"] + p["b1"]).tanh()
        return ((h @ p["w2"] + p["b2"]) - y).square().sum()

    f = lib.func.vmap(lib.func.grad(loss), in_dims=(None, 0, 0))
    params = {k: lib.tensor(v) for k, v in PARAMS.items()}
    return lambda p, x, y: list(f(p, x, y).values()), (params, *map(lib.tensor, (numbers(64, 64), numbers(64, 10))))


def per_sample_by_hand():
    def loss(p, x, y):
        h = jnp.tanh(x @ p["w1"] + p["b1"])
        return jnp.sum(jnp.square((h @ p["w2"] + p["b2"]) - y))

    f = jax.vmap(jax.grad(loss), (None, 0, 0))
    params = {k: jnp.asarray(v) for k, v in PARAMS.items()}
    names = list(PARAMS)
    return lambda *a: [f(*a)[k] for k in names], (params, jnp.asarray(numbers(64, 64)), jnp.asarray(numbers(64, 10)))


def hessian(lib):
    """Second derivatives of a loss of 1,000 parameters."""
    x, y = lib.tensor(numbers(32, 19)), lib.tensor(numbers(32))

    def loss(w):
        h = (x @ w[:950].reshape(19, 50)).tanh()
        return (h @ w[950:] - y).square().mean()

    f = lib.func.hessian(loss)
    return lambda w: [f(w)], (lib.tensor(numbers(1000)),)


def hessian_by_hand():
    x, y = jnp.asarray(numbers(32, 19)), jnp.asarray(numbers(32))

    def loss(w):
        h = jnp.tanh(x @ w[:950].reshape(19, 50))
        return jnp.mean(jnp.square(h @ w[950:] - y))

    f = jax.hessian(loss)
    return lambda w: [f(w)], (jnp.asarray(numbers(1000)),)


def jacobian(lib):
    """The Jacobian of the 10 outputs of a convolutional net by its picture of 16 x 16, for 8 pictures."""
    c = {k: lib.tensor(v) for k, v in FILTERS.items()}
    F = lib.nn.functional

    def net(x):
        h = F.max_pool2d(F.conv2d(x[None], c["c1"]).relu(), 2)
        h = F.max_pool2d(F.conv2d(h, c["c2"]).relu(), 2)
        return h.flatten() @ c["w"]

    f = lib.func.vmap(lib.func.jacrev(net))
    return lambda x: [f(x)], (lib.tensor(numbers(8, 1, 16, 16)),)


def jacobian_by_hand():
    c = {k: jnp.asarray(v) for k, v in FILTERS.items()}

    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", precision="highest")

    def pool(x):
        n, d, h, w = x.shape
        return jnp.max(x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, d, h // 2, 2, w // 2, 2), (3, 5))

    def net(x):
        h = pool(jax.nn.relu(conv(x[None], c["c1"])))
        h = pool(jax.nn.relu(conv(h, c["c2"])))
        return h.ravel() @ c["w"]

    f = jax.vmap(jax.jacrev(net))
    return lambda x: [f(x)], (jnp.asarray(numbers(8, 1, 16, 16)),)


KINDS = {
    "per_sample": ("gradients of an MLP 64-128-10, for each of 64", per_sample, per_sample_by_hand),
    "hessian": ("Hessian of 1,000 parameters", hessian, hessian_by_hand),
    "jacobian": ("Jacobian of a CNN, 8 pictures", jacobian, jacobian_by_hand),
}


def case(f, args, finish):
    return lambda: finish(f(*args))


def measure(name, quick=False):
    """The rows of one transform: eager over PyTorch's, compiled over jitted JAX."""
    Case(None, (), "immediate").enter()
    title, make, by_hand = KINDS[name]
    f, args = by_hand()
    cases = {"jax": case(jax.jit(f), args, jax.block_until_ready)}
    for label, lib in LIBRARIES.items():
        f, args = make(lib)
        cases[label] = case(f, args, _done)
        if label == "ours":
            cases["compiled"] = case(lib.compile(f, fullgraph=True), args, _done)
    expected = cases["jax"]()
    for label, f in cases.items():
        for got, wanted in zip(f(), expected, strict=True):
            np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-2, atol=1e-4, err_msg=label)
    t = best_times(cases, quick=quick)
    rows = [Row("compiled", title, "jitted JAX", t["jax"] * 1e3, "ms", t["compiled"] / t["jax"], COMPILED)]
    if "torch" in t:
        theirs, note = t["torch"], f"compiled {t['compiled'] / t['torch']:.2f}"
        rows.append(Row("eager", title, "torch.func", theirs * 1e3, "ms", t["ours"] / theirs, EAGER, note))
    return rows


def _done(found):
    """The results, when they are there."""
    for t in found:
        if isinstance(t, torchlike.Tensor):
            jax.block_until_ready(t.jax())
    return found


if __name__ == "__main__":
    command(__doc__, JOBS["transforms"], measure)
