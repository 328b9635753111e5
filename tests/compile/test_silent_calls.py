"""As test_silent: arguments, modes, nesting and threads."""

import collections
import dataclasses
import gc
import threading
import weakref

import jax
import numpy as np
import pytest
import torch as pytorch
from compile_kit import data, numbers, same

import torchlike as torch
from torchlike import nn
from torchlike._transforms.capture.recording import Unsupported
from torchlike._transforms.interpreter.native import Net

F = nn.functional


# -- arguments ---------------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    scale: float = 1.0


def test_structures_as_arguments_and_results():
    def make():
        f = lambda p, d, *rest, k: Pair(p.a * d["x"] + sum(rest), [p.b, {"k": k, "none": None}])  # noqa: E731
        g = lambda i: f(Pair(data(i, 2), data(i, 3)), {"x": data(i, 2)}, 1, data(i, 1), k=data(i, 2))  # noqa: E731
        return f, g, None

    f, _, _ = make()
    run = torch.compile(f, fullgraph=True)
    for i in range(3):
        args = Pair(data(i, 2), data(i, 3)), {"x": data(i, 2)}, 1, data(i, 1)
        a, b = f(*args, k=data(i, 2)), run(*args, k=data(i, 2))
        assert type(b) is Pair
        same(numbers(a), numbers(b))
    assert run.count == 1


def test_dataclasses_as_arguments():
    """Tensors in objects that are no containers are read anew."""
    f = lambda batch: batch.x * batch.scale  # noqa: E731
    run = torch.compile(f)
    batch = Batch(torch.ones(2))
    outs = []
    for x, scale in ((1.0, 1.0), (2.0, 1.0), (2.0, 3.0)):
        batch.x, batch.scale = torch.full((2,), x), scale
        outs.append(run(batch).tolist())
    assert outs == [[1, 1], [2, 2], [6, 6]]
    assert run(Batch(torch.full((2,), 7.0))).tolist() == [7, 7]


def test_a_dataclass_as_result():
    run = torch.compile(lambda x: Batch(x * 2, 3.0))
    for i in range(4):
        out = run(torch.full((1,), float(i)))
        assert out.x.item() == 2 * i and out.scale == 3.0
    assert run.count == 1


def test_numbers_and_flags_as_arguments():
    f = torch.compile(lambda x, n, flag: x * n if flag else x, fullgraph=True)
    for n, flag in ((1, True), (1.0, True), (True, True), (2, False), (1, True)):
        out = f(torch.ones(1, dtype=torch.int32), n, flag)
        expected = torch.ones(1, dtype=torch.int32) * n if flag else torch.ones(1, dtype=torch.int32)
        assert out.dtype is expected.dtype and out.item() == expected.item()


# -- modes, nesting, threads -------------------------------------------------------------------------------


def test_inference_mode_and_no_grad_outside():
    w = torch.ones(2, requires_grad=True)
    f = torch.compile(lambda x: w * x, fullgraph=True)
    x = torch.ones(2)
    assert f(x).requires_grad
    with torch.no_grad():
        assert not f(x).requires_grad
    with torch.inference_mode():
        out = f(x)
        assert out.is_inference() and not out.requires_grad
    assert f(x).requires_grad and not f(x).is_inference()


def test_nested_compiled_functions():
    inner = torch.compile(lambda x: x.sin() * 2)
    outer = torch.compile(lambda x: inner(x) + 1, fullgraph=True)
    x = data(0, 3)
    same(numbers(outer(x)), numbers(x.sin() * 2 + 1))
    same(numbers(inner(x)), numbers(x.sin() * 2))


def test_within_jax_jit():
    f = torch.compile(lambda x: x * 2)

    @jax.jit
    def run(a):
        return f(torch.as_tensor(a)).sum()._storage.value

    assert float(run(np.ones(3, np.float32))) == 6
    assert f(torch.ones(3)).tolist() == [2, 2, 2]


