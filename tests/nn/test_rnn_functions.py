"""``torch.lstm`` and its like: networks as functions of their weights, which duck types may answer."""

import pytest
from both import agree

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def numbers(t, *shape):
    n = 1
    for s in shape:
        n *= s
    return (t.arange(n, dtype=t.float64).reshape(shape) * 7 % 5 - 2) / 10


def weights(t, name, biases, layers=1, directions=1):
    rows, found = 4 * GATES[name], []
    for layer in range(layers):
        for _ in range(directions):
            width = 3 if layer == 0 else 4 * directions
            found += [numbers(t, rows, width), numbers(t, rows, 4)] + [numbers(t, rows)] * (2 * biases)
    return found


def states(t, name, n):
    hidden = numbers(t, n, 2, 4)
    return (hidden, hidden) if name == "lstm" else hidden


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(("biases", "layers", "both_ways"), [(True, 1, False), (False, 2, True)])
def test_sequences(name, biases, layers, both_ways):
    def run(t, batch_first):
        x, params = numbers(t, 2, 2, 3), weights(t, name, biases, layers, 1 + both_ways)
        hx = states(t, name, layers * (1 + both_ways))
        return getattr(t, name)(x, hx, params, biases, layers, 0.0, False, both_ways, batch_first)

    agree(lambda t: run(t, False))
    agree(lambda t: run(t, True))


@pytest.mark.parametrize("name", GATES)
def test_packed_sequences(name):
    def run(t):
        packed = t.nn.utils.rnn.pack_padded_sequence(numbers(t, 3, 2, 3), t.tensor([3, 2]))
        hx, params = states(t, name, 1), weights(t, name, True)
        return getattr(t, name)(packed.data, packed.batch_sizes, hx, params, True, 1, 0.0, False, False)

    agree(run)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("biases", [True, False])
def test_cells(name, biases):
    def run(t):
        hidden = numbers(t, 2, 4)
        hx = (hidden, hidden) if name == "lstm" else hidden
        return getattr(t, f"{name}_cell")(numbers(t, 2, 3), hx, *weights(t, name, biases))

    agree(run)


def duck(t):
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return t.overrides.resolve_name(func), len(args), sorted(kwargs or {})

    return Duck()


REST = (True, 1, 0.0, False, False, False)
DUCKS = {
    "input": lambda t, d, x, p: t.rnn_tanh(d, x, p, *REST),
    "hidden": lambda t, d, x, p: t.rnn_relu(x, d, p, *REST),
    "one of the hidden": lambda t, d, x, p: t.lstm(x, (x, d), p, *REST),
    "weights": lambda t, d, x, p: t.gru(x, x, [d], *REST),
    "batch sizes": lambda t, d, x, p: t.gru(x, d, x, p, *REST[:-1]),
    "cell": lambda t, d, x, p: t.lstm_cell(d, (x, x), x, x),
    "cell's weights": lambda t, d, x, p: t.gru_cell(x, x, d, x),
}


@pytest.mark.parametrize("code", DUCKS.values(), ids=list(DUCKS))
def test_duck_types(code):
    agree(lambda t: code(t, duck(t), t.ones(2, 3), [t.ones(3, 3)]))
