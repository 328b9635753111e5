"""Threads that change one tensor at once, in eager code, by optimizers and compiled: no change is lost."""

import sys
import threading

import numpy as np
import pytest

import torchlike as torch
from torchlike import nn
from torchlike._core.tensor import overwriting
from torchlike._transforms.capture.overlay import OVERLAID

TURNS = 60


@pytest.fixture(autouse=True)
def changing_threads_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*functions):
    """Runs each function ``TURNS`` times, in a thread of its own."""
    start, errors = threading.Barrier(len(functions)), []

    def body(function):
        start.wait()
        try:
            for _ in range(TURNS):
                function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(f,)) for f in functions]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not errors, errors


class Shared:
    """What the functions below change: each of them adds 1 to ``w[2]``, or takes 1 from ``p[2]``."""

    def __init__(self):
        self.w, self.p = torch.zeros(8), nn.Parameter(torch.zeros(8))
        self.part, self.place = self.w[1:5], torch.tensor([2])
        self.p.grad = torch.ones(8)

    def optimizer(self, **given):
        return torch.optim.SGD([self.p], lr=1.0, **given).step


def setitem_elsewhere(s):
    def run():
        s.w[6] = 1.0  # beside what others change
        s.w[2:3].add_(1)

    return run


WRITERS = {
    "add_": lambda s: lambda: s.w.add_(1),
    "of a view": lambda s: lambda: s.part.add_(1),
    "of detached memory": lambda s: lambda: s.w.detach()[2].add_(1),
    "of .data": lambda s: lambda: s.w.data.add_(1),
    "index_add_": lambda s: lambda: s.w.index_add_(0, s.place, torch.ones(1)),
    "setitem": setitem_elsewhere,
    "out": lambda s: lambda: torch.add(s.w, 1, out=s.w),
    "foreach": lambda s: lambda: torch._foreach_add_([s.w, torch.zeros(2)], 1.0),
    "compiled": lambda s: torch.compile(lambda: (s.w.add_(1), None)[1], fullgraph=True),
    "compiled view": lambda s: torch.compile(lambda: (s.part.add_(1), None)[1], fullgraph=True),
}
STEPS = {
    "sgd": lambda s: s.optimizer(),
    "one by one": lambda s: s.optimizer(foreach=False),
    "together": lambda s: s.optimizer(foreach=True),
    "compiled": lambda s: torch.compile(s.optimizer()),
    "by hand": lambda s: lambda: s.p.data.sub_(s.p.grad),
}


@pytest.mark.parametrize("other", ["add_", "of a view", "compiled"])
@pytest.mark.parametrize("name", WRITERS)
def test_no_change_is_lost(name, other):
    shared = Shared()
    functions = WRITERS[name](shared), WRITERS[other](shared)
    at_once(*functions)
    assert shared.w[2].item() == 2 * TURNS


@pytest.mark.once  # recorded execution has its own way
@pytest.mark.parametrize("other", ["of a view", "index_add_", "compiled"])
@pytest.mark.parametrize("name", ["of a view", "of detached memory", "index_add_", "setitem", "out"])
def test_no_change_is_lost_in_memory_that_is_overwritten(name, other, monkeypatch):
    monkeypatch.setattr(overwriting, "LEAST", 1)
    shared, read = Shared(), []

    def reader():
        held = shared.w.jax()
        read.append((held, np.array(held), shared.w.sum()))

    at_once(WRITERS[name](shared), WRITERS[other](shared), reader)
    assert shared.w[2].item() == 2 * TURNS
    assert all((held == copy).all() and total.isfinite() for held, copy, total in read)


@pytest.mark.parametrize("name", STEPS)
def test_no_step_is_lost(name):
    shared = Shared()
    at_once(STEPS[name](shared), STEPS[name](shared), STEPS["by hand"](shared))
    assert shared.p[2].item() == -3 * TURNS


@pytest.mark.parametrize("shared", [False, True], ids=["plain", "shared with numpy"])
def test_methods_of_storages_that_another_thread_has_made_plain(shared):
    w = torch.zeros(4)
    if shared:
        w.numpy()
    storage, part = w._storage, w[1:3]
    touched = OVERLAID[type(storage)]
    assert touched.kept(storage, part) == type(storage).kept(storage, part)
    assert touched.keep(storage, part, 0, None) == type(storage).keep(storage, part, 0, None)


def test_statistics_of_a_model_that_threads_share():
    model, x = nn.BatchNorm1d(2), torch.ones(4, 2)
    at_once(*[lambda: model(x)] * 3)
    assert model.num_batches_tracked.item() == 3 * TURNS


def test_parts_that_threads_fill():
    x = torch.zeros(3)

    def filler(i):
        def run():
            x[i] = x[i] + 1

        return run

    at_once(*map(filler, range(3)))
    assert x.tolist() == [TURNS] * 3
