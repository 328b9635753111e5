"""Errors, signals and threads leave nothing half-written."""

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import pytest
from recorded_kit import WARM, calls, computed

import torchlike as torch
from torchlike import nn
from torchlike._base.state import state
from torchlike._executor import recorded as executor


def test_errors_of_shapes_are_immediate(recorded):
    x = torch.ones(2) + 1
    with pytest.raises(RuntimeError, match="size"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError):
        x @ torch.ones(3, 4)
    assert not computed(x) and x.tolist() == [2.0, 2.0]


def test_a_failed_write_changes_nothing(recorded):
    x = torch.ones(2) + 1
    version = x._version
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(3))
    assert x._version == version and x.tolist() == [2.0, 2.0]


def test_an_exception_in_user_code(recorded):
    x = torch.zeros(3)
    for i in range(WARM + 3):
        with pytest.raises(KeyError):
            x += 1
            y = x * 2
            raise KeyError
        assert x.tolist() == [i + 1.0] * 3 and y.tolist() == [2 * i + 2.0] * 3


# -- value checks --------------------------------------------------------------------------------------


def test_a_new_line_is_waited_for(recorded):
    x = torch.ones(4)
    with pytest.raises(IndexError, match="out of range|out of bounds"):
        x[torch.tensor([1, 9])]


def test_later_the_line_is_named(recorded):
    table, seen = torch.ones(4, 2), []

    def look(index):
        return nn.functional.embedding(index, table)  # the line

    line = look.__code__.co_firstlineno + 1
    for _ in range(WARM):
        look(torch.tensor([0, 3])).tolist()
    y = look(torch.tensor([0, 7]))
    seen.append(y)
    with pytest.raises(IndexError, match=rf"(?s).*the call is at .*test_failures.py:{line}"):
        y.tolist()
    assert look(torch.tensor([1, 2])).tolist() == [[1.0, 1.0]] * 2


def test_the_next_trace_finds_it_too(recorded):
    table = torch.ones(4, 2)

    def step(index):
        y = nn.functional.embedding(index, table).sum()
        executor.cut()
        return y

    for _ in range(WARM):
        step(torch.tensor([0, 3]))
    step(torch.tensor([0, 7]))
    with pytest.raises(IndexError):
        step(torch.tensor([0, 1]))
    step(torch.tensor([0, 1])).item()


def test_leaving_recorded_execution_finds_it():
    table = torch.ones(4, 2)
    with torch.set_execution("immediate"), pytest.raises(IndexError), torch.set_execution("recorded"):
        for i in range(WARM + 1):
            nn.functional.embedding(torch.tensor([0, 7 if i == WARM else 1]), table)


# -- errors of a run -----------------------------------------------------------------------------------


class Broken:
    """A kernel that can be traced for shapes but not run."""

    def __init__(self):
        self.jitted, self.well = jax.jit(lambda x: x + 1), False

    def eval_shape(self, *args):
        return self.jitted.eval_shape(*args)

    def __call__(self, *args):
        if not self.well:
            raise RuntimeError("out of memory")
        return self.jitted(*args)


def test_an_error_of_a_run_names_the_line(recorded):
    x = torch.ones(2)
    good = x * 3
    bad = state.recorder.record(Broken(), [x._storage.value], "broken")  # the line
    after = good * 2
    line = sys._getframe().f_lineno - 2
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        executor.cut()
    assert any(f"broken(), recorded at {__file__}:{line}" in note for note in caught.value.__notes__)
    assert good.tolist() == [3.0, 3.0]
    for value in (bad, after._storage.value):
        with pytest.raises(RuntimeError, match="was not computed: RuntimeError: out of memory"):
            value.recorder.settle(value)
    assert (x + 1).tolist() == [2.0, 2.0]


# -- signals -------------------------------------------------------------------------------------------


FILES = ("recorded.py", "pending.py", "trie.py")


def interrupted(script, n):
    """Run ``script``, raising KeyboardInterrupt at the ``n``-th line of the executor; whether it came to that."""
    count = 0

    def local(frame, event, arg):
        nonlocal count
        if event == "line":
            count += 1
            if count == n:
                raise KeyboardInterrupt
        return local

    def tracer(frame, event, arg):
        return local if frame.f_code.co_filename.endswith(FILES) else None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        script()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("warm", [0, WARM + 1])
