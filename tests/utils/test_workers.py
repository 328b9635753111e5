"""Workers of a DataLoader: processes, compared with PyTorch's."""

import gc
import multiprocessing
import os
import random
import re
import signal
import sys
import threading
import time
import weakref

import ctrl_c_kit
import numpy as np
import pytest
import torch
from both import agree
from data_kit import data, kit, tensors

import torchlike
from torchlike.utils.data._utils import transport

FORKS = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
# PyTorch's iterators say so where a child of a fork drops its copy of them; Python 3.12 and later of every fork.
pytestmark = [
    FORKS,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Now and then PyTorch gives its workers this time to end, then ends them; it has 5 seconds."""
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.3)


def loader(t, dataset, *args, workers=2, **options):
    """A loader whose workers are forked, and never waited for without end."""
    options = {"multiprocessing_context": "fork", "timeout": 200} | options
    return data(t).DataLoader(dataset, *args, num_workers=workers, **options)


class Own:
    """A dataset whose samples are what a function of the library and the index gives."""

    def __init__(self, t, make, n=4):
        self.t, self.make, self.n = t, make, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.make(self.t, i)


def made(make, *args, n=4, **options):
    """What the loader of such a dataset gives."""
    return lambda t: list(loader(t, Own(t, make, n), *args, **options))


def shards(t):
    class Shard(data(t).IterableDataset):
        def __init__(self):
            self.start, self.end = 0, 4

        def __iter__(self):
            info = data(t).get_worker_info()
            return iter([(info.id, info.num_workers, i) for i in range(self.start, self.end)])

    def cut(i):
        dataset = data(t).get_worker_info().dataset
        dataset.start, dataset.end = i * 2, i * 2 + 2

    stream = Shard()
    found = list(loader(t, stream, None, worker_init_fn=cut, collate_fn=tuple))
    return found, (stream.start, stream.end), data(t).get_worker_info()


def numbers(t, i):
    """The seeds of a worker, and what its generators give."""
    info = data(t).get_worker_info()
    drawn = random.random(), float(np.random.rand()), float(t.rand(1)), t.randn(20).tolist()
    return info.id, info.num_workers, info.seed, t.initial_seed(), info.worker_method, info.rng, *drawn


def seeded(t):
    t.manual_seed(3)
    first = list(loader(t, Own(t, numbers), None)), t.rand(1)
    g = t.Generator().manual_seed(5)
    return first, list(loader(t, Own(t, numbers), None, generator=g, shuffle=True)), t.rand(1)


def computed(t, i):
    """What datasets compute: some by numpy, some by the process that was forked from."""
    x = t.arange(12.0).reshape(3, 4) + i
    x[0] = i
    image = t.from_numpy(np.full((4, 4, 3), i, np.uint8)).permute(2, 0, 1).float().div_(255)
    low = t.nn.functional.interpolate(image[None], size=2, mode="bilinear")[0]
    return (
        (x - x.mean()) / x.std(),
        x @ x.T,
        t.tensor([i, 1]),
        image,
        low,
        t.linalg.inv(t.eye(2) * (i + 1)),
        x.sort(1)[1],
    )


def kinds(t, i):
    """Samples of every kind that travels, small and large."""
    big = t.arange(40_000).reshape(200, 200) + i
    return {
        "big": big, "cut": big[:, ::2], "turned": t.arange(6).reshape(2, 3).t(), "none": t.ones(0, 3),
        "one": t.tensor(i), "half": t.ones(3, dtype=t.bfloat16) * i,
        "complex": t.ones(2, dtype=t.complex64), "bool": t.tensor([True]),
        "array": np.full((300, 300), i, np.int16), "text": "abc", "list": [1, (2.5, None)],
        "leaf": t.ones(2, requires_grad=True), "parameter": t.nn.Parameter(t.ones(2)),
    }  # fmt: skip


def writable(t):
    (array, tensor) = next(iter(loader(t, Own(t, lambda t, i: (np.ones((200, 200)), t.ones(200, 200))), None,
                                       collate_fn=tuple)))  # fmt: skip
    array += 1
    tensor += 1
    return array[0, :2], tensor[0, :2]


def rounds(t):
    """Workers that stay."""
    load = loader(t, Own(t, lambda t, i: (i, os.getpid())), None, persistent_workers=True, collate_fn=tuple)
    first, second = list(load), list(load)
    again = iter(load)
    next(again)
    third = list(iter(load))  # one that was not used up
    stream = loader(t, kit(t).Stream(3), 2, persistent_workers=True)
    return (
        [i for i, _ in first + second + third], len({pid for _, pid in first + second + third}) == 2,
        iter(load) is again, list(stream), list(stream),
    )  # fmt: skip


def orders(t):
    """Passes in random order, and what the generator gives after each; ``rounds`` are of workers that stay."""
    found = []
    for persistent in (False, True):
        for pipe in (False, True):
            g = t.Generator().manual_seed(3)
            items = data(t).datapipes.iter.IterableWrapper(range(8)).shuffle() if pipe else list(range(8))
            load = loader(t, items, None, shuffle=True, generator=g, persistent_workers=persistent)
            for _ in range(3):
                found += [[int(i) for i in load], t.randint(1000, (1,), generator=g).item()]
    return found


def counted(t):
    """Memory that processes share, and a function that is no module's."""
    count = multiprocessing.get_context("fork").Value("i", 0)

    def init(i):
        with count.get_lock():
            count.value += 1

    return list(loader(t, [1, 2, 3], collate_fn=lambda b: b[0] * 2, worker_init_fn=init)), count.value


STORIES = {
    "order": lambda t: [list(loader(t, list(range(11)), 2, workers=n)) for n in (1, 3)],
    "single": lambda t: list(loader(t, list(range(5)), None)),
    "few": lambda t: list(loader(t, [1], workers=3)),
    "none": lambda t: list(loader(t, [])),
    "tensors": lambda t: list(loader(t, tensors(t, 5), 2)),
    "drop": lambda t: list(loader(t, tensors(t, 5), 2, drop_last=True)),
    "any order": lambda t: sorted(int(x) for x in loader(t, list(range(11)), None, in_order=False)),
    "prefetch": lambda t: list(loader(t, list(range(7)), prefetch_factor=1)),
    "batch sampler": lambda t: list(loader(t, tensors(t), batch_sampler=[[0], [1, 2]])),
    "many": lambda t: list(loader(t, kit(t).Many(), 3)),
    "stream": lambda t: list(loader(t, kit(t).Stream(3), 2)),
    "stream, dropping": lambda t: list(loader(t, kit(t).Stream(3), 2, drop_last=True)),
    "stream, empty": lambda t: list(loader(t, kit(t).Stream(0), 2)),
    "stream, single": lambda t: list(loader(t, kit(t).Stream(3), None)),
    "shards": shards,
    "seeds": seeded,
    "computed": made(computed, 2),
    "kinds": made(kinds, None, n=2, collate_fn=lambda x: x),
    "writable": writable,
    "rounds": rounds,
    "orders": orders,
    "shared memory": counted,
    "iterator": lambda t: (lambda i: (len(i), iter(i) is i, next(i), list(i), next(i, "end")))(
        iter(loader(t, [1, 2, 3], 2))
    ),
    "two at once": lambda t: (lambda d: list(zip(d, d, strict=True)))(loader(t, [1, 2, 3], 2)),
}


@pytest.mark.parametrize("name", STORIES)
def test_workers(name):
    agree(STORIES[name])


def test_no_prefetching():
    for t in (torchlike, torch):
        with pytest.raises(AssertionError):
            list(loader(t, [1], prefetch_factor=0))


def test_indices_may_be_long():
    batches = [list(range(100_000))] * 6
    loaded = loader(torchlike, range(100_000), batch_sampler=batches, collate_fn=lambda b: torchlike.tensor(b))
    assert [len(b) for b in loaded] == [100_000] * 6


# -- what goes wrong -----------------------------------------------------------------------------------


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a)


