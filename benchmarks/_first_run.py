"""A process of its own: many small programs, each run for the first time. For cold.py.

    python benchmarks/_first_run.py {torchlike,torch,jax} [PROGRAM ...]

Prints seconds of processor time and mebibytes of memory, from the start of the process. For ``jax``: the seconds that
compiling 40 single additions takes, the unit that the others are told in.
"""

import functools
import json
import sys
import time

STEPS = 2


def block(nn, cin, cout, stride=1, groups=1, act=None):
    conv = nn.Conv2d(cin, cout, 3, stride, 1, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), act or nn.ReLU())


def plain(lib):
    """Convolutions, normalisation, pooling, dropout."""
    nn = lib.nn
    return nn.Sequential(
        block(nn, 3, 16), block(nn, 16, 16), nn.MaxPool2d(2), block(nn, 16, 32), block(nn, 32, 32), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10),
    )  # fmt: skip


def residual(lib):
    """Blocks whose input is added to their result."""
    nn = lib.nn

    class Residual(nn.Module):
        def __init__(self, cin, cout, stride):
            super().__init__()
            self.body = nn.Sequential(block(nn, cin, cout, stride), nn.Conv2d(cout, cout, 3, 1, 1, bias=False))
            self.norm = nn.BatchNorm2d(cout)
            self.short = nn.Conv2d(cin, cout, 1, stride, bias=False) if cin != cout else nn.Identity()

        def forward(self, x):
            return nn.functional.relu(self.norm(self.body(x)) + self.short(x))

    stages = [Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1), Residual(16, 32, 2)]
    return nn.Sequential(block(nn, 3, 8), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def separable(lib):
    """Depthwise convolutions, and channels that are weighted by what they hold."""
    nn = lib.nn

    class Weighted(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.down, self.up = nn.Conv2d(n, n // 4, 1), nn.Conv2d(n // 4, n, 1)

        def forward(self, x):
            return x * self.up(self.down(x.mean((2, 3), keepdim=True)).relu()).sigmoid()

    def stage(cin, cout, stride):
        wide = block(nn, cin, cin, stride, cin, nn.Hardswish())
        return nn.Sequential(wide, Weighted(cin), nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU6())

    stages = [stage(12, 24, 2), stage(24, 24, 1), stage(24, 48, 2)]
    return nn.Sequential(block(nn, 3, 12), *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10))


def dense(lib):
    """Each layer reads the results of all before it."""
    nn = lib.nn

    class Dense(nn.Module):
        def __init__(self, n, growth, layers):
            super().__init__()
            self.layers = nn.ModuleList(
                [
                    nn.Sequential(nn.BatchNorm2d(n + i * growth), nn.ELU(), nn.Conv2d(n + i * growth, growth, 3, 1, 1))
                    for i in range(layers)
                ]
            )

        def forward(self, x):
            for layer in self.layers:
                x = lib.cat([x, layer(x)], 1)
            return x

    between = nn.Sequential(nn.Conv2d(28, 14, 1), nn.AvgPool2d(2))
    parts = [nn.Conv2d(3, 10, 3, 1, 1), Dense(10, 6, 3), between, Dense(14, 6, 3), nn.BatchNorm2d(32), nn.LeakyReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def patches(lib):
    """A vision transformer, its attention written out."""
    nn = lib.nn

    class Attention(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads, self.norm, self.qkv, self.out = heads, nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            b, n, d = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
            weights = (q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5).softmax(-1)
            return x + self.out((weights @ v).transpose(1, 2).reshape(b, n, d))

    class Wide(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.body = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

        def forward(self, x):
            return x + self.body(x)

    class Patches(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.embed = nn.Conv2d(3, d, 4, 4)
            self.token = nn.Parameter(lib.zeros(1, 1, d))
            self.places = nn.Parameter(lib.randn(1, 65, d) * 0.02)
            self.body = nn.Sequential(Attention(d, 4), Wide(d), Attention(d, 4), Wide(d), nn.LayerNorm(d))
            self.head = nn.Linear(d, 10)

        def forward(self, x):
            x = self.embed(x).flatten(2).transpose(1, 2)
            x = lib.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.body(x)[:, 0])

    return Patches(48)


def recurrent(lib):
    """An LSTM over words."""
    nn = lib.nn

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.lstm, self.head = nn.Embedding(50, 24), nn.LSTM(24, 32, 2), nn.Linear(32, 50)

        def forward(self, words):
            return self.head(self.lstm(self.embed(words))[0]).flatten(0, 1)

    return Words()


def attentive(lib):
    """The transformer of the library, over words."""
    nn = lib.nn

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True)
            self.embed, self.body, self.head = nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)

        def forward(self, words):
            mask = lib.triu(lib.ones(words.shape[1], words.shape[1], dtype=lib.bool), 1)
            return self.head(self.body(self.embed(words), mask=mask)).flatten(0, 1)

    return Words()


OPERATORS = [
    lambda x: x + x, lambda x: x * 2, lambda x: 1 / (x.abs() + 1), lambda x: x - x.mean(), lambda x: x.exp(),
    lambda x: (x.abs() + 1).log(), lambda x: x.tanh(), lambda x: x.sigmoid(), lambda x: x.sin(), lambda x: x.cos(),
    lambda x: x.relu(), lambda x: x.abs(), lambda x: x.square(), lambda x: (x * x + 1).sqrt(), lambda x: x.clamp(-1, 1),
    lambda x: x.pow(3), lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: x.sum(0), lambda x: x.mean(1),
    lambda x: x.amax(1), lambda x: x.var(1), lambda x: x.std(0), lambda x: x.norm(), lambda x: x.cumsum(0),
    lambda x: x.prod(1), lambda x: x.logsumexp(1), lambda x: x.sort(1)[0], lambda x: x.topk(2, 1)[0],
    lambda x: x.max(1)[0], lambda x: x.t(), lambda x: x.flip(0), lambda x: x.roll(1, 0), lambda x: x[1:, :2],
    lambda x: x.repeat(2, 1), lambda x: x.reshape(-1), lambda x: x @ x.t(), lambda x: x.tril(),
    lambda x: x.masked_fill(x > 0, 0.0), lambda x: x.where(x > 0, x * x),
]  # fmt: skip
MODELS = {"adam": (plain, residual, dense, attentive), "sgd": (separable, patches, recurrent)}


def operators(lib):
    for shape in ((3, 4), (17, 9), (64, 130)):
        for f in OPERATORS:
            x = lib.randn(*shape, requires_grad=True)
            f(x).sum().backward()
            with lib.no_grad():
                x -= 0.1 * x.grad


def train(lib, make, kind):
    model = make(lib)
    parameters = model.parameters()
    optimizer = lib.optim.Adam(parameters) if kind == "adam" else lib.optim.SGD(parameters, 0.1, momentum=0.9)
    words = make in (recurrent, attentive)
    for _ in range(STEPS):
        x = lib.randint(0, 50, (4, 12)) if words else lib.randn(4, 3, 32, 32)
        y = x.flatten() if words else lib.randint(0, 10, (4,))
        optimizer.zero_grad()
        loss = lib.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    assert 0 < loss.item() < 20


def programs(lib):
    """{name: function}"""
    kinds = {make: kind for kind, makes in MODELS.items() for make in makes}
    found = {make.__name__: functools.partial(train, lib, make, kind) for make, kind in kinds.items()}
    return found | {"operators": functools.partial(operators, lib), "many": functools.partial(many, lib)}


def many(lib, n=250):
    """The kernels that ``n`` shapes of a few operators and their backward make."""
    for i in range(n):
        x = lib.ones(i + 2, 3, requires_grad=True)
        (x * x).tanh().sum().backward()


def unit():
    """Processor seconds in which jax compiles 40 single additions."""
    import jax
    import numpy as np

    jax.config.update("jax_enable_compilation_cache", False)
    arrays = [jax.device_put(np.ones((i + 2, 3), np.float32)) for i in range(40)]
    jax.jit(lambda x: x * 2)(arrays[0])
    add = jax.jit(lambda x, y: x + y)
    start = time.process_time()
    for x in arrays:
        add(x, x).block_until_ready()
    return time.process_time() - start


def mebibytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))


def main(kind, *names):
    if kind == "jax":
        return {"seconds": unit()}
    lib = __import__(kind)
    if kind == "torch":
        lib.set_num_threads(1)
    lib.manual_seed(0)
    chosen, before, seconds = programs(lib), time.process_time(), {"import": time.process_time()}
    if names == ("many",):
        many(lib, 2)
    start = mebibytes()
    for name in names or [name for name in chosen if name != "many"]:
        chosen[name]()
        now = time.process_time()
        seconds[name], before = now - before, now
    return {"seconds": time.process_time(), "mebibytes": mebibytes(), "added": mebibytes() - start, "parts": seconds}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
