"""Works and their futures, of collectives that one rank comes to late: a script for PyTorch and torchlike.

    python works_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. Writes what each case gave on this rank, as JSON.
"""

import importlib
import sys
import threading
import time
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d = t.distributed
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def begun(rank, *shape):
    """Ones, and the work of their sum, which rank 1 comes to late."""
    x = t.ones(*shape or (3,))
    if rank == 1:
        time.sleep(0.3)
    return x, d.all_reduce(x, async_op=True)


def polled(work):
    end = time.monotonic() + 10
    while not work.is_completed():
        if time.monotonic() > end:
            return "never"
        time.sleep(0.002)
    return "done"


@case
def a_sum_that_is_asked_for(rank):
    x, work = begun(rank)
    return polled(work), x.tolist(), work.is_success(), str(work.exception())


@case
def a_sum_whose_work_is_dropped(rank):
    x = begun(rank)[0]
    d.barrier()
    return x.tolist()


@case
def several_whose_works_are_dropped(rank):
    xs = [begun(0)[0] for _ in range(20)]
    d.barrier()
    return [x.tolist() for x in xs]


@case
def a_sum_that_nobody_waits_for(rank):
    x, work = begun(rank)
    y = t.ones(2)
    d.all_reduce(y)
    end = time.monotonic() + 10
    while x[0].item() != 2 and time.monotonic() < end:
        time.sleep(0.002)
    return x.tolist(), y.tolist(), work.is_completed()


@case
def a_sum_that_three_threads_wait_for(rank):
    x, work = begun(rank)
    found = []
    threads = [threading.Thread(target=lambda: (work.wait(), found.append(x.tolist()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@case
def a_barrier_that_is_asked_for(rank):
    if rank == 1:
        time.sleep(0.2)
    return polled(d.barrier(async_op=True))


@case
def a_barrier_that_only_one_waits_for(rank):
    """To begin it is to be there."""
    work = d.barrier(async_op=True)
    if rank == 1:
        time.sleep(0.3)
        return polled(work)
    begin = time.monotonic()
    work.wait()
    return "done" if time.monotonic() - begin < 5 else "late"


@case
def a_future_is_there_at_once(rank):
    x, work = begun(rank)
    begin, where = time.monotonic(), []
    future = work.get_future()
    later = future.then(lambda done: (where.append(threading.current_thread()), done.value()[0] * 2)[1])
    early, first = time.monotonic() - begin < 0.25, future.done()
    value = later.wait()
    other = where[0] is not threading.main_thread()
    return (
        early, rank == 1 or (first, other), value.tolist(), x.tolist(), future.done(), future.value()[0] is x,
        work.is_completed(), work.wait(), [y.tolist() for y in work.result()],
    )  # fmt: skip


@case
def a_callback_that_waits_for_another_sum(rank):
    def again(done):
        return d.all_reduce(done.value()[0], async_op=True).get_future().wait()[0] + 1

    return begun(rank)[1].get_future().then(again).wait().tolist()


@case
def futures_of_one_work(rank):
    work, called = begun(rank)[1], []
    one, two = work.get_future(), work.get_future()
    one.add_done_callback(lambda done: called.append(done.value()[0].tolist()))
    two.wait()
    one.wait()
    end = time.monotonic() + 10
    while not called and time.monotonic() < end:
        time.sleep(0.002)
    return one is two, called


@case
def all_futures(rank):
    xs = [t.ones(2) * i for i in range(4)]
    t.futures.wait_all([d.all_reduce(x, async_op=True).get_future() for x in xs])
    return [x.tolist() for x in xs]


@case
def futures_of_every_kind(rank):
    x, rows = t.ones(2), [t.zeros(2), t.zeros(2)]
    works = [
        d.broadcast(x, 0, async_op=True), d.all_gather(rows, x, async_op=True), d.reduce(x, 0, async_op=True),
        d.all_to_all_single(t.zeros(2), x, async_op=True), d.barrier(async_op=True),
        d.gather(x, rows if rank == 0 else None, 0, async_op=True),
        d.scatter(x, rows if rank == 0 else None, 0, async_op=True),
    ]  # fmt: skip
    return [[list(y.shape) for y in work.get_future().wait()] for work in works]


@case
def a_callback_that_fails(rank):
    try:
        begun(rank)[1].get_future().then(lambda done: 1 / 0).wait()
    except RuntimeError as error:
        return "ZeroDivisionError" in str(error)


if __name__ == "__main__":
    ranks.run(d, CASES)
