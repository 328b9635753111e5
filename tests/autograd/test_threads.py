"""Threads: independent graphs, Hogwild on shared leaves, shared graphs, and thread-local modes."""

import sys
import threading
from collections.abc import Callable

import pytest
from both import agree

import torchlike as torch

FREED = "backward through the graph a second time"


def in_threads(n: int, body: Callable) -> list:
    """Run ``body(i)`` in ``n`` threads that start together; the exceptions they raised."""
    barrier, errors = threading.Barrier(n), []

    def run(i):
        barrier.wait()
        try:
            body(i)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return errors


def test_independent_graphs():
    results = {}

    def body(i):
        x = torch.full((3,), float(i), dtype=torch.float64, requires_grad=True)
        for _ in range(20):
            x.grad = None
            (x.exp() * x).sum().backward()
        results[i] = x.grad

    assert not in_threads(8, body)
    for i, grad in results.items():
        x = torch.full((3,), float(i), dtype=torch.float64)
        assert torch.allclose(grad, x.exp() * (x + 1))


def test_hogwild_loses_no_addend():
    """Every gradient arrives in the shared leaf's .grad: PyTorch does not promise that."""
    w = torch.zeros(4, dtype=torch.float64, requires_grad=True)

    def body(i):
        for _ in range(25):
            (w * float(i + 1)).sum().backward()

    assert not in_threads(8, body)
    assert w.grad.tolist() == [25.0 * sum(range(1, 9))] * 4


def test_hogwild_with_updates_in_place():
    """A leaf that other threads change meanwhile, which no saved tensor depends on: no crash, no error."""
    w = torch.ones(4, requires_grad=True)

    def body(i):
        for _ in range(25):
            (w * 2.0).sum().backward()
            with torch.no_grad():
                w.add_(0.001)

    assert not in_threads(4, body)
    assert torch.isfinite(w).all()
    assert w.grad.tolist() == [200.0] * 4


def test_retained_grad_loses_no_addend():
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    y = x * 1.0
    y.retain_grad()
    assert not in_threads(8, lambda i: [(y * 1.0).sum().backward(retain_graph=True) for _ in range(10)])
    assert y.grad.tolist() == [80.0, 80.0]


def test_a_shared_graph_that_is_retained():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = (x.sin() * x).sum()
    assert not in_threads(8, lambda i: [y.backward(retain_graph=True) for _ in range(10)])
    assert torch.allclose(x.grad, 80 * (x.cos() * x + x.sin()).detach())


def sines(x):
    for _ in range(10):
        x = x.sin() * x
    return x.sum()


@pytest.mark.parametrize("repeat", range(5))
def test_a_shared_graph_that_is_freed(repeat):
    """A thread wins or gets the documented error; no gradient is ever half of one."""
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    root, results = sines(x), []
    errors = in_threads(4, lambda i: results.append(torch.autograd.grad(root, x)[0]))
    assert len(results) + len(errors) == 4
    assert all(isinstance(e, RuntimeError) and FREED in str(e) for e in errors), errors
    expected = torch.autograd.grad(sines(x), x)[0]
    assert all(torch.equal(r, expected) for r in results)


def test_a_common_trunk_with_heads_of_their_own():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    trunk = (x * 3.0).exp()
    assert not in_threads(6, lambda i: (trunk * float(i)).sum().backward(retain_graph=True))
    assert torch.allclose(x.grad, 15 * 3 * (3 * x.detach()).exp())


def test_modes_are_of_a_thread():
    def script(t):
        seen = []

        def look():
            records = (t.ones(1, requires_grad=True) * 2).requires_grad
            seen.append((t.is_grad_enabled(), t.is_inference_mode_enabled(), records))

        with t.no_grad(), t.inference_mode():
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        return seen

    agree(script)


def test_saved_tensor_hooks_are_of_a_thread():
    def script(t):
        packed = []
        x = t.ones(2, requires_grad=True)
        with t.autograd.graph.saved_tensors_hooks(lambda s: packed.append(1) or s, lambda s: s):
            thread = threading.Thread(target=lambda: x * x)
            thread.start()
            thread.join()
            inside = len(packed)
            x * x
        return inside, len(packed)

    agree(script)


def test_backward_in_a_thread_runs_hooks_there():
    names = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: names.append(threading.current_thread().name))
    thread = threading.Thread(target=lambda: y.sum().backward(), name="worker")
    thread.start()
    thread.join()
    assert names == ["worker"]


def test_hooks_registered_while_others_run():
    x = torch.ones(2, requires_grad=True)
    y = x * 2

    def body(i):
        for _ in range(20):
            with y.register_hook(lambda g: None):
                y.sum().backward(retain_graph=True)

    assert not in_threads(4, body)
    assert x.grad.tolist() == [160.0, 160.0]


def test_first_calls_of_an_operator_in_many_threads():
    """Fronts and kernels that several threads make at once."""
    x = torch.linspace(0.1, 0.9, 7)
    results = [None] * 8

    def body(i):
        results[i] = torch.special.i1e(x) + torch.special.log_ndtr(x)

    assert not in_threads(8, body)
    assert all(torch.equal(r, results[0]) for r in results)


def test_training_in_threads():
    """A model per thread; the losses are those of a single thread."""

    def train(seed):
        generator = torch.Generator().manual_seed(seed)
        x, y = torch.randn(16, 4, generator=generator), torch.randn(16, 1, generator=generator)
        w = torch.randn(4, 1, generator=generator).requires_grad_()
        optimizer = torch.optim.SGD([w], lr=0.05)
        for _ in range(10):
            optimizer.zero_grad()
            loss = ((x @ w - y) ** 2).mean()
            loss.backward()
            optimizer.step()
        return loss.item()

    alone = [train(i) for i in range(4)]
    together = [None] * 4
    assert not in_threads(4, lambda i: together.__setitem__(i, train(i)))
    assert together == pytest.approx(alone)


def test_threads_that_use_a_leaf_for_the_first_time_share_its_sink():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(200):
            leaf, products = torch.ones(2, requires_grad=True), []
            assert not in_threads(3, lambda i, leaf=leaf, products=products: products.append(leaf * 2))
            assert len({id(p.grad_fn.next_functions[0][0]) for p in products}) == 1
    finally:
        sys.setswitchinterval(interval)
