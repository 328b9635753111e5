"""Steady loops neither trace nor compile: what changes from step to step is a runtime value."""

from contextlib import contextmanager

import jax.monitoring
import numpy as np
import pytest

import torchlike as torch
from torchlike._executor.kernels import CALLS
from torchlike._executor.recorded import cut

TRACED = "/jax/core/compile/jaxpr_trace_duration"
COMPILED = "/jax/core/compile/backend_compile_duration"


@contextmanager
def counting():
    """A dict of how often jax traced and compiled within."""
    seen = {TRACED: 0, COMPILED: 0}

    def listener(event, duration, **attributes):
        if event in seen:
            seen[event] += 1

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)


def test_the_counter_counts():
    with counting() as seen:
        jax.jit(lambda x: x * 3 + 1)(2.0)
    assert seen[TRACED] and seen[COMPILED]


@pytest.mark.parametrize("make", [
    lambda n: torch.tensor([0.5] * n), lambda n: torch.from_numpy(np.ones((2, n))),
    lambda n: torch.as_tensor(list(range(n))), lambda n: torch.tensor(n),
    lambda n: torch.asarray(np.ones((n, 2), np.float16).T),
])  # fmt: skip
def test_numbers_from_outside_need_no_program(make):
    with counting() as seen:
        for n in range(101, 105):
            make(n)
    assert seen == {TRACED: 0, COMPILED: 0}


def x_of(*shape):
    return torch.arange(float(torch.zeros(shape).numel())).reshape(shape).clone()


def parameter(*shape):
    return x_of(*shape).requires_grad_()


def step_of_training(state, i):
    """A gradient step on a parameter, written out."""
    w, b, x = state
    y = (x @ w + b).tanh()
    loss = ((y - i * 0.1) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.01 * (i + 1) * p.grad
            p.grad = None
    return loss


def retained_and_replayed(state, i):
    (w,) = state
    y = w * (i + 0.5)
    (g,) = torch.autograd.grad((y**3).sum(), w, create_graph=True)
    return torch.autograd.grad((g * i).sum(), w)


# name: (what is made once, one step of the loop)
LOOPS = {
    "x[i]": (lambda: x_of(9, 3), lambda x, i: x[i]),
    "x[-i]": (lambda: x_of(9, 3), lambda x, i: x[-1 - i]),
    "x[i] of what requires grad": (lambda: parameter(9, 3), lambda x, i: x[i] * 2),
    "x[i][j]": (lambda: x_of(9, 9), lambda x, i: x[i][i - 9]),
    "x[i, j]": (lambda: x_of(9, 9), lambda x, i: x[i, 8 - i]),
    "x[:, i]": (lambda: x_of(3, 9), lambda x, i: x[:, i] + 0),
    "select": (lambda: x_of(3, 9), lambda x, i: x.select(1, i) + 0),
    "item by item": (lambda: x_of(9), lambda x, i: x[i].item()),
    "a window that moves": (lambda: x_of(12, 2), lambda x, i: x[i : i + 3] + 1),
    "narrow": (lambda: x_of(12, 2), lambda x, i: x.narrow(0, i, 3) + 1),
    "a window of a window": (lambda: x_of(12, 12), lambda x, i: x[i : i + 3, 9 - i : 12 - i].t() + 1),
    "assignment": (lambda: x_of(9, 3), lambda x, i: x.__setitem__(i, i * 1.5)),
    "assignment of a tensor": (lambda: x_of(9, 3), lambda x, i: x.__setitem__(i, x[i - 4])),
    "assignment to a window": (lambda: x_of(12), lambda x, i: x.__setitem__(slice(i, i + 2), i)),
    "x * number": (lambda: x_of(3), lambda x, i: x * (i + 0.25)),
    "x + int": (lambda: x_of(3), lambda x, i: x + i),
    "number - x": (lambda: x_of(3), lambda x, i: (i + 0.5) - x),
    "x / number": (lambda: parameter(3), lambda x, i: x / (i + 1.5)),
    "x ** number": (lambda: x_of(3), lambda x, i: x ** (i + 2.5)),
    "alpha": (lambda: x_of(3), lambda x, i: x.add(x, alpha=i + 2)),
    "clamp": (lambda: x_of(9), lambda x, i: x.clamp(i * 0.1, i * 0.2 + 3)),
    "full": (lambda: None, lambda _, i: torch.full((3,), i + 0.5)),
    "in place": (lambda: x_of(3, 3), lambda x, i: x.add_(i).mul_(1 + i * 0.1)),
    "in place on a view": (lambda: x_of(9, 3), lambda x, i: x[i].mul_(i)),
    "in place on a view of a view": (lambda: x_of(9, 9), lambda x, i: x.t()[i].add_(i)),
    "backward": (lambda: parameter(3), lambda x, i: (x * i).sin().sum().backward()),
    "backward through x[i]": (lambda: parameter(9, 3), lambda x, i: (x[i] * x[i]).sum().backward()),
    "backward through a window": (lambda: parameter(12), lambda x, i: (x[i : i + 2] ** 2).sum().backward()),
    "backward through in-place": (
        lambda: parameter(4),
        lambda x, i: (y := x * i, y[i % 4].mul_(i + 0.5), y.sum().backward()),
    ),
    "rows into a buffer": (
        lambda: parameter(3),
        lambda x, i: (b := torch.zeros(9, 3), b.__setitem__(i, x * i), b.sum().backward()),
    ),
    "index by a tensor": (lambda: x_of(9), lambda x, i: x[torch.tensor([i, 8 - i])]),
    "reshapes in a chain": (
        lambda: [x_of(4)],
        lambda s, i: s.__setitem__(0, s[0].view(2, 2).view(-1)) or s[0] + 1,
    ),
    "gradients of gradients": (lambda: [parameter(3)], retained_and_replayed),
    "training": (lambda: [parameter(3, 2), parameter(2), x_of(4, 3)], step_of_training),
    "iteration": (lambda: x_of(4, 2), lambda x, i: [row + i for row in x]),
    "split": (lambda: parameter(4, 2), lambda x, i: [p * i for p in x.split(2)]),
    "hooks": (lambda: parameter(2), lambda x, i: (y := x * i, y.register_hook(lambda g: g * i), y.sum().backward())),
    "python numbers out": (lambda: x_of(3), lambda x, i: (float(x.sum() * i), bool((x > i).any()), x.tolist())),
}


@pytest.mark.parametrize("name", LOOPS)
def test_steady_loops_do_not_retrace(name):
    make, step = LOOPS[name]
    state = make()
    for i in range(CALLS + 6):  # recorded execution compiles what has come back a few times, numpy runs first calls
        step(state, 1 + i % 6)
        cut()
    with counting() as seen:
        for i in range(9):
            step(state, i)
            cut()
    assert not any(seen.values()), seen
