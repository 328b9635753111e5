"""Changes of a part of a tensor in the memory of its old value: what anybody holds of that stays as it was."""

import copy
import io
import os
import signal
import threading

import jax
import numpy as np
import pytest
import torch as pytorch
from both import agree

import torchlike as torch
from torchlike._core.tensor import mutation, overwriting
from torchlike._executor import kernels
from torchlike.interop import split

pytestmark = pytest.mark.once  # recorded execution has its own way


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    monkeypatch.setattr(overwriting, "LEAST", 1)


def places(t):
    return t.tensor([1, 3, 1])


def adds(x, place):
    x[place] += 1


CHANGES = {
    "a number": lambda t, x: x.__setitem__((2, 3), 7.0),
    "a row": lambda t, x: x.__setitem__(1, t.arange(8.0)),
    "a slice": lambda t, x: x.__setitem__(slice(1, 7, 2), -2),
    "a slice of itself": lambda t, x: x.__setitem__(slice(0, 3), x[4:7]),
    "added to a row": lambda t, x: adds(x, -1),
    "added to columns": lambda t, x: adds(x, (slice(None), slice(2, 5))),
    "added at places": lambda t, x: adds(x, places(t)),
    "added to a transposed row": lambda t, x: x.t()[2].add_(1),
    "copy_": lambda t, x: x[2:4].copy_(t.ones(8)),
    "fill_": lambda t, x: x.diagonal().fill_(4),
    "zero_": lambda t, x: x[::3].zero_(),
    "out=": lambda t, x: t.sin(t.ones(8), out=x[5]),
    "at places": lambda t, x: x.__setitem__((places(t), 2), t.tensor([1.0, 2.0, 3.0])[:1]),
    "at negative places": lambda t, x: x.__setitem__(-places(t), 5.0),
    "at a mask": lambda t, x: x.__setitem__(x > 30, -1.0),
    "values at a mask": lambda t, x: x.__setitem__(x.sum(1) > 100, t.arange(8.0)),
    "index_put_": lambda t, x: x.index_put_((places(t),), t.ones(3, 8), accumulate=True),
    "index_add_": lambda t, x: x.index_add_(0, places(t), t.ones(3, 8), alpha=2),
    "index_add_ of itself": lambda t, x: x.index_add_(0, places(t), x[:3].clone()),
    "index_copy_": lambda t, x: x.index_copy_(1, places(t)[:2], t.ones(8, 2)),
    "index_fill_": lambda t, x: x.index_fill_(1, places(t), -3.0),
    "index_reduce_": lambda t, x: x.index_reduce_(0, places(t), t.full((3, 8), 5.0), "amax"),
    "scatter_": lambda t, x: x.scatter_(1, places(t)[:, None], 9.0),
    "scatter_add_": lambda t, x: x.scatter_add_(0, places(t)[None], t.ones(1, 3)),
    "scatter_reduce_": lambda t, x: x.scatter_reduce_(0, places(t)[None], t.full((1, 3), 2.0), "prod"),
    "masked_fill_": lambda t, x: x.masked_fill_(x < 9, 8),
    "masked_scatter_": lambda t, x: x.masked_scatter_(x < 3, t.arange(64.0)),
    "put_": lambda t, x: x.put_(places(t), t.ones(3), accumulate=True),
}


def changed(t, change, times=3):
    """A tensor of 64 numbers that has been changed some times before."""
    x = t.arange(64.0).reshape(8, 8).clone()
    for _ in range(times):
        change(t, x)
    return x


def address(x):
    return x._storage.value.unsafe_buffer_pointer()


@pytest.mark.parametrize("name", CHANGES)
def test_what_it_computes(name):
    agree(lambda t: changed(t, CHANGES[name]))


@pytest.fixture
def one_device(monkeypatch):
    """No shared pieces of arrays, which earlier tests of a process may have left."""
    for flag in ("SHARING", "USED"):
        monkeypatch.setattr(overwriting, flag, [])


@pytest.fixture
def immediate():
    with torch.set_execution("immediate"):
        yield