def fails(what):
    """A function that fails in a worker."""

    def make(t, i):
        if what == "value":
            raise ValueError(f"bad item {i}")
        if what == "key":
            return {}["a\nb"]
        if what == "odd":
            raise Odd(1, 2)
        if what == "stop":
            raise StopIteration
        if what == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "exit":
            sys.exit(3)
        time.sleep(60)

    return make


def failure(t, what, **options):
    """The type, the message without the traceback's frames, and the cause."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any type
        next(iter(loader(t, Own(t, fails(what)), workers=1, **options)))
    lines = [x for x in str(caught.value).splitlines() if not x.startswith(" ")]
    said = re.sub(r"(pid\S* )\d+", r"\1NUMBER", " ".join(lines))
    return type(caught.value).__name__, said.replace("torchlike", "torch"), str(caught.value.__cause__)


# What PyTorch 2.13 raises. It is not run here: after such an end its loader may wait for its workers, even for ever.
LOST = "DataLoader worker (pid(s) NUMBER) exited unexpectedly"
ENDS = {
    "value": (
        "ValueError",
        "ValueError in DataLoader worker process 0. Original Traceback .* ValueError: bad item 0",
        "",
    ),
    "key": ("KeyError", "Caught KeyError in DataLoader worker process 0. Original Traceback .* KeyError: .a.nb", ""),
    "odd": ("RuntimeError", "Caught Odd in DataLoader worker process 0. Original Traceback .*Odd: 1", ""),
    "stop": ("StopIteration", "Caught StopIteration in DataLoader worker process 0. Original Traceback ", ""),
    "killed": ("RuntimeError", re.escape(LOST), r"worker \(pid \d+\) is killed by signal: Killed"),
    "exit": ("RuntimeError", re.escape(LOST), r"worker \(pid \d+\) exited unexpectedly with exit code 3"),
    "late": ("RuntimeError", "DataLoader timed out after 0.3 seconds", "None"),
}


@pytest.mark.parametrize("what", ENDS)
def test_ends(what):
    found = failure(torchlike, what, timeout=0.3 if what == "late" else 60)
    for expected, got in zip(ENDS[what], found, strict=True):
        assert re.search(expected, got)


@pytest.mark.parametrize("where", ["init", "stream"])
def test_failures_of_a_start(where):
    def run(t):
        class Stream(data(t).IterableDataset):
            def __iter__(self):
                raise ValueError("no stream")

        def init(i):
            raise ValueError(f"no worker {i}")

        list(loader(t, Stream(), workers=1, worker_init_fn=init if where == "init" else None))

    for t in (torchlike, torch):
        with pytest.raises(
            ValueError, match=r"Caught ValueError in DataLoader worker process 0.(?s:.*)no (stream|wor)"
        ):
            run(t)


def test_the_traceback_is_that_of_the_worker():
    with pytest.raises(ValueError, match="bad item 0") as caught:
        list(loader(torchlike, Own(torchlike, fails("value"))))
    assert "Original Traceback" in str(caught.value) and 'raise ValueError(f"bad item {i}")' in str(caught.value)


CANNOT_TRAVEL = {
    "computed from what requires grad": (lambda t, i: t.ones(1, requires_grad=True) * 2, RuntimeError, "call detach"),
    "function": (lambda t, i: lambda: 0, Exception, "(?i)can't (pickle|get) local object"),
}


@pytest.mark.parametrize("name", CANNOT_TRAVEL)
def test_what_cannot_travel(name):
    """PyTorch prints the error in the worker, and waits for ever."""
    make, kind, message = CANNOT_TRAVEL[name]
    with pytest.raises(kind, match=message):
        list(loader(torchlike, Own(torchlike, make), None))


def gone(pids):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not {p.pid for p in multiprocessing.active_children()} & set(pids):
            return True
        time.sleep(0.01)
    return False


def test_workers_end_with_their_iterator():
    iterator = iter(loader(torchlike, list(range(100))))
    next(iterator)
    pids, reference = [w.pid for w in iterator._workers], weakref.ref(iterator)
    assert all(w.is_alive() and w.daemon for w in iterator._workers)
    del iterator
    gc.collect()
    assert reference() is None and gone(pids)


def test_a_worker_that_died_is_replaced_by_the_next_iteration():
    load = loader(torchlike, list(range(6)), None, workers=1, persistent_workers=True)
    assert list(load) == list(range(6))
    os.kill(load._iterator._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(load)
    assert list(load) == list(range(6))


def test_ctrl_c_is_for_the_process_that_loads():
    """A terminal sends it to workers too, which go on until they are ended."""
    iterator = iter(loader(torchlike, list(range(4)), None))
    for worker in iterator._workers:
        os.kill(worker.pid, signal.SIGINT)
    assert list(iterator) == [0, 1, 2, 3]


class ForkProcess(multiprocessing.get_context("fork").Process):
    """A process that gets a Ctrl-C before all else, or whose parent does where it starts the second one."""

    started = None

    def start(self):
        if self.started is not None:
            self.started.append(self)
            if len(self.started) == 2:
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        super().start()

    def run(self):
        if self.started is None:
            os.kill(os.getpid(), signal.SIGINT)
        super().run()


class ForkContext(type(multiprocessing.get_context("fork"))):
    Process = ForkProcess


@pytest.mark.parametrize("context", [ForkContext(), "spawn", "forkserver"], ids=["fork", "spawn", "forkserver"])
def test_ctrl_c_before_a_worker_has_begun(context):
    """It waits until the worker ignores it; the thread that starts it is as before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    found = list(loader(torchlike, ctrl_c_kit.Interrupted(), None, workers=1, multiprocessing_context=context))
    assert found == [[i, "SIG_IGN", False] for i in range(2)]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before and signal.SIGINT not in before


