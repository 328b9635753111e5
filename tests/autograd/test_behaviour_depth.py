"""Behaviours of autograd in deep and wide graphs, destructors and threads."""

import gc
import threading

import pytest
from both import attempt
from story_kit import grid, leaf, said, story


def deep(t, f, depth=20000):
    x = leaf(t, 1)
    y = x
    for _ in range(depth):
        y = f(y)
    return x, y


@story
def test_a_deep_graph_is_freed(t):
    x, y = deep(t, lambda v: v + 0.0001)
    del y
    return x.grad


@pytest.mark.once
@story
def test_a_deep_graph_runs(t):
    x, y = deep(t, lambda v: v + v * 0.0001)
    y.sum().backward()
    return x.grad


@story
def test_a_deep_graph_of_two_leaves_is_freed(t):
    a, b = leaf(t, 1), leaf(t, 2)
    x, y = a, b
    for _ in range(10000):
        x, y = (x + y) / 2, (x - y) / 2
    del x
    return a.grad


@story
def test_a_deep_graph_of_custom_functions_is_freed(t):
    class Id(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    x, y = deep(t, Id.apply, 3000)
    y.sum().backward()
    x2, y2 = deep(t, Id.apply, 3000)
    del y2
    return x.grad


@story
def test_a_deep_graph_of_changes_in_place(t):
    x = leaf(t, 1)
    y = x * 1
    for _ in range(5000):
        y.add_(0.001)
    y.sum().backward()
    z = x * 1
    for _ in range(100):
        z[0:1].mul_(1.001)
    z.sum().backward()
    return x.grad, y


@story
def test_a_deep_graph_kept_by_metadata(t):
    x, y = deep(t, lambda v: v + 0.0001, 5000)
    y.grad_fn.metadata["self"] = y
    del y
    gc.collect()
    return x.grad


@story
def test_a_wide_graph(t):
    x = leaf(t, 1)
    t.stack([x * i for i in range(100)]).sum().backward()
    return x.grad


@story
def test_a_ladder_visits_each_node_once(t):
    x = leaf(t, 1)
    y = x
    for _ in range(60):
        y = y / 2 + y / 2
    y.sum().backward()
    return x.grad


@story
def test_collection_in_a_backward(t):
    class Trash(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.loop = [ctx]
            return x * 2

        @staticmethod
        def backward(ctx, g):
            gc.collect()
            return g * 2

    x = leaf(t)
    Trash.apply(Trash.apply(x)).sum().backward()
    gc.collect()
    return x.grad


@story
def test_a_backward_in_a_destructor(t):
    seen = []

    class Runs:
        def __del__(self):
            v = leaf(t)
            v.sum().backward()
            seen.append(v.grad)

    class Keeps(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.runs = Runs()
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(t)
    Keeps.apply(x).sum().backward()
    gc.collect()
    return x.grad, seen


def in_threads(f, n=4):
    out = [None] * n

    def run(i):
        out[i] = attempt(lambda: f(i))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    return out


@story
def test_grad_modes_belong_to_threads(t):
    with t.no_grad():
        inside = in_threads(lambda i: t.is_grad_enabled(), 2)
    return inside, in_threads(lambda i: t.set_grad_enabled(False) and None, 1), t.is_grad_enabled()


@story
def test_threads_share_a_leaf(t):
    x = leaf(t)
    errors = in_threads(lambda i: (x * (i + 1)).sum().backward())
    return errors, x.grad


@story
def test_threads_share_a_retained_graph(t):
    x = leaf(t)
    y = (x**2).sum()
    grads = in_threads(lambda i: t.autograd.grad(y, x, retain_graph=True))
    return grads


@story
def test_a_graph_of_one_thread_run_in_another(t):
    x = leaf(t)
    y = (x.exp()).sum()
    in_threads(lambda i: y.backward(), 1)
    return x.grad, said(y.backward, "second time")


@story
def test_two_parts_of_a_retained_graph_in_two_threads(t):
    x = grid(t)
    shared = x * 2
    parts = [(shared[i] ** 2).sum() for i in range(2)]
    return in_threads(lambda i: parts[i].backward(retain_graph=True), 2), x.grad
