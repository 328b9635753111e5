"""Third derivatives of operators whose backward reads what the forward saved, which itself depends on the inputs."""

import pytest

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