@pytest.fixture(params=[True, False], ids=["alone", "beside a thread"])
def threads(request, monkeypatch, one_device):
    """Whether there are other threads."""
    for module in (overwriting, mutation):
        monkeypatch.setattr(module, "alone", lambda: request.param)


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.usefixtures("threads")
def test_the_memory_stays(name, execution, monkeypatch):
    monkeypatch.setattr(kernels, "LARGE", 0)  # or numpy reads what is small, and XLA sees that somebody looks
    x = changed(torch, CHANGES[name])
    if execution == "immediate":
        before = address(x)
        for _ in range(3):
            CHANGES[name](torch, x)
        assert address(x) == before


def graph(t, x):
    """A gradient that reads the old value."""
    w = t.ones(8, 8, requires_grad=True)
    return w, (w * x.clone()).sum()


def gradient(kept):
    kept[1].backward()
    return kept[0].grad


def _split(x):
    module = torch.nn.Module()
    module.register_buffer("x", x)
    return split(module)[1]["x"]


def jitted(x):
    return jax.jit(lambda a: a * 1)(x.jax())


# What somebody keeps of the old value, and what they read of it afterwards: the old numbers.
KEPT = {
    "the array": (lambda x: x.jax(), np.asarray),
    "an array that shares its memory": (lambda x: jax.device_put(x.jax(), jax.devices()[0]), np.asarray),
    "a leaf of a tree": (lambda x: jax.device_put(jax.tree.leaves([x])[0], jax.devices()[0]), np.asarray),
    "a buffer of a module": (lambda x: jax.device_put(_split(x), jax.devices()[0]), np.asarray),
    "an operand of jax": (lambda x: jax.device_put(jax.numpy.asarray(x), jax.devices()[0]), np.asarray),
    "what numpy sees of the array": (lambda x: np.asarray(x.jax()), np.asarray),
    "what dlpack sees of the array": (lambda x: np.from_dlpack(x.jax()), np.asarray),
    "a memoryview": (lambda x: memoryview(x.jax()), np.asarray),
    "a result of jax": (jitted, np.asarray),
    "a tensor over the array": (lambda x: torch.from_jax_array(x.jax()), lambda t: t.numpy()),
    "a clone": (lambda x: x.clone(), lambda t: t.numpy()),
    "a deep copy": (copy.deepcopy, lambda t: t.numpy()),
    "another dtype": (lambda x: x.to(torch.float16), lambda t: t.numpy()),
    "a sum with nothing": (lambda x: x + 0, lambda t: t.numpy()),
    "a product that still runs": (lambda x: x @ torch.eye(8), lambda t: t.numpy()),
    "a contiguous copy": (lambda x: x.t().contiguous().t(), lambda t: t.numpy()),
    "a gradient": (lambda x: graph(torch, x), lambda kept: gradient(kept).numpy()),
    "a gradient that is this": (lambda x: _as_gradient(x), lambda t: t.grad.numpy()),
}


def _as_gradient(x):
    w = torch.zeros(8, 8, requires_grad=True)
    w.backward(x)
    return w


@pytest.mark.parametrize("name", ["a number", "added to a row", "at places", "index_add_", "masked_fill_"])
@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.usefixtures("threads")
def test_what_is_kept_of_the_old_value(kept, name):
    keep, read = KEPT[kept]
    x = changed(torch, CHANGES[name])
    old = np.array(x.tolist())
    held = keep(x)
    for _ in range(3):
        CHANGES[name](torch, x)
    np.testing.assert_array_equal(read(held), old)
    want = changed(torch, CHANGES[name], 6)
    assert x.tolist() == want.tolist()


# What shows the storage itself, and sees the change, as in PyTorch.
SEEING = {
    "numpy": lambda x: x.numpy(),
    "a view": lambda x: x[:5],
    "a view that was read": lambda x: (v := x[:, 1:], v.sum().item())[0],
    "a view in another shape": lambda x: x.view(-1),
    "detach": lambda x: x.detach(),
    "data": lambda x: x.data,
    "the storage": lambda x: x.untyped_storage(),
    "a state_dict": lambda x: x,
}