def test_threads():
    w = torch.ones(4)
    f = torch.compile(lambda x: (x * w).sum(), fullgraph=True)
    found = {}

    def work(i):
        found[i] = [f(torch.full((4 + 0,), float(i))).item() for _ in range(5)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {i: [4.0 * i] * 5 for i in range(4)}


def test_an_exception_after_the_first_call_leaves_a_working_function():
    w = torch.ones(2, requires_grad=True)

    def f(x):
        if x.shape[0] == 3:
            raise KeyError("three")
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    run = torch.compile(f, fullgraph=False)
    assert run(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(KeyError, match="three"):
        run(torch.ones(3))
    assert run(torch.full((2,), 2.0)).tolist() == [2, 2]


def test_hooks_registered_inside_on_outer_tensors():
    """Each call registers one more hook, as in eager code."""

    def run_all(wrap):
        w = torch.ones(1, requires_grad=True)

        def f():
            w.register_hook(lambda g: g * 2)
            return (w * 1).sum()

        run = wrap(f)
        outs = []
        for _ in range(3):
            w.grad = None
            run().backward()
            outs.append(w.grad.item())
        return outs

    assert run_all(torch.compile) == run_all(lambda f: f)


def test_hooks_after_a_failed_trace_that_something_keeps_alive():
    """The sink that a trace made for a leaf is not the leaf's afterwards."""
    w, kept = torch.ones(1, requires_grad=True), []

    def f():
        w.register_hook(lambda g: g * 2)
        out = (w * 1).sum()
        kept.append(out.grad_fn)
        return out

    run = torch.compile(f)
    for expected in (2.0, 4.0, 8.0):
        w.grad = None
        run().backward()
        assert w.grad.item() == expected


VIEWS = {
    "transposed": lambda t: t.arange(6.0).reshape(2, 3).t(),
    "every other": lambda t: t.arange(12.0).reshape(2, 6)[:, ::2],
    "a row": lambda t: t.arange(12.0).reshape(2, 6)[1:],
    "transposed part": lambda t: t.arange(24.0).reshape(2, 3, 4)[1].t(),
    "expanded": lambda t: t.arange(3.0).expand(4, 3),
}


@pytest.mark.parametrize("name", VIEWS)
def test_arguments_that_are_views(name):
    """The function sees their strides, and what it returns of them is a view of their memory."""

    def f(x):
        flat = x.view(-1) if x.is_contiguous() else x.reshape(-1)
        return x.stride(), flat, x * 1, x[1:], x.t()

    def shown(found):
        return [(a.tolist(), a.stride(), a.storage_offset()) if hasattr(a, "stride") else a for a in found]

    run = torch.compile(f)
    for _ in range(2):
        assert shown(run(VIEWS[name](torch))) == shown(f(VIEWS[name](pytorch)))
    x, y = VIEWS[name](torch), VIEWS[name](pytorch)
    if name != "expanded":
        run(x)[3].add_(1)
        f(y)[3].add_(1)
    assert x.tolist() == y.tolist()


def test_the_meta_device():
    run = torch.compile(lambda x: x * 2 + 1)
    assert run(torch.empty(3, device="meta")).is_meta and run(torch.ones(3)).tolist() == [3.0] * 3


RESULTS = {
    "reshape": lambda x: x.view(-1),
    "row": lambda x: x[0],
    "with a value": lambda x: (x.t(), x * 2)[0],
    "of a view": lambda x: x.view(4)[1:].view(3, 1),
    "one of several": lambda x: x.unbind(0)[0],
    "strided": lambda x: x.as_strided((2,), (2,)),
    "without grad": torch.no_grad()(lambda x: x.view(-1)),
}


@pytest.mark.parametrize("of_a_view", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results_that_are_views_of_an_argument_are_changed_in_place(name, of_a_view):
    def story(function):
        x = torch.arange(4.0).view(2, 2).requires_grad_()
        y = (x * 3).view(4)[0:4].view(2, 2) if of_a_view else x * 3
        seen = []
        for _ in range(3):
            part = function(y)
            seen.append(part._base is (y._base if of_a_view else y))
            try:
                part.mul_(2)
            except RuntimeError as error:
                seen.append(str(error).replace("CompiledFunction", "Unbind"))
        (y * y).sum().backward()
        return seen, y.tolist(), x.grad.tolist()

    # what lies around a view is not in the program
    whole = not (of_a_view and name == "strided")
    assert story(torch.compile(RESULTS[name], fullgraph=whole)) == story(RESULTS[name])


def test_the_collector_may_call_python_code_while_a_function_is_captured():
    calls, threshold, model = [], gc.get_threshold(), nn.Linear(3, 2)

    def tell(phase, info):
        calls.append(phase)

    class Cycle:
        def __del__(self):
            calls.append("deleted")

    def step(x):
        return model(x).sum()

    cycle = Cycle()
    cycle.me = cycle
    del cycle
    gc.callbacks.append(tell)
    try:
        gc.set_threshold(5)
        got = torch.compile(step, fullgraph=True)(torch.ones(2, 3))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(tell)
    assert {"start", "stop", "deleted"} <= {*calls} and torch.equal(got, step(torch.ones(2, 3)))


def test_finalizers_that_run_meanwhile_do_not_end_the_capture():
    class Thing:
        pass

    finalized, things = [], [Thing()]
    weakref.finalize(things[0], lambda: finalized.append(1))
    Net().call(things.clear, (), {})  # which drops the last reference
    assert finalized == [1]


def counting(ended):
    try:
        yield from (0, 1, 2)
    finally:
        ended.append(1)
        (lambda: ended.append(2))()


def test_generators_that_are_deleted_meanwhile_do_not_end_the_capture():
    ended, net = [], Net()
    things = [counting(ended), counting(ended), (i for i in range(3)), (i for i in range(3))]
    assert [next(g) for g in things[::2]] == [0, 0]
    net.call(things.clear, (), {})
    assert net.missed is None and ended == [1, 2]


@pytest.mark.parametrize(("started", "call"), [
    (False, lambda g: (next, g)), (False, lambda g: (list, g)), (True, lambda g: (next, g)),
    (True, lambda g: (list, g)), (True, lambda g: (g.close,)), (True, lambda g: (g.throw, KeyError())),
])  # fmt: skip
def test_generators_that_are_resumed_end_the_capture(started, call):
    ended = []
    g = counting(ended)
    if started:
        next(g)
    function, *args = call(g)
    with pytest.raises(Unsupported, match="has counting .*called by a function that cannot be looked into"):
        Net().call(function, args, {})


@pytest.mark.parametrize("kind", ["a function", "a method"])
def test_callbacks_of_weak_references_do_not_end_the_capture(kind):
    class Thing:
        def told(self, reference):
            dead.append(reference)

    dead, things, listener = [], [Thing()], Thing()
    reference = weakref.ref(things[0], listener.told if kind == "a method" else lambda r: dead.append(r))
    Net().call(things.clear, (), {})
    assert dead == [reference]