def test_an_interrupt_anywhere(recorded, warm):
    """After it every tensor still has its value, and the same lines go on as before."""
    w = torch.ones(40, 40)

    def step(out):
        out.append(w * 2)
        out.append(out[0] + w)
        with torch.no_grad():
            w.mul_(0.5).add_(1)
        out.append(w.sum())
        executor.cut()

    for _ in range(warm):
        step([])
    n, came = 0, True
    while came:
        n += 1 + n // 10
        start = w[0, 0].item()
        out: list = []
        came = interrupted(lambda: step(out), n)  # noqa: B023
        now = w[0, 0].item()
        assert now in (start, start * 0.5, start * 0.5 + 1), n
        expected = [start * 2, start * 3]
        assert [t[0, 0].item() for t in out[:2]] == expected[: len(out)], n
    assert n > 20


def test_calls_made_by_finalizers(recorded):
    """What the garbage collector sets off in the middle of a call is recorded before it."""
    log = torch.zeros(2)

    class Noisy:
        def __init__(self):
            self.me = self

        def __del__(self):
            log.add_(1)

    before = gc.get_threshold()
    gc.set_threshold(3)
    try:
        x = torch.ones(2)
        for n in range(1, 300):
            Noisy()
            y = x * 2 + n
            assert not n % 29 or y.tolist() == [n + 2.0] * 2
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert y.tolist() == [301.0] * 2 and log.tolist() == [299.0] * 2


# -- threads -------------------------------------------------------------------------------------------


def test_a_value_that_crosses(recorded):
    x = torch.ones(3) * 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: (x + 1).tolist()).result() == [3.0] * 3
        y = pool.submit(lambda: x * 5).result()
    assert (y + x).tolist() == [12.0] * 3


def test_a_value_of_a_thread_that_ended():
    found = []

    def work():
        state.recorder = executor.Recorder()
        found.append(torch.ones(3) * 4)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not computed(found[0])
    assert found[0].tolist() == [4.0] * 3


def test_taking_from_a_trace_that_goes_on(recorded):
    """What another thread has run is not run again, and the trace after it is right."""
    x = torch.ones(3)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(WARM + 2):
            a = x + 1
            b = a * 2
            assert pool.submit(b.tolist).result() == [4.0] * 3
            c = b + a
            assert c.tolist() == [6.0] * 3


def test_many_threads():
    torch.manual_seed(0)
    net = nn.Linear(8, 8)
    x = torch.randn(4, 8)
    expected = net(x).tolist()
    errors = []

    def work():
        try:
            with torch.set_execution("recorded"):
                shared = None
                for i in range(60):
                    y = net(x)
                    shared = y if i % 7 else y * 1
                    assert torch.allclose(shared, torch.tensor(expected)), i
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_values_handed_around_between_recording_threads():
    """Each thread adds one to what it is handed, reading nothing."""
    with torch.set_execution("recorded"):
        token = torch.zeros(2)
        with ThreadPoolExecutor(3) as pool:
            for _ in range(50):
                token = pool.submit(_plus_one, token).result()
        assert token.tolist() == [50.0, 50.0]


def _plus_one(t):
    with torch.set_execution("recorded"):
        return t + 1


# -- under jax -----------------------------------------------------------------------------------------


def test_under_transformations_of_jax(recorded):
    w = torch.ones(3) * 2  # pending, and constant for jax

    def f(x):
        t = torch.from_jax_array(x)
        return ((t * w).sum() + torch.ones(1) * 3).sum().jax()

    x = jnp.arange(3.0, dtype=jnp.float32)
    assert float(jax.jit(f)(x)) == 9.0
    assert jax.grad(f)(x).tolist() == [2.0] * 3
    assert jax.vmap(f)(jnp.stack([x, x])).tolist() == [9.0, 9.0]
    assert w.tolist() == [2.0] * 3 and not calls()


def test_compiled_functions_inside(recorded):
    w = torch.ones(3) * 2

    @torch.compile
    def f(x):
        return (x * w).sum()

    for i in range(5):
        x = torch.ones(3) * i
        assert f(x).item() == 6.0 * i
        w += 0