def test_ctrl_c_while_workers_are_started(monkeypatch):
    """It is raised there, when the one that is being started is known; all of them end."""
    monkeypatch.setattr(ForkProcess, "started", [])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            iter(loader(torchlike, list(range(4)), None, workers=3, multiprocessing_context=ForkContext()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ForkProcess.started) == 2 and gone([p.pid for p in ForkProcess.started])


def test_a_message_of_another_process():
    """What is shared is freed with the last array over it; what cannot be pickled sends nothing."""
    here, there = multiprocessing.Pipe()
    value = {"x": torchlike.arange(30_000.0), "y": np.arange(9)}
    transport.send(there, value)
    with pytest.raises(Exception, match="(?i)can't (pickle|get) local object"):
        transport.send(there, lambda: 0)
    got = transport.receive(here)
    assert torchlike.equal(got["x"], value["x"]) and (got["y"] == value["y"]).all() and not here.poll(0)
    there.close()
    with pytest.raises(EOFError):
        transport.receive(here)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_end_with_the_iteration_that_is_dropped(persistent):
    """At once, without a pass of the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        for t in (torch, torchlike):
            iterator = iter(loader(t, Own(t, lambda t, i: i, 20), persistent_workers=persistent))
            workers = iterator._workers
            next(iterator)
            assert all(w.is_alive() for w in workers)
            del iterator
            for w in workers:
                w.join(30)
            assert not any(w.is_alive() for w in workers)
    finally:
        gc.enable()


def test_workers_that_are_shut_down():
    def run(t):
        made = loader(t, Own(t, lambda t, i: i, 6), persistent_workers=True)
        first = [int(x) for x in made]
        workers = made._iterator._workers
        made._iterator._shutdown_workers()
        made._iterator = None
        return first, [w.is_alive() for w in workers], [int(x) for x in made]

    agree(run)


def test_streams_that_are_longer_than_they_said_in_workers():
    for t in (torch, torchlike):
        made = loader(t, kit(t).Wrong(4), None, workers=1)
        assert len(made) == 2
        with pytest.warns(UserWarning, match="samples have been fetched. For multiprocessing data-loading, this"):
            assert len(list(made)) == 4
