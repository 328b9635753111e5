"""Third derivatives of operators whose backward reads what the forward saved, which itself depends on the inputs."""

import pytest
from both import agree

import torchlike

F, nn = torchlike.func, torchlike.nn.functional


def standardized(x, dims):
    centred = x - x.mean(dims, keepdim=True)
    return centred / ((centred * centred).mean(dims, keepdim=True) + 1e-5).sqrt()


WEIGHT = torchlike.tensor([1.5, -0.5, 0.7, 1.1], dtype=torchlike.float64)
FORMULAS = {
    "layer_norm": (lambda x: nn.layer_norm(x, (3,)), lambda x: standardized(x, -1)),
    "group_norm": (
        lambda x: nn.group_norm(x, 2, WEIGHT),
        lambda x: standardized(x.view(2, 2, 6), -1).view(2, 4, 3) * WEIGHT[:, None],
    ),
    "batch_norm": (
        lambda x: nn.batch_norm(x, None, None, WEIGHT, training=True),
        lambda x: standardized(x, (0, 2)) * WEIGHT[:, None],
    ),
    "instance_norm": (lambda x: nn.instance_norm(x), lambda x: standardized(x, -1)),
    "rms_norm": (
        lambda x: nn.rms_norm(x, (3,), eps=1e-5),
        lambda x: x / ((x * x).mean(-1, keepdim=True) + 1e-5).sqrt(),
    ),
}


@pytest.mark.parametrize("modes", ["rrr", "rrf"])
@pytest.mark.parametrize("name", FORMULAS)
def test_normalizations(name, modes):
    """As the same function from elementary operators."""
    start = torchlike.sin(torchlike.arange(24, dtype=torchlike.float64).view(2, 4, 3) * 1.7)
    step = torchlike.cos(torchlike.arange(24, dtype=torchlike.float64).view(2, 4, 3))

    def along(f, mode):
        if mode == "f":
            return lambda s: F.jvp(f, (s,), (torchlike.ones_like(s),))[1]
        return F.grad(f)

    found = []
    for function in FORMULAS[name]:

        def f(s, function=function):
            return function(start + s * step).sin().sum()

        for mode in modes:
            f = along(f, mode)
        found.append(f(torchlike.tensor(0.3, dtype=torchlike.float64)))
    assert torchlike.allclose(*found)


def _changed(change):
    """A function that changes a view of what it made."""

    def f(t, x):
        y = x * x
        change(t, y, x)
        return y * x

    return f


def _unrecorded(t, y, x):
    with t.no_grad():
        y.mul_(3.0)
        y[1:].mul_(x[:2])


CHANGED = {
    "zero": lambda t, y, x: y[1:2].zero_(),
    "power": lambda t, y, x: y[1:].pow_(3),
    "twice": lambda t, y, x: (y[1:].mul_(x[:2]), y[:2].sin_()),
    "scan": lambda t, y, x: y[1:].cumsum_(0),
    "without history": _unrecorded,
}
AROUND = {
    "gradient of a tangent": lambda F, f: F.grad(lambda x: F.jvp(f, (x,), (x.cos(),))[1].sum()),
    "of a tangent of a gradient": lambda F, f: F.grad(
        lambda x: F.jvp(F.grad(lambda v: f(v).sum()), (x,), (x,))[1].sum()
    ),
    "columns of a gradient": lambda F, f: F.jacfwd(F.jacrev(f)),
    "rows of columns": lambda F, f: F.jacrev(F.jacfwd(f)),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("change", CHANGED)
def test_changes_of_views(change, around):
    agree(lambda t: AROUND[around](t.func, lambda x: _changed(CHANGED[change])(t, x))(
        t.tensor([0.5, -0.3, 1.1], dtype=t.float64)
    ))  # fmt: skip
