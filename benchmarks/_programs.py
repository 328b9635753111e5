"""Models and training steps of the benchmarks, written once with PyTorch's API; ``lib`` is torch or torchlike."""

from typing import NamedTuple

import numpy as np


def mlp(lib, sizes=(784, 512, 512, 10)):
    nn = lib.nn
    layers = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn(lib, channels=(3, 32, 64), side=32):
    nn = lib.nn
    a, b, c = channels
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(b, c, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(c * (side // 4) ** 2, 10),
    )  # fmt: skip


def gpt(lib, layers=2, width=128, heads=4, length=128, words=256):
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            n, t, d = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(n, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4).unbind(0)
            h = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(h.transpose(1, 2).reshape(n, t, d))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, tokens):
            x = self.words(tokens) + self.places(lib.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x)).flatten(0, 1)

    return GPT()


def lstm(lib, sizes=(64, 128, 10)):
    nn = lib.nn
    features, hidden, classes = sizes

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(features, hidden, batch_first=True), nn.Linear(hidden, classes)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    return Reader()


def resnet18(lib, widths=(64, 128, 256, 512), blocks=2, classes=10):
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
            self.conv2, self.norm2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
            self.relu, self.down = nn.ReLU(), None
            if stride > 1 or a != b:
                self.down = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

        def forward(self, x):
            h = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
            return self.relu(h + (x if self.down is None else self.down(x)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0])
            self.relu, self.pool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
            layers, last = [], widths[0]
            for i, width in enumerate(widths):
                for j in range(blocks):
                    layers.append(Block(last, width, 2 if i and not j else 1))
                    last = width
            self.layers = nn.Sequential(*layers)
            self.average, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(last, classes)

        def forward(self, x):
            x = self.layers(self.pool(self.relu(self.norm(self.conv(x)))))
            return self.head(self.average(x).flatten(1))

    return ResNet()


def pictures(batch, *shape, classes=10):
    """Random inputs and labels."""
    rng = np.random.RandomState(0)
    return rng.randn(batch, *shape).astype(np.float32), rng.randint(0, classes, batch)


def sentences(batch, length, words=256):
    """Random tokens, and the token after each as its label."""
    text = np.random.RandomState(0).randint(0, words, (batch, length + 1))
    return text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()


class Program(NamedTuple):
    """A training step to measure: its model with options, and its data; the same small, to see that it runs."""

    title: str
    model: str
    options: dict
    data: tuple
    small_options: dict
    small_data: tuple

    def sized(self, quick):
        """(options, (x, y)); the data is made here."""
        options, data = (self.small_options, self.small_data) if quick else (self.options, self.data)
        return options, globals()[data[0]](*data[1:]) if data else ()


_SMALL_GPT = {"layers": 1, "width": 8, "heads": 2, "length": 5, "words": 7}
PROGRAMS = {
    "mlp": Program("MLP 784-512-512-10, batch 128", "mlp", {}, ("pictures", 128, 784),
                   {"sizes": (6, 5, 10)}, ("pictures", 3, 6)),
    "cnn": Program("CNN 3-32-64, batch 32 at 32x32", "cnn", {}, ("pictures", 32, 3, 32, 32),
                   {"channels": (2, 3, 4), "side": 8}, ("pictures", 2, 2, 8, 8)),
    "gpt": Program("GPT 2 x 128, batch 8 x 128", "gpt", {}, ("sentences", 8, 128),
                   _SMALL_GPT, ("sentences", 2, 5, 7)),
    "lstm": Program("LSTM 64-128, batch 32 x 32", "lstm", {}, ("pictures", 32, 32, 64),
                    {"sizes": (3, 4, 10)}, ("pictures", 2, 5, 3)),
    "resnet18": Program("ResNet-18, batch 8 at 64x64", "resnet18", {}, ("pictures", 8, 3, 64, 64),
                        {"widths": (3, 4), "blocks": 1}, ("pictures", 2, 3, 16, 16)),
    "small": Program("MLP 64-64-64-10, batch 32", "mlp", {"sizes": (64, 64, 64, 10)}, ("pictures", 32, 64),
                     {"sizes": (6, 5, 10)}, ("pictures", 3, 6)),
    "adam": Program("Adam alone, 150 x 64x64", "parameters_alone", {}, (),
                    {"count": 5, "shape": (3, 4)}, ()),
}  # fmt: skip


def start(lib, model, x, y, state=None, device=None, low=None, scaled=False):
    """(step, arguments): one training step with Adam; ``state`` gives every parameter and buffer as numpy.

    ``low``: the name of the dtype for autocast, if it is on. ``scaled``: whether a ``GradScaler`` takes part.
    """
    if state is not None:
        model.load_state_dict({k: lib.from_numpy(v.copy()) for k, v in state.items()})
    if device is not None:
        model.to(device)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    loss_of = lib.nn.CrossEntropyLoss()
    kind = device or "cpu"
    scaler = lib.amp.GradScaler(kind, init_scale=256.0, enabled=scaled)

    def forward(x, y):
        if low is None:
            return loss_of(model(x), y)
        with lib.autocast(kind, dtype=getattr(lib, low)):
            return loss_of(model(x), y)

    def step(x, y):
        optimizer.zero_grad()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        return loss

    def scaled_step(x, y):
        optimizer.zero_grad()
        loss = forward(x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    step = scaled_step if scaled else step
    step.written = list(model.parameters())  # what is ready after the loss is, where operators run one by one
    arguments = lib.tensor(x), lib.tensor(y)  # of its own: what numpy may write to is compared at each read
    return step, tuple(a if device is None else a.to(device) for a in arguments)


def parameters_alone(lib, count=150, shape=(64, 64), device=None):
    """(step, arguments): an Adam step of many parameters, whose gradients stay."""
    rng = np.random.RandomState(0)

    def some():
        arrays = [lib.from_numpy(rng.randn(*shape).astype(np.float32)) for _ in range(count)]
        return [a if device is None else a.to(device) for a in arrays]

    params = [lib.nn.Parameter(a) for a in some()]
    for p, g in zip(params, some(), strict=True):
        p.grad = g
    optimizer = lib.optim.Adam(params, lr=1e-3)

    def step():
        optimizer.step()
        return params[0]

    step.written = params
    return step, ()
