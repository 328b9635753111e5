"""Works and their futures, of collectives that one rank comes to late, and functional collectives as operators.

A script for PyTorch and torchlike:

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
C = importlib.import_module(f"{sys.argv[1]}.distributed._functional_collectives")
OPS = t.ops._c10d_functional
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
    while x.tolist() != [2.0] * 3 and time.monotonic() < end:
        time.sleep(0.002)
    return x.tolist(), y.tolist(), polled(work)


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
    store, where = d.distributed_c10d._get_default_store(), []
    if rank == 1:
        store.wait(["a future is there"])
    x = t.ones(3)
    work = d.all_reduce(x, async_op=True)
    future = work.get_future()
    later = future.then(lambda done: (where.append(threading.current_thread()), done.value()[0] * 2)[1])
    first = future.done()
    if rank == 0:
        store.set("a future is there", "so it is")
    value = later.wait()
    other = where[0] is not threading.main_thread()
    return (
        rank == 1 or (first, other), value.tolist(), x.tolist(), future.done(), future.value()[0] is x,
        work.wait(), work.is_completed(), [y.tolist() for y in work.result()],
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


@case
def of_inference(rank):
    found = []
    for is_later in (False, True):
        with t.inference_mode():
            x, y = t.ones(4, 4), t.ones(3)
            rows = t.zeros(2, 3)
            work = d.all_reduce(x[1], async_op=is_later)
            if is_later:
                work.wait()
            d.all_gather([*rows.unbind(0)], y * (rank + 1))
        d.all_reduce(x[2])
        d.broadcast(y, 1)
        found.append([x.tolist(), y.tolist(), rows.tolist(), x.is_inference()])
    return found


@case
def of_views_with_a_history(rank):
    x, leaf = t.ones(3, requires_grad=True), t.ones(3, requires_grad=True)
    y = x * 1
    d.all_reduce(y[1:])
    y.sum().backward()
    with t.no_grad():
        d.all_reduce(leaf[1:])
    with t.autocast("cpu", dtype=t.bfloat16):
        d.all_reduce(z := t.ones(3))
    return y.tolist(), x.grad.tolist(), leaf.tolist(), z.tolist(), str(z.dtype)


def waited(x):
    return [OPS.wait_tensor(y) for y in x] if isinstance(x, list) else OPS.wait_tensor(x)


def told(x):
    return [told(y) for y in x] if isinstance(x, list) else [str(x.dtype), list(x.stride()), x.tolist()]


OPERATORS = {
    "all_reduce": lambda x, g: OPS.all_reduce(x, "sum", g),
    "all_reduce max": lambda x, g: OPS.all_reduce(x, "max", g),
    "all_reduce avg": lambda x, g: OPS.all_reduce.default(x.detach(), "avg", g),
    "all_reduce of a group": lambda x, g: OPS.all_reduce(x, "sum", d.group.WORLD),
    "all_reduce strided": lambda x, g: OPS.all_reduce(x.t(), "sum", g),
    "all_reduce_": lambda x, g: OPS.all_reduce_(x.detach(), "product", g),
    "all_reduce_coalesced": lambda x, g: OPS.all_reduce_coalesced([x, x + 1], "sum", g),
    "all_reduce_coalesced min": lambda x, g: OPS.all_reduce_coalesced([x, x + 1], "min", g),
    "all_reduce_coalesced_": lambda x, g: OPS.all_reduce_coalesced_([x.detach(), x.detach() * 2], "sum", g),
    "all_gather": lambda x, g: OPS.all_gather_into_tensor(x, 2, g),
    "all_gather out": lambda x, g: OPS.all_gather_into_tensor_out(x.detach(), 2, g, out=t.zeros(8, 2)),
    "all_gather coalesced": lambda x, g: OPS.all_gather_into_tensor_coalesced([x, x * 2], 2, g),
    "reduce_scatter": lambda x, g: OPS.reduce_scatter_tensor(x, "sum", 2, g),
    "reduce_scatter out": lambda x, g: OPS.reduce_scatter_tensor_out(x.detach(), "sum", 2, g, out=t.zeros(2, 2)),
    "all_to_all": lambda x, g: OPS.all_to_all_single(x, [2, 2], [2, 2], g),
    "broadcast": lambda x, g: OPS.broadcast(x, 1, g),
    "broadcast_": lambda x, g: OPS.broadcast_(x.detach(), 0, g),
    "gather of autograd": lambda x, g: t.ops._c10d_functional_autograd.all_gather_into_tensor(x, 2, g),
    "scatter of autograd": lambda x, g: t.ops._c10d_functional_autograd.reduce_scatter_tensor(x, "sum", 2, g),
    "no such group": lambda x, g: OPS.all_reduce(x, "sum", "nobody"),
    "no such reduction": lambda x, g: OPS.all_reduce(x, "foo", g),
    "broadcast, as a function": lambda x, g: C.broadcast(x, 1, d.group.WORLD),
    "coalesced, as a function": lambda x, g: C.all_reduce_coalesced([x, x + 1], "sum", d.group.WORLD),
    "coalesced max, as a function": lambda x, g: C.all_reduce_coalesced([x, x + 1], "max", d.group.WORLD),
}


def operator(call, rank, requires_grad):
    x = (t.arange(8.0).reshape(4, 2) + 10 * rank).requires_grad_(requires_grad)
    try:
        y = waited(call(x, d.group.WORLD.group_name))
        found = told(y)
        first = y[0] if isinstance(y, list) else y
        if first.requires_grad:
            (first * t.arange(1.0, first.numel() + 1).reshape(first.shape) * (rank + 1)).sum().backward()
            found.append(x.grad.tolist())
            found.append(isinstance(first.grad_fn.name(), str))
    except (RuntimeError, TypeError) as error:
        return str(error)
    return found


for name, call in OPERATORS.items():
    for requires_grad in (False, True):
        CASES[f"{name} {requires_grad}"] = lambda rank, call=call, g=requires_grad: operator(call, rank, g)


@case
def operators_that_change_what_they_get(rank):
    x, group = t.ones(3) * (rank + 1), d.group.WORLD.group_name
    y = OPS.all_reduce_(x, "sum", group)
    z = OPS.wait_tensor(y)
    return y is x, z is x, x.tolist(), str(OPS.all_reduce), str(OPS.all_reduce_.default._schema)


@case
def classes_of_results(rank):
    x, group = (t.arange(4.0).reshape(2, 2) + rank).requires_grad_(), d.group.WORLD
    found = [
        C.all_reduce(x, "sum", group), C.all_gather_tensor(x, 0, group), C.reduce_scatter_tensor(x, "sum", 0, group),
        C.all_to_all_single(x, None, None, group), C.broadcast(x, 0, group), *C.all_reduce_coalesced([x], "sum", group),
        C.all_gather_tensor(x, 1, group), OPS.all_reduce(x, "sum", group.group_name),
    ]  # fmt: skip
    waits = [y.wait() if type(y) is not t.Tensor else y for y in found]
    waits += [C.wait_tensor(found[0]), OPS.wait_tensor(found[0]), found[0].trigger_wait()]
    (waits[0] * t.arange(4.0).reshape(2, 2)).sum().backward()
    return [type(y).__name__ for y in [*found, *waits]], [told(y.detach()) for y in waits], told(x.grad)


@case
def lists_as_methods_of_a_group(rank):
    group, x = d.group.WORLD, t.arange(2.0) + rank
    rows, all_rows, own = [t.zeros(2), t.zeros(2)], [t.zeros(2), t.zeros(2)], t.zeros(2)
    group.gather(rows if rank else [], x, 1).wait()
    group.scatter(own, [x, x + 5] if rank == 0 else [], 0).wait()
    group.alltoall(all_rows, [x * 10, x * 10 + 1]).wait()
    return [told(y) for y in (rows, own, all_rows)]


@case
def messages_as_operators(rank):
    x, c, group = t.ones(3) * (rank + 1), t.zeros(2), d.group.WORLD.group_name
    y = waited(OPS.isend(x, 1, 3, group) if rank == 0 else OPS.irecv(x, 0, 3, group))
    there, back = waited(OPS.batch_p2p_ops(["irecv", "isend"], [1 - rank] * 2, [0, 0], [c, t.ones(2) + rank], group))
    return y is x, y.tolist(), there is c, c.tolist(), back.tolist()


if __name__ == "__main__":
    ranks.run(d, CASES)
