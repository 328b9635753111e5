"""Where autocast is on: in workers of a DataLoader, and in threads of one's own, as in PyTorch."""

import functools
import inspect
import pickle
import threading
import warnings

import pytest
from both import agree
from spawned import Telling, told
from story_kit import story


def loaded(t, workers, context=None, **options):
    loader = functools.partial(t.utils.data.DataLoader, Telling(t.__name__), None, num_workers=workers)
    return loader(multiprocessing_context=context, **options)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("where", ["around all", "around the start", "around the samples", "nowhere"])
def test_workers(where, workers):
    """Workers begin as the thread that starts them; without any it is the thread that takes a sample."""

    def run(t):
        low = t.autocast("cpu", dtype=t.float16)
        with t.autocast("cpu", dtype=t.float16, enabled=where in ("around all", "around the start")):
            samples = iter(loaded(t, workers))
            first = next(samples) if where == "around all" else None
        if where == "around the samples":
            with low:
                return first, list(samples)
        return first, list(samples) if where != "around all" or workers else None

    agree(run)


@story
def test_workers_have_the_grad_mode(t):
    with t.no_grad(), t.autocast("cpu"):
        return list(loaded(t, 1)), list(loaded(t, 1, "fork"))


@pytest.mark.once
def test_workers_that_are_spawned_begin_anew():
    def run(t):
        with t.no_grad(), t.autocast("cpu"):
            return list(loaded(t, 1, "spawn"))[0]

    agree(run)


@story
def test_batches_are_collated_in_workers(t):
    def collate(samples):
        x = t.stack([t.ones(2, 2)] * len(samples))
        return (x @ x).float(), [str((x @ x).dtype)] * len(samples)

    with t.autocast("cpu"):
        return list(loaded(t, 2, collate_fn=lambda sample: collate([sample])))


@story
def test_a_thread_that_enters_the_context_of_another(t):
    """As modules in replica threads do: what it enters ends with it."""
    found, context = [], t.autocast("cpu", dtype=t.float16)

    def work():
        with t.autocast("cpu", dtype=context.fast_dtype):
            found.append(told(t))
        found.append(told(t))

    with context:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        found.append(told(t))
    return found, told(t)


@story
def test_backward_in_another_thread(t):
    """It computes in the dtypes of forward, in a thread where autocast is off."""
    w = (t.arange(9.0) / 8).reshape(3, 3).requires_grad_()
    with t.autocast("cpu"):
        y = (w @ w).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    return y, w.grad


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_earlier_names_of_the_scaler(kind):
    def run(t):
        scaler = getattr(t, kind).amp.GradScaler
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = scaler(8.0, enabled=kind == "cpu")
            again = pickle.loads(pickle.dumps(made))
        name = scaler.__module__.replace("torchlike", "torch"), scaler.__qualname__
        return name, str(inspect.signature(scaler)), type(again) is scaler, again.state_dict(), again.is_enabled()

    agree(run)