@pytest.mark.parametrize("name", ["a number", "added to a row", "at places", "index_add_", "masked_fill_"])
@pytest.mark.parametrize("seeing", SEEING)
@pytest.mark.usefixtures("threads")
def test_who_sees_the_change(seeing, name):
    def run(t):
        x = changed(t, CHANGES[name])
        seen = SEEING[seeing](x)
        CHANGES[name](t, x)
        CHANGES[name](t, x)
        seen = bytes(seen.tolist()).hex() if seeing == "the storage" else seen
        return x, seen.tolist() if isinstance(seen, np.ndarray) else seen, x._version

    agree(run)


def test_saved_tensors_notice():
    def run(t):
        x, w = changed(t, CHANGES["a row"]), t.ones(8, 8, requires_grad=True)
        loss = (w * x).sum()
        x[0, 0] = 3
        try:
            loss.backward()
        except RuntimeError as error:
            return "modified by an inplace operation" in str(error)

    agree(run)


def test_values_with_a_history():
    def run(t):
        x, w = changed(t, CHANGES["a row"]), t.arange(8.0, requires_grad=True)
        x[1] = w * 2
        x[1, 2] = 5.0
        y = (x * x).sum()
        y.backward()
        return x.detach(), w.grad

    agree(run)


WRONG = {
    "setitem": lambda t, x: x.__setitem__((8, 0), 1.0),
    "places": lambda t, x: x.__setitem__(t.tensor([0, 8]), 1.0),
    "index_put_": lambda t, x: x.index_put_((t.tensor([0, -9]),), t.ones(2, 8)),
    "index_add_": lambda t, x: x.index_add_(0, t.tensor([0, 8]), t.ones(2, 8)),
    "index_copy_": lambda t, x: x.index_copy_(0, t.tensor([0, 8]), t.ones(2, 8)),
    "scatter_": lambda t, x: x.scatter_(0, t.tensor([[0, 8]]), t.ones(1, 2)),
    "put_": lambda t, x: x.put_(t.tensor([0, 64]), t.ones(2)),
    "shape": lambda t, x: x.__setitem__(slice(0, 2), t.ones(3)),
    "dtype": lambda t, x: x.index_put_((t.tensor([0, 1]),), t.ones(2, 8).half()),
    "mask": lambda t, x: x.__setitem__(t.ones(7, dtype=t.bool), 1.0),
    "masked_scatter_": lambda t, x: x.masked_scatter_(t.ones(8, 8, dtype=t.bool), t.ones(3)),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("threads")
def test_a_failed_call_changes_nothing(name):
    x = changed(torch, CHANGES["at places"])
    old, version = x.tolist(), x._version
    errors = []
    for t, y in ((torch, x), (pytorch, changed(pytorch, CHANGES["at places"]))):
        try:
            WRONG[name](t, y)
        except Exception as error:
            errors.append(type(error))
    assert len(errors) == 2
    assert errors[0] is errors[1]
    assert (x.tolist(), x._version) == (old, version)
    x[0, 0] = 1.0
    assert x.tolist()[0][0] == 1


def test_beside_another_thread():
    x = changed(torch, CHANGES["a number"])
    done, read = threading.Event(), []

    def reads():
        while not done.is_set():
            read.append(x.sum().item())

    thread = threading.Thread(target=reads)
    thread.start()
    for i in range(200):
        x[2, 3] = float(i)
    done.set()
    thread.join()
    assert x[2, 3].item() == 199
    assert all(np.isfinite(read))


@pytest.mark.usefixtures("threads")
def test_signals():
    """A change that is interrupted leaves a tensor that can be read."""

    class Alarm(Exception):
        pass

    def rings(*_):
        raise Alarm

    x, before, rung = changed(torch, CHANGES["a number"]), signal.signal(signal.SIGALRM, rings), 0
    try:
        for i in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + i * 2e-6)
                for _ in range(50):
                    x[2, 3] = float(i)
                    adds(x, 4)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Alarm:
                rung += 1
            assert x[2].sum().isfinite()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert rung


