"""Sums, counts and products of many 16-bit floats at one place: rounded once, where one by one they stop growing."""

import numpy as np
import pytest
import torch

import torchlike

N = 1000
ROWS = (np.random.RandomState(0).rand(N, 4) + 0.5).astype(np.float32)


def near_one(x):
    return (x - 1) * 0.01 + 1


def grad(t, f, x, shape=(1, 4)):
    w = t.ones(*shape, dtype=x.dtype, requires_grad=True)
    return t.autograd.grad(f(w), w, x)[0]


def place(t):
    return t.zeros(N, dtype=t.int64)


def places(t):
    return place(t)[:, None].expand(N, 4)


def start(t, x, value=0.0):
    return t.full((1, 4), value, dtype=x.dtype)


F = {
    "index_add": lambda t, x: start(t, x).index_add(0, place(t), x, alpha=0.5),
    "index_put": lambda t, x: start(t, x).index_put((place(t),), x, accumulate=True),
    "put": lambda t, x: start(t, x).put(place(t), x[:, 0], accumulate=True),
    "scatter_add": lambda t, x: start(t, x).scatter_add(0, places(t), x),
    "scatter": lambda t, x: start(t, x).scatter(0, places(t), x, reduce="add"),
    "scatter_reduce sum": lambda t, x: start(t, x).scatter_reduce(0, places(t), x, "sum"),
    "scatter_reduce mean": lambda t, x: start(t, x).scatter_reduce(0, places(t), x, "mean", include_self=False),
    "scatter_reduce prod": lambda t, x: start(t, x, 1.0).scatter_reduce(0, places(t), near_one(x), "prod"),
    "index_reduce mean": lambda t, x: start(t, x).index_reduce(0, place(t), x, "mean"),
    "index_reduce prod": lambda t, x: start(t, x, 1.0).index_reduce(0, place(t), near_one(x), "prod"),
    "segment sum": lambda t, x: t.segment_reduce(x, "sum", lengths=t.tensor([N])),
    "segment mean": lambda t, x: t.segment_reduce(x, "mean", lengths=t.tensor([N])),
    "logcumsumexp": lambda t, x: x.logcumsumexp(0),
    "backward of scatter_reduce mean": lambda t, x: t.autograd.grad(
        start(t, x).scatter_reduce(0, places(t), y := x.clone().requires_grad_(), "mean").sum(), y)[0],
    "backward of x[i]": lambda t, x: grad(t, lambda w: w[place(t)], x),
    "backward of gather": lambda t, x: grad(t, lambda w: w.gather(0, places(t)), x),
    "backward of take_along_dim": lambda t, x: grad(t, lambda w: t.take_along_dim(w, places(t), 0), x),
    "backward of index_select": lambda t, x: grad(t, lambda w: w.index_select(0, place(t)), x),
    "backward of as_strided": lambda t, x: grad(t, lambda w: w.as_strided((N, 4), (0, 1)), x),
    "backward of embedding": lambda t, x: grad(t, lambda w: t.nn.functional.embedding(place(t), w), x),
    "backward of embedding by frequency": lambda t, x: grad(
        t, lambda w: t.nn.functional.embedding(place(t), w, scale_grad_by_freq=True), x),
    "backward of cumprod": lambda t, x: t.autograd.grad(
        (y := near_one(x).requires_grad_()).cumprod(0), y, t.ones_like(x))[0],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's, of what is deprecated or new
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", F)
def test_one_rounding(name, dtype):
    short = torchlike.tensor(ROWS.tolist(), dtype=getattr(torchlike, dtype))
    ours = F[name](torchlike, short)
    assert ours.dtype == short.dtype
    exact = F[name](torch, torch.tensor(short.double().tolist(), dtype=torch.float64)).numpy()
    eps = torch.finfo(getattr(torch, dtype)).eps
    inner = 12 if "prod" in name else 1  # the factors themselves are rounded
    np.testing.assert_allclose(ours.double().numpy(), exact, rtol=inner * N**0.5 * eps if inner > 1 else 1.5 * eps,
                               atol=eps * 1e-3)  # fmt: skip
