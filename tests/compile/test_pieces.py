"""Functions that need a value while they run: compiled in pieces, with the values of eager code."""

import logging
from unittest import TestCase

import jax
import numpy as np
import pytest
from recorded_kit import is_steady, numbers

import torchlike as torch
from torchlike import nn
from torchlike._base.state import state


def both(make, *inputs, times=5):
    """Calls of a new function give the same compiled and in eager code."""
    found = []
    for wrap in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        f = wrap(make())
        found.append(numbers([f(*[x() for x in inputs]) for _ in range(times)]))
    assert jax.tree.structure(found[0]) == jax.tree.structure(found[1])
    for a, b in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def ones():
    return torch.ones(3)


def randn():
    return torch.randn(3)


def branch():
    def f(x):
        y = x * 2 + 1
        if y.sum() > 2:
            return (y - 1) * 3
        return y.neg().exp()

    return f


def two_breaks():
    def f(x):
        a = (x + 1).sum().item()
        b = (x * a).max().item()
        return x * a + b, a, b

    return f


def shape_from_values():
    def f(x):
        kept = x[x > 0]
        return kept * 2, len(kept)

    return f


def loop_until():
    def f(x):
        n = 0
        while x.norm() < 50:
            x = x * 1.7 + 0.5
            n += 1
        return x, n

    return f


def printed():
    def f(x):
        text = str((x * 2).round())
        return x + len(text)

    return f


def in_place():
    total = torch.zeros(3)

    def f(x):
        total.add_(x)
        if total.sum() > 5:
            total[0] = 0
        x.mul_(2)
        return total.clone(), x

    return f


def state_of_python():
    seen = []

    def f(x):
        seen.append(x.sum().item())
        return x * len(seen)

    return f


@pytest.mark.parametrize(
    "make", [branch, two_breaks, shape_from_values, loop_until, printed, in_place, state_of_python]
)
@pytest.mark.parametrize("inputs", [ones, randn])
def test_values(make, inputs):
    both(make, inputs)


def training():
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - x.sum()).square().mean()
        if loss.item() > 0.1:
            loss = loss * 0.5
        loss.backward()
        optimizer.step()
        return loss.detach(), [p.detach().clone() for p in model.parameters()]

    return step


def test_a_training_step():
    found = []
    for wrap in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        step = wrap(training())
        found.append([step(torch.randn(4, 3)) for _ in range(8)])
    for (a, ps), (b, qs) in zip(*found, strict=True):
        torch.testing.assert_close(a, b)
        for p, q in zip(ps, qs, strict=True):
            torch.testing.assert_close(p, q)


def test_gradients_flow_out():
    w = torch.ones(3, requires_grad=True)

    @torch.compile
    def f(x):
        y = w * x
        return y * 2 if y.sum() > 0 else y

    for i in range(4):
        w.grad = None
        f(torch.ones(3) * (i - 1.5)).sum().backward()
        assert w.grad.tolist() == [(i - 1.5) * (2 if i > 1 else 1)] * 3


def test_each_piece_is_one_program():
    run = torch.compile(two_breaks())
    for _ in range(4):
        run(torch.ones(3))
    inputs = iter([torch.ones(3) * i for i in range(5)])
    assert is_steady(lambda: run(next(inputs)))
    assert "needs the value" in run.eager


def test_execution_is_as_before():
    before = state.recorder
    run = torch.compile(branch())
    run(torch.ones(3))
    assert state.recorder is before
    with pytest.raises(KeyError):

        @torch.compile
        def fails(x):
            if x.sum().item() > 0:
                raise KeyError
            return x

        fails(torch.ones(2))
    assert state.recorder is before


def test_an_exception_leaves_what_was_done():
    total = torch.zeros(2)

    @torch.compile
    def f(x):
        total.add_(x)
        if total.sum().item() > 3:
            raise ValueError("enough")
        return total * 2

    assert f(torch.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="enough"):
        f(torch.ones(2))
    assert total.tolist() == [2.0, 2.0]


def test_the_lines_are_logged():
    with TestCase().assertLogs("torchlike.graph_breaks", logging.INFO) as logged:
        run = torch.compile(two_breaks())
        for _ in range(3):
            run(torch.ones(3))
    line = two_breaks.__code__.co_firstlineno
    for n in (2, 3):
        found = [text for text in logged.output if f"test_pieces.py:{line + n}: Python needs a value" in text]
        assert len(found) == 1, logged.output


def test_fullgraph():
    with pytest.raises(RuntimeError, match=r"(?s)if y.sum\(\) > 2.*needs the value of a tensor"):
        torch.compile(branch(), fullgraph=True)(torch.ones(3))


def test_a_compiled_function_inside():
    inner = torch.compile(lambda x: x * 2 + 1)

    @torch.compile
    def f(x):
        y = inner(x + 1)
        return inner(y) if y.sum().item() > 0 else y

    for i in range(4):
        y = (i + 1) * 2 + 1
        assert f(torch.ones(2) * i).tolist() == [y * 2 + 1.0] * 2


def test_errors_of_values_are_raised():
    table = torch.ones(4, 2)

    @torch.compile
    def f(index):
        y = nn.functional.embedding(index, table)
        return y * 2 if y.sum().item() > 0 else y

    f(torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        for _ in range(2):
            f(torch.tensor([1, 9]))


@pytest.mark.parametrize("end", ["return y", "raise ValueError"])
def test_errors_of_values_in_the_last_piece_are_raised_by_the_call(end):
    """Not by whatever is called next, and before the error of what came after."""
    scope = {}
    exec(f"def f(x, i):\n    x = x + 1 if x.sum() > 0 else x\n    y = x.gather(0, i)\n    {end}", scope)
    f = torch.compile(scope["f"])
    for _ in range(3):
        with pytest.raises(RuntimeError, match="index 5 is out of bounds"):
            f(torch.ones(3), torch.tensor([5]))
    assert torch.compile(lambda x: x * 2 if x.sum() > 0 else x)(torch.ones(2)).tolist() == [2, 2]