@pytest.mark.usefixtures("immediate")
def test_code_that_interrupts_a_change_beside_threads_reads_the_old_value(monkeypatch, one_device):
    monkeypatch.setattr(overwriting, "alone", lambda: False)
    x, told, real = changed(torch, CHANGES["a number"]), [], overwriting.getrefcount
    old = x.tolist()

    def interrupting(value):
        if not told:
            told.append(None)
            told[0] = x.tolist()
        return real(value) - 1  # this function's own

    x[0] = 1.0
    monkeypatch.setattr(overwriting, "getrefcount", interrupting)
    x[2, 3] = 9.0
    assert [row[3] for row in told[0]][2] == 7
    assert told[0][1:] == old[1:]
    assert x.tolist()[2][3] == 9


@pytest.mark.parametrize("after", [True, False], ids=["right after", "meanwhile"])
@pytest.mark.usefixtures("immediate")
def test_a_view_reads_what_another_thread_writes(after, monkeypatch, one_device):
    monkeypatch.setattr(overwriting, "alone", lambda: False)
    x, end, told = changed(torch, CHANGES["a number"]), overwriting.Change.end, []
    part = x[1:3]

    def beside(change, storage, token):
        if after:
            end(change, storage, token)
        if not told:
            told.append(None)
            mutation.store(storage, jax.numpy.full(x.shape, 5, x.dtype.np))
        if not after:
            end(change, storage, token)

    monkeypatch.setattr(overwriting.Change, "end", beside)
    part.add_(1)
    assert told and part.tolist() == x.tolist()[1:3] == [[5] * 8] * 2


@pytest.mark.usefixtures("immediate")
def test_a_change_whose_end_was_interrupted(monkeypatch, one_device):
    monkeypatch.setattr(overwriting, "alone", lambda: False)
    x = changed(torch, CHANGES["a number"])

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(overwriting.Change, "end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            x[2, 3] = 9.0
    assert x[2, 3].item() == 9
    x[2, 3] = 8.0
    x[2, 4] = 8.0
    assert x[2].tolist() == [16, 17, 18, 8, 8, 21, 22, 23]


def test_captures_and_files():
    x = changed(torch, CHANGES["a row"])
    step = torch.compile(lambda y: (x * y).sum())
    got = []
    for i in range(4):
        x[1] = float(i)
        got.append(step(torch.ones(8, 8)).item())
    assert got == [x.sum().item() - 8 * (3 - i) for i in range(4)]
    file = io.BytesIO()
    torch.save(x, file)
    old = x.tolist()
    x[0] = 0.0
    file.seek(0)
    assert torch.load(file).tolist() == old
    new = jax.jit(lambda a: a.at[0].set(1))(x.jax())
    x[3] = 1.0
    assert np.asarray(new)[3].tolist() == old[3]


def test_functions_of_jax_trace_it():
    x = changed(torch, CHANGES["a row"])

    def f(a):
        y = torch.from_jax_array(a)
        y[0] = 1.0
        with pytest.raises(RuntimeError, match="did not make"):
            x[0] = y[1]
        return (y + x).jax()

    old = x.tolist()
    np.testing.assert_array_equal(jax.jit(f)(jax.numpy.zeros((8, 8), "float32"))[1:], np.array(old)[1:])
    x[0] = 2.0
    assert x.tolist()[1:] == old[1:]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process():
    x = changed(torch, CHANGES["a row"])
    old, (read, write) = x.tolist(), os.pipe()
    child = os.fork()
    if not child:
        try:
            x[2] = 5.0
            x[2, 1] = 6.0
            os.write(write, repr(x[2].tolist()).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 1000).decode() == repr([5.0, 6.0] + [5.0] * 6)
    os.close(read)
    assert x.tolist() == old
    x[2] = 1.0
    assert x[2].tolist() == [1] * 8
