"""Numbers that change from call to call: one more program at the first change, none after that."""

import math
import types
from collections import OrderedDict, defaultdict
from typing import NamedTuple

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


BYTES, HALVES = torch.ones(3, dtype=torch.int8), torch.ones(3, dtype=torch.float16)
HELD = {
    "alpha": lambda n: torch.add(BYTES, BYTES, alpha=n),
    "of a method": lambda n: BYTES.clone().add_(BYTES, alpha=n),
    "clamp": lambda n: BYTES.clamp(-1, n),
    "clamp_max": lambda n: torch.clamp_max(BYTES, n),
    "where": lambda n: torch.where(BYTES > 0, BYTES, n),
    "where of a method": lambda n: BYTES.where(BYTES > 0, n),
    "power": lambda n: BYTES**n,
    "addcmul": lambda n: torch.addcmul(BYTES, BYTES, BYTES, value=n),
    "addmm": lambda n: torch.addmm(BYTES[None], BYTES[None, :1], BYTES[None], alpha=n),
    "index_add": lambda n: BYTES.index_add(0, torch.tensor([0]), BYTES[:1], alpha=n),
    "index_fill": lambda n: BYTES.index_fill(0, torch.tensor([0]), n),
    "scatter": lambda n: BYTES.scatter(0, torch.tensor([0]), n),
    "masked_fill": lambda n: BYTES.masked_fill(BYTES > 0, n),
    "pad": lambda n: nn.functional.pad(BYTES, (1, 1), value=n),
    "halves": lambda n: HALVES.clamp(max=n * 1000.0),
    "slope": lambda n: nn.functional.leaky_relu(HALVES, n * 1e37 if n > 9 else n * 1.0),
}


@pytest.mark.parametrize("name", HELD)
def test_numbers_that_a_dtype_does_not_hold(name):
    """A program that took a small one refuses a large one, and takes the next small one."""
    f = torch.compile(HELD[name])
    for n in (2, 3, 4):
        assert f(n).tolist() == HELD[name](n).tolist()
    for call in (HELD[name], f, f):
        with pytest.raises(RuntimeError, match="without overflow"):
            call(300)
    assert f(5).tolist() == HELD[name](5).tolist()


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


@pytest.mark.parametrize("name, more", [
    ("ExponentialLR", {"gamma": 0.9}), ("CosineAnnealingLR", {"T_max": 20}), ("StepLR", {"step_size": 3}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.9**epoch}), ("LinearLR", {"total_iters": 20}),
])  # fmt: skip
def test_a_scheduler_that_the_function_steps(name, more):
    """The rate is an input: there is few programs, none for each rate."""

    def told(wrap):
        p = nn.Parameter(x2())
        optimizer = torch.optim.SGD([p], lr=0.1)
        scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **more)

        def f(x):
            loss = (p * x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss.detach()

        run = wrap(f)
        found = [[run(x2()), optimizer.param_groups[0]["lr"], scheduler.last_epoch] for _ in range(20)]
        return run, [*found, p.detach(), scheduler.get_last_lr()]

    (_, eager), (run, found) = told(lambda f: f), told(torch.compile)
    same(numbers(eager), numbers(found))
    assert run.count <= 4 and not run.broken


def test_the_length_of_a_list_of_numbers_asks_for_none():
    state = [0.5]

    def f(x):
        state[0] += 0.25
        made = [state[0], state[0] * 2]
        return x * made[1] if made and len(made) == 2 else x

    run = torch.compile(f)
    assert [run(x2()).tolist() for _ in range(6)] == [(x2() * (1 + i / 2)).tolist() for i in range(1, 7)]
    assert run.count <= 2


class Pair(NamedTuple):
    b: object
    a: object


CONTAINERS = {
    "dict": lambda x, k: {"w": x * k, "b": x, "a": [k, x]},
    "ordered dict": lambda x, k: OrderedDict(w=x * k, b=k),
    "defaultdict": lambda x, k: defaultdict(list, w=x * k, b=[k]),
    "named tuple": lambda x, k: Pair({"w": x, "b": k}, (x * k, k)),
    "list": lambda x, k: [{"z": k}, {"w": x * k, "b": x}],
    "gradients": lambda x, k: torch.func.grad(lambda p: (p["w"] * p["b"]).sum() * k)({"w": x, "b": x * k}),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_results_keep_their_order_and_types(name):
    k = 2.0
    run = torch.compile(lambda x: CONTAINERS[name](x, k), fullgraph=True)
    for k in (2.0, 3.0, 4.0, 5.0):
        x = torch.ones(2)
        found, expected = run(x), CONTAINERS[name](x, k)
        assert type(found) is type(expected)
        same(numbers(expected), numbers(found))


def test_a_returned_container_is_the_one_that_was_given():
    box, log, given = {}, {"z": 0, "a": []}, [1]
    run = torch.compile(lambda x, g: (log["a"].append(box["k"]), x * box["k"], log, g)[1:])
    for k in (2.0, 3.0, 4.0, 5.0):
        box["k"] = k
        found = run(torch.ones(2), given)
        assert found[1] is log
        assert found[2] is given
    assert log == {"z": 0, "a": [2.0, 3.0, 4.0, 5.0]}
