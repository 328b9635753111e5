"""Numbers that change from call to call: one more program at the first change, none after that."""

import math
import types

import pytest
from compile_kit import numbers, same
from guard_kit import x2

import torchlike as torch
from torchlike import nn


class Slots:
    __slots__ = ("n",)


def of_an_optimizer():
    opt = torch.optim.SGD([nn.Parameter(x2())], lr=0.1)
    return lambda x: x * opt.param_groups[0]["lr"], lambda n: opt.param_groups[0].update(lr=n)


def of_a_module():
    model = nn.Linear(2, 2)
    model.scale = 0.5
    return lambda x: model(x) / model.scale - model.scale, lambda n: setattr(model, "scale", n)


def of_a_list():
    held = [0.5]
    return lambda x: held[0] - x, lambda n: held.__setitem__(0, n)


def of_a_cell():
    n = 0.5

    def change(value):
        nonlocal n
        n = value

    return lambda x: n / (x + 2), change


def of_a_slot():
    x = Slots()
    x.n = 0.5
    return lambda t: t * x.n, lambda n: setattr(x, "n", n)


def arithmetic():
    held = types.SimpleNamespace(n=0.5)

    def f(x):
        warm = min(1.0, held.n / 4)
        y = x.clone()
        y -= warm * x
        y.add_(x, alpha=-held.n)
        return y * math.cos(held.n) + float(held.n) ** 2 * torch.add(x, x, alpha=held.n) + x.double() * -held.n

    return f, lambda n: setattr(held, "n", n)


def written_by_hand():
    w, held = nn.Parameter(x2()), {"lr": 0.5}

    def step(x):
        w.grad = None
        loss = (w * x - 1).square().sum()
        loss.backward()
        with torch.no_grad():
            w.add_(w.grad, alpha=-held["lr"] * 0.01)
            w.sub_(held["lr"] * 0.01 * w.grad)
        return loss, w.clone()

    return step, lambda n: held.update(lr=n)


CASES = [of_an_optimizer, of_a_module, of_a_list, of_a_cell, of_a_slot, arithmetic, written_by_hand]


def run(make, wrap, values):
    torch.manual_seed(0)
    f, change = make()
    f, found = wrap(f), []
    for n in values:
        change(n)
        found.append(numbers(f(x2(1.5))))
    return found, f


@pytest.mark.parametrize("make", CASES)
def test_a_number_costs_one_more_program(make):
    values = [0.5, 0.75, 1.5, -0.0, 2.25, 1e30, float("nan"), 0.1, 0.5]
    values = values[:5] if make in (written_by_hand, arithmetic) else values
    found, f = run(make, lambda f: torch.compile(f, fullgraph=True), values)
    same(run(make, lambda f: f, values)[0], found)
    assert f.count == 2


def test_whole_numbers():
    held = [0]
    f = torch.compile(lambda x: x * held[0] + (1 if held[0] > 3 else 0), fullgraph=True)
    for n in range(9):
        held[0] = n
        assert f(x2()).tolist() == [n + (n > 3)] * 2
    assert f.count == 3  # of the value, and of each outcome of the comparison


def test_a_number_that_decides_a_shape_is_a_constant():
    held = [1]
    f = torch.compile(lambda x: x.new_ones(held[0]) * x.sum())
    for n in (1, 2, 3, 2, 1):
        held[0] = n
        assert f(x2()).tolist() == [2.0] * n
    assert f.count == 3


def test_another_type_of_number():
    held = [2]
    f = torch.compile(lambda x: x.int() * held[0])
    for n in (2, 3, 2.5, 4, True, 5, 1.5):
        held[0] = n
        expected = x2().int() * n
        assert f(x2()).tolist() == expected.tolist() and f(x2()).dtype is expected.dtype


def test_a_number_in_a_container():
    held = [1.0]
    f = torch.compile(lambda x: torch.stack([x * s for s in (held[0], 2.0)]) * sum([held[0], 1.0]))
    for n in (1.0, 3.0, 4.0):
        held[0] = n
        assert f(x2()).tolist() == [[n * (n + 1)] * 2, [2 * (n + 1)] * 2]
