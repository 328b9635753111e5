"""Parts of a tensor replaced by what is computed of other parts of it, in programs: XLA writes before it has read."""

import jax
import numpy as np
import pytest
from both import agree

import torchlike
from torchlike import nn
from torchlike._base import opaque
from torchlike._executor import shifted
from torchlike.interop import to_jax


def _shift(x):
    x[1:] = x[:-1] * 2
    return x


def _added(x):
    x[1:] += x[:-1] * 3
    return x


def _backwards(x):
    x[:-1] = x[1:] - 5
    return x


def _rows(t, x):
    for i in range(1, 4):
        x[i] = x[i - 1] * 0.5 + 1
    return x.view(-1)[:, None]


def _wide(t, x):
    x[:, 1:] = x[:, :-1] * 2
    return x[None]


def _chained(t, x):
    x[0] = 7
    x[2:] = x[:-2] * x[1:-1]
    x[1:] = x[:-1].clone()
    return x.unsqueeze(1)


def _scattered(t, x):
    row = x[1:7:2] + 1
    row[1:] = row[:-1] * 2
    x[1:7:2] = row
    return x


def _output(t, x):
    t.add(x[:-1].clone(), 1, out=x[1:])
    return x


CASES = {
    "another shape before": lambda t, x: _shift((x + 1).view(3, 4)),
    "another shape after": lambda t, x: _shift(x + 1)[:, None],
    "both": lambda t, x: _shift((x + 1).view(6, 2)).view(1, 12),
    "the argument": lambda t, x: _shift(x.view(3, 4)).view(12, 1),
    "added": lambda t, x: _added((x + 1).view(3, 4)),
    "backwards": lambda t, x: _backwards((x + 1).view(3, 4))[..., None],
    "rows": lambda t, x: _rows(t, (x + 1).view(4, 3)),
    "columns": lambda t, x: _wide(t, (x + 1).view(3, 4)),
    "chained": lambda t, x: _chained(t, x + 1),
    "scattered": lambda t, x: _scattered(t, x),
    "out": lambda t, x: _output(t, (x + 1).view(3, 4)),
    "functional": lambda t, x: t.slice_scatter((y := (x + 1).view(3, 4)), y[:-1] * 2, 0, 1),
    "selected": lambda t, x: t.select_scatter((y := (x + 1).view(3, 4)), y[0] * 2, 0, 1)[None],
    "copied": lambda t, x: (y := (x + 1).view(3, 4)).index_copy_(0, t.tensor([1, 2]), y[:-1] * 2),
    "placed": lambda t, x: (y := (x + 1)[:, None]).index_put_((t.arange(1, 12),), y[:-1] * 2),
}


def _calls(t, f, make, turns):
    run = torchlike.compile(f) if t is torchlike else f
    return [run(make(i)) for i in range(turns)]


@pytest.mark.parametrize("name", CASES)
def test_compiled(name):
    agree(lambda t: _calls(t, lambda x: CASES[name](t, x), lambda i: t.arange(12.0) + i, 2))


@pytest.mark.parametrize("name", CASES)
def test_call_by_call(name):
    agree(lambda t: [CASES[name](t, t.arange(12.0) + i) for i in range(5)])


@pytest.mark.parametrize("name", ["another shape before", "another shape after", "rows", "columns", "functional"])
def test_gradients(name):
    def step(t, x):
        y = CASES[name](t, x)
        (y * y).sum().backward()
        return y.detach(), x.grad

    agree(lambda t: _calls(t, lambda x: step(t, x), lambda i: (t.arange(12.0) / 4 + i).requires_grad_(), 2))


@pytest.mark.parametrize("name", CASES)
def test_what_a_user_jits(name):
    f = to_jax(lambda x: CASES[name](torchlike, x))
    x = jax.numpy.arange(12.0)
    loss = jax.grad(lambda x: (f(x).reshape(-1) ** 2).sum())
    pair = jax.numpy.stack([x, x + 1])
    for run in (f, loss, lambda x: jax.jvp(f, (x,), (x,))[1]):
        assert jax.numpy.allclose(jax.jit(run)(x), run(x))
    assert jax.numpy.allclose(jax.jit(jax.vmap(f))(pair), jax.numpy.stack([f(pair[0]), f(pair[1])]))


def test_in_a_loop():
    def f(t, x):
        y = (x + 1).view(3, 4)
        for _ in range(3):
            y = _shift(y)
            y = y.view(12, 1)
            y[1:] = y[:-1] - y[1:]
            y = y.view(3, 4)
        return y

    agree(lambda t: _calls(t, lambda x: f(t, x), lambda i: t.arange(12.0) + i, 2))


@pytest.mark.parametrize("how", ["set", "add", "multiply", "min", "max"])
def test_functions_of_jax(how):
    """XLA makes a slice of a scatter to one place."""

    def f(b):
        x = b + 1
        return getattr(x.at[1:], how)(x[:-1] * 2)[:, None]

    b = jax.numpy.arange(12.0)
    with jax.disable_jit():
        wanted = f(b)
    assert jax.jit(shifted.apart(f))(b).tolist() == wanted.tolist()


def test_what_is_not_computed_of_the_array_itself():
    def f(x, out):
        for i in range(200):
            x = x * 0.5 + 1
            out = out.at[i].set(x).at[i].add(x)
        return out.at[:3].set(out[:9].reshape(3, 3) @ out[:3])

    assert not shifted.shifted(jax.make_jaxpr(f)(1.0, jax.numpy.zeros(200)).jaxpr)


def test_positions_of_maxima_are_stored_in_a_program():
    """XLA would find each maximum anew for every element of its window."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    x = torchlike.randn(1, 1, 32, 32, requires_grad=True)

    def f(x):
        return torchlike.autograd.grad(model(x).square().sum(), x)[0]

    run, expected = torchlike.compile(f, fullgraph=True), f(x)
    np.testing.assert_allclose(run(x).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    found = jax.jit(shifted.apart(lambda x: opaque.stored(x + 1) * 2))
    text = found.lower(np.ones(3)).compile().as_text()
    assert ("conditional(" in text) == (jax.default_backend() == "cpu") and found(np.ones(3)).tolist() == [4.0] * 3


def test_a_function_of_the_user_may_have_the_name_of_a_mark():
    @jax.jit
    def stored(x, y):
        return x * y + 1

    def f(x, y):
        return stored(x, y).at[1:].set(x[:-1] * 2)

    x = jax.numpy.arange(4.0)
    assert jax.jit(shifted.apart(f))(x, x + 3).tolist() == f(x, x + 3).tolist() == [1, 0, 2, 4]
