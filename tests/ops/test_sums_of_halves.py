"""Sums in half precision are made in float32, as PyTorch's: one rounding at the end, also in gradients."""

import functools

import numpy as np
import pytest
import torch

import torchlike

LIBRARIES = (torchlike, torch)
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
SHAPE = (24, 8, 8, 6)  # of this a sum in bfloat16 loses most


def tensor(t, dtype, *shape, seed=0):
    numbers = np.random.default_rng(seed).random(shape).astype(np.float32)
    return t.tensor(numbers).to(getattr(t, dtype))


def exact(t, f, *arguments):
    """How far ``f`` is from what it is in double precision, over the largest number."""
    found = f(*arguments).double()
    known = f(*[x.double() for x in arguments])
    return ((found - known).abs().max() / known.abs().max()).item()


SUMS = {
    "sum": lambda t, x: x.sum(),
    "over axes": lambda t, x: x.sum((0, 1, 2)),
    "over the last": lambda t, x: x.reshape(2, -1).sum(-1),
    "sum_to_size": lambda t, x: x.sum_to_size(6),
    "nansum": lambda t, x: x.nansum((0, 1, 2)),
    "mean": lambda t, x: x.mean((0, 1, 2)),
    "cumsum": lambda t, x: x.reshape(-1, 6).cumsum(0)[-1],
    "vecdot": lambda t, x: t.linalg.vecdot(x.reshape(2, -1).sqrt(), x.reshape(2, -1).sqrt() * 0 + 1),
    "einsum": lambda t, x: t.einsum("nhwc->c", x),
    "einsum with a product": lambda t, x: t.einsum("nhwc,cd->d", x, t.ones(6, 2, dtype=x.dtype)),
    "scatter_add": lambda t, x: t.zeros(2, dtype=x.dtype).scatter_add(0, t.arange(9216) % 2, x.flatten()),
    "embedding_bag": lambda t, x: t.nn.functional.embedding_bag(t.arange(1536)[None], x.reshape(-1, 6), mode="sum"),
    "trace": lambda t, x: x.reshape(96, 96).trace(),
}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", SUMS)
def test_sums(name, dtype):
    for t in LIBRARIES:
        assert exact(t, lambda x, t=t: SUMS[name](t, x), tensor(t, dtype, *SHAPE)) <= 1.01 * ROUNDING[dtype]


def grad(t, f, x, b):
    b = b.detach().requires_grad_()
    y = f(x, b)
    y.backward(tensor(t, "float32", *y.shape, seed=1).to(t.bfloat16).to(y.dtype))
    return b.grad


GRADIENTS = {
    "add": lambda t, x, b: x + b,
    "sub": lambda t, x, b: x - b,
    "expand": lambda t, x, b: b.expand(*SHAPE),
    "where": lambda t, x, b: t.where(x > 0.5, x, b),
    "lerp": lambda t, x, b: t.lerp(x, b, 0.25),
    "linear": lambda t, x, b: t.nn.functional.linear(x, t.ones(6, 6, dtype=x.dtype), b),
    "bilinear": lambda t, x, b: t.nn.functional.bilinear(x, x, t.ones(6, 6, 6, dtype=x.dtype), b),
    "conv2d": lambda t, x, b: t.nn.functional.conv2d(x.permute(0, 3, 1, 2), t.ones(6, 6, 1, 1, dtype=x.dtype), b),
    "layer_norm": lambda t, x, b: t.nn.functional.layer_norm(x, (6,), None, b),
    "repeat": lambda t, x, b: b.repeat(500),
    "gather": lambda t, x, b: b.gather(0, t.arange(3000) % 6),
    "vmap": lambda t, x, b: t.func.vmap(lambda row: row + b)(x.reshape(-1, 6)),
}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_what_is_broadcast(name, dtype):
    """PyTorch's of ``layer_norm`` are worse."""
    for t in LIBRARIES[: 1 if name == "layer_norm" else 2]:
        x, b = tensor(t, dtype, *SHAPE), tensor(t, dtype, 6, seed=2)
        how = functools.partial(grad, t, functools.partial(GRADIENTS[name], t))
        assert exact(t, how, x, b) <= 3 * ROUNDING[dtype]


def test_gradients_in_a_program():
    t = torchlike
    x, b = tensor(t, "bfloat16", *SHAPE), tensor(t, "bfloat16", 6).requires_grad_()
    t.compile(lambda: (x + b).sum(), fullgraph=True)().backward()
    assert b.grad.tolist() == [24.0 * 8 * 8] * 6


@pytest.mark.parametrize("cell", ["RNN", "LSTM", "GRU"])
def test_biases_of_recurrent_layers(cell):
    """Sums over batch and time, inside of a loop."""
    found = []
    for dtype in ("bfloat16", "float64"):
        t = torchlike
        t.manual_seed(0)
        layer = getattr(t.nn, cell)(3, 2).to(getattr(t, dtype))
        with t.no_grad():
            for p in layer.parameters():
                p.fill_(0.125)
        out = layer(tensor(t, dtype, 4, 600, 3))[0]
        out.sum().backward()
        found.append(layer.bias_ih_l0.grad.double().numpy())
    np.testing.assert_allclose(*found, rtol=0.005)
