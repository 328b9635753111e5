"""Graphs that are deep or wide, and backwards within backwards: made, run and dropped without recursion."""

import gc
import sys
import threading
import weakref

import pytest
from both import agree
from story_kit import leaf, said, story

import torchlike as torch

DEEP = 100_000

STEPS = {
    "add": lambda y: y + 1.0,
    "mul": lambda y: y * 1.0,
    "view": lambda y: y.view(()),
    "in place": lambda y: y.mul_(1.0),
}


def chain(step, depth):
    x = torch.ones((), requires_grad=True)
    y = x.clone()
    for _ in range(depth):
        y = step(y)
    return x, y


def test_a_hundred_thousand_steps():
    x, y = chain(STEPS["mul"], DEEP)
    first = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.item() == 1
    del y
    gc.collect()
    assert first() is None


def test_a_hundred_thousand_steps_dropped_unused():
    x, y = chain(STEPS["add"], DEEP)
    first, ends = weakref.ref(y.grad_fn), []
    y.register_hook(ends.append)
    del y
    gc.collect()
    assert first() is None and x.grad is None and not ends


@pytest.mark.parametrize("name", STEPS)
def test_deeper_than_the_stack(name):
    x, y = chain(STEPS[name], 5 * sys.getrecursionlimit())
    y.backward()
    assert x.grad.item() == 1


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 13),
    reason="CPython 3.13 ends with a fault when any chain of 5,000 objects is dropped on a stack of 256 KiB",
)
def test_dropped_in_a_thread_with_a_small_stack():
    before, done = threading.stack_size(256 * 1024), []

    def body():
        x, y = chain(STEPS["mul"], 5 * sys.getrecursionlimit())
        del y
        gc.collect()
        done.append(x.grad)

    try:
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert done == [None]


def test_every_tensor_of_the_chain_held():
    x = torch.ones((), requires_grad=True)
    held = [x]
    for _ in range(5000):
        held.append(held[-1] * 1.0)
    held[-1].backward(retain_graph=True)
    held[-2].backward()
    del held
    assert x.grad.item() == 2


def test_a_chain_of_diamonds():
    x = torch.ones((), requires_grad=True)
    y = x
    for _ in range(5000):
        y = (y + y) * 0.5
    y.backward()
    assert x.grad.item() == 1


def test_many_edges_into_one_node():
    x = torch.ones((), requires_grad=True)
    middle = x * 2.0
    total = middle
    for _ in range(5000):
        total = total + middle
    total.backward()
    assert x.grad.item() == 10_002


def test_many_leaves():
    leaves = [torch.ones((), requires_grad=True) for _ in range(3000)]
    total = leaves[0] * 1.0
    for x in leaves[1:]:
        total = total + x
    total.backward()
    assert all(x.grad.item() == 1 for x in leaves)


def test_a_deep_graph_recorded():
    x, y = chain(STEPS["mul"], 2000)
    (g,) = torch.autograd.grad(y * y, x, create_graph=True)
    g.backward()
    assert x.grad.item() == 2


def test_grad_of_a_part_of_a_deep_graph():
    x, y = chain(STEPS["mul"], 3000)
    z = y
    for _ in range(3000):
        z = z + 1.0
    assert [g.item() for g in torch.autograd.grad(z, [y, x])] == [1, 1]


# -- backwards within backwards ------------------------------------------------------------------------


def nested(t, depth, log):
    """A backward whose hook runs a backward, and so on."""
    x = t.tensor(1.0, requires_grad=True)

    def hook(g):
        if depth:
            nested(t, depth - 1, log)
        log.append(depth)

    x.register_hook(hook)
    with t.enable_grad():
        (x * 2).backward()
    assert x.grad.item() == 2


def test_backward_within_backward_a_thousand_deep():
    log = []
    nested(torch, 1000, log)
    assert log == list(range(1001))


def test_a_function_that_runs_backward_a_thousand_deep():
    class Within(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, within):
            ctx.inner, ctx.result = within
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            ctx.result.backward(g)
            return ctx.inner.grad, None

    x = torch.tensor(1.0, requires_grad=True)
    y = x * 3.0
    for _ in range(1000):
        inner, result, x = x, y, torch.tensor(1.0, requires_grad=True)
        y = Within.apply(x, (inner, result))
    y.backward()
    assert x.grad.item() == 3


@story
def test_nested_backwards_see_their_own_modes(t):
    x, w, log = leaf(t), leaf(t), []

    def hook(g):
        log.append((t.is_grad_enabled(), g.requires_grad))
        with t.enable_grad():
            (h,) = t.autograd.grad((w**3).sum(), w, create_graph=True)
        log.append((t.is_grad_enabled(), h.requires_grad))

    x.register_hook(hook)
    (x * x).sum().backward()
    t.autograd.grad((x * x).sum(), x, create_graph=True)
    return log


@story
def test_nested_backward_over_the_same_leaf(t):
    x = leaf(t)
    y = x * 2

    def hook(g):
        with t.enable_grad():
            (x * 5).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    return x.grad


@story
def test_nested_backward_over_the_same_graph(t):
    x = leaf(t)
    y = (x * x).sum()
    z = y * 1
    once = []

    def hook(g):
        if not once:
            once.append(1)
            y.backward(retain_graph=True)

    z.register_hook(hook)
    z.backward()
    return x.grad


@pytest.mark.parametrize("depth", [0, 1, 30])
def test_an_error_in_a_nested_backward(depth):
    def f(t):
        def fail(n):
            x = leaf(t)

            def hook(g):
                if not n:
                    raise ValueError("at the bottom")
                fail(n - 1)

            x.register_hook(hook)
            with t.enable_grad():
                (x * 2).sum().backward()

        error = said(lambda: fail(depth))
        x = leaf(t)
        (x * x).sum().backward()
        return error, x.grad, t.is_grad_enabled()

    agree(f)
