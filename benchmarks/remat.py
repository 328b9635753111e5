"""Peak memory of compiled training steps with and without checkpoints, next to hand-written JAX.

    python benchmarks/remat.py [--only NAME ...] [--quick]

Memory is XLA's own account of the temporaries of the program: what lives besides parameters, inputs and results.
All steps start from the same numbers, and their losses must agree before anything is measured. ``kept`` has no
checkpoints; ``scan`` is a loop over stacked blocks, the form in which ``jax.checkpoint`` works on every platform.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from _handwritten import layer_norm, linear
from _rows import Row, command

import torchlike as torch
from torchlike import nn
from torchlike.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

F = nn.functional
PRODUCTS = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]


class Perceptron(nn.Module):
    """x + b(gelu(a(x)))."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.b(F.gelu(self.a(x)))


class Layer(nn.Module):
    """A layer of a transformer: attention to what came before, and a perceptron."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.n, self.m, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.n(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        later = torch.ones(t, t, dtype=torch.bool).tril().logical_not()
        scores = (q @ k.mT * (d // self.heads) ** -0.5).masked_fill(later, float("-inf"))
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, d))
        return x + self.b(F.gelu(self.a(self.m(x))))


def perceptron(p, x):
    return x + linear(p, "b", jax.nn.gelu(linear(p, "a", x), approximate=False))


def layer(p, x, heads=4):
    n, t, d = x.shape
    q, k, v = linear(p, "qkv", layer_norm(p, "n", x)).reshape(n, t, 3, heads, d // heads).transpose(2, 0, 3, 1, 4)
    later = ~jnp.tril(jnp.ones((t, t), bool))
    scores = jnp.matmul(q, k.swapaxes(-1, -2), precision="highest") * (d // heads) ** -0.5
    weights = jax.nn.softmax(jnp.where(later, -jnp.inf, scores), -1)
    mixed = jnp.matmul(weights, v, precision="highest").transpose(0, 2, 1, 3).reshape(n, t, d)
    x = x + linear(p, "o", mixed)
    return x + linear(p, "b", jax.nn.gelu(linear(p, "a", layer_norm(p, "m", x)), approximate=False))


PROGRAMS = {  # title, module, the same by hand, how many, width, shape of the input
    "perceptrons": ("16 perceptrons of 256, batch 1024", Perceptron, perceptron, 16, 256, (1024, 256)),
    "transformer": ("8 transformer layers of 128, batch 8 x 128", Layer, layer, 8, 128, (8, 128, 128)),
}
SMALL = {
    "perceptrons": ("3 perceptrons of 32, batch 64", Perceptron, perceptron, 3, 32, (64, 32)),
    "transformer": ("3 transformer layers of 32, batch 2 x 16", Layer, layer, 3, 32, (2, 16, 32)),
}
TARGETS = {"checkpoint": 0.5, "reentrant": 0.5, "products kept": 0.8}  # over the step without checkpoints
AS_JAX = 1.05


def kept(block, x):
    return block(x)


def selective(block, x):
    contexts = functools.partial(create_selective_checkpoint_contexts, PRODUCTS)
    return checkpoint(block, x, use_reentrant=False, context_fn=contexts)


CALLS = {
    "kept": kept,
    "checkpoint": functools.partial(checkpoint, use_reentrant=False),
    "reentrant": functools.partial(checkpoint, use_reentrant=True),
    "products kept": selective,
}


def ours(call, blocks, x):
    """The compiled step, and a function that gives its program."""

    def step(x):
        y = x.requires_grad_()
        for block in blocks:
            y = call(block, y)
        loss = y.pow(2).mean()
        loss.backward()
        for p in blocks.parameters():
            p.data.sub_(0.1 * p.grad)
            p.grad = None
        return loss.detach()

    run = torch.compile(lambda x: step(x.clone()), fullgraph=True)
    x = torch.from_numpy(x)

    def program():
        (found,) = [p for pairs in run.programs.values() for _, p in pairs]
        return found.lowered([x])

    return lambda: run(x)._storage.value, program


def by_hand(form, block, params, x):
    """As ``ours``, in JAX alone: "kept", "checkpoint" or "scan"."""
    call = block if form == "kept" else jax.checkpoint(block)

    def loss(params, x):
        if form == "scan":
            return jnp.mean(jnp.square(jax.lax.scan(lambda x, p: (call(p, x), None), x, params)[0]))
        return jnp.mean(jnp.square(functools.reduce(lambda x, p: call(p, x), params, x)))

    @functools.partial(jax.jit, donate_argnums=0)
    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    params = jax.tree.map(lambda *p: jnp.stack(p), *params) if form == "scan" else jax.tree.map(jnp.array, params)
    holder, x = [params], jnp.asarray(x)

    def once():
        holder[0], value = step(holder[0], x)
        return value

    return once, lambda: step.lower(holder[0], x)


def cases(module, block, count, width, shape):
    """{case: (step, function that gives its program lowered)}, all from the same numbers."""
    torch.manual_seed(0)
    net = nn.Sequential(*[module(width) for _ in range(count)])
    state = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    x = np.random.RandomState(0).randn(*shape).astype(np.float32)
    params = [
        {k.partition(".")[2]: jnp.array(v) for k, v in state.items() if k.startswith(f"{i}.")} for i in range(count)
    ]
    found = {f"JAX, {form}": by_hand(form, block, params, x) for form in ("kept", "checkpoint", "scan")}
    for name, call in CALLS.items():
        net = nn.Sequential(*[module(width) for _ in range(count)])
        net.load_state_dict({k: torch.from_numpy(v) for k, v in state.items()})
        found[name] = ours(call, net, x)
    return found


def agree(found):
    """Three losses of every case must be the same."""
    losses = {name: [np.array(once()) for _ in range(3)] for name, (once, _) in found.items()}
    for name, seen in losses.items():
        np.testing.assert_allclose(seen, losses["kept"], rtol=1e-3, err_msg=name)


def measure(name, quick=False):
    """The rows of one program."""
    title, *settings = (SMALL if quick else PROGRAMS)[name]
    found = cases(*settings)
    agree(found)
    size = {n: program().compile().memory_analysis().temp_size_in_bytes / 2**20 for n, (_, program) in found.items()}

    def row(case, against, target=None):
        base = size[against]
        return Row(f"temporaries: {case}", title, against, base, "MiB", size[case] / base, target)

    rows = [row(f"JAX, {form}", "JAX, kept") for form in ("checkpoint", "scan")]
    rows += [row(case, "kept", target) for case, target in TARGETS.items()]
    return [*rows, row("checkpoint", "JAX, checkpoint", AS_JAX), row("checkpoint", "JAX, scan")]


if __name__ == "__main__":
    command(__doc__, list(PROGRAMS), measure)
