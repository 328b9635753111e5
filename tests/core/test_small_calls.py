"""Small calls that go a shorter way: numbers that come again, views made at once, writes of a place to itself."""

import math
import random

import pytest
import torch as theirs
from both import agree

import torchlike


@pytest.mark.parametrize("number", [0.0, -0.0, 2, 2.0, True, -3, math.inf, math.nan, 2**31, -(2**63), 1j])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex64"])
def test_numbers_that_come_again(number, dtype):
    """The fifth call of an operator with a number gives what the first does, and its gradient, whatever came before."""

    def program(t):
        x = t.tensor([3, 0, 1]).to(getattr(t, dtype)).requires_grad_(dtype in ("float32", "complex64"))
        found = []
        for n in (0.0, 1, 1.0, True, number) * 5:
            y = x * n
            if y.requires_grad:
                found.append(t.autograd.grad(y.abs().sum(), x))
            found += [y, t.atan2(t.tensor(n * 1.0), t.tensor(-1.0)) if not isinstance(n, complex) else y]
        return found

    agree(program)


def item():
    kind = random.random()
    if kind < 0.35:
        return random.randint(-4, 4)
    if kind < 0.7:
        bounds = [random.choice([None, *range(-5, 6)]) for _ in range(2)]
        return slice(*bounds, random.choice([None, 1, 1, 2, 3]))
    return None if kind < 0.85 else ...


def test_views_of_several_indices():
    """Geometry, numbers, versions and what is written through views of views, at random indices."""
    random.seed(0)

    def story(t, shape, indices, grad):
        with t.set_grad_enabled(grad):
            base = t.arange(math.prod(shape), dtype=t.float32).reshape(shape)
            view = base
            try:
                for index in indices:
                    view = view[index]
            except IndexError:
                return "IndexError"
            found = [view.shape, view.stride(), view.storage_offset(), view.tolist(), view._base is base._base]
            if view.numel():
                view.fill_(-7.0)
                view[...] = 3
                view += 1
            return *found, base.tolist(), base._version, view._version

    for _ in range(200):
        shape = [random.choice([0, 1, 2, 3, 4, 4]) for _ in range(random.randint(0, 4))]
        indices = [tuple(item() for _ in range(random.randint(0, 4))) for _ in range(random.randint(1, 3))]
        if max(index.count(...) for index in indices) < 2:
            grad = random.random() < 0.5
            assert story(torchlike, shape, indices, grad) == story(theirs, shape, indices, grad), (shape, indices)


@pytest.mark.parametrize("index", [1, slice(1, 3), (slice(None), 0), (1, 2), (..., 2), [1, 2], (None, 1)])
def test_augmented_items(index):
    """``x[i] += y`` counts two changes, and is seen by whoever looks at them."""

    def program(t):
        x, w = t.ones(4, 4), t.tensor(2.0, requires_grad=True)
        views = [x.view(-1), x[1:]]
        before = x._version
        x[index] += 1
        x[index] *= 3
        changes = x._version - before
        y = w * t.ones(4, 4)
        y[index] += w
        y[index] = y[index]
        return x, changes, views, t.autograd.grad((y * x).sum(), w), y.grad_fn

    agree(program)


def test_strides_of_results_of_views():
    """Results of views lie as PyTorch's, at the first call and later."""

    def program(t):
        x = t.arange(24.0).reshape(2, 3, 4)
        views = [x, x.mT, x[:, 0], x[..., 0], x.permute(2, 0, 1), x[1:], x.expand(2, 3, 4), x[:, :1].expand(2, 3, 4)]
        return [[(-v).stride(), (v + 1).stride(), (v * v.contiguous()).stride()] for v in views * 2]

    agree(program)
