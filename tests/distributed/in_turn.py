"""Eager collectives between programs over several processes: every rank must run them in one order.

XLA's transport ends a process, or gives another's numbers, where two ranks do not.
"""

import contextlib
import importlib
import random
import time


def rounds(t, mesh, rank, count):
    """What is not as it must be, of ``count`` rounds of collectives, DTensors and compiled steps."""
    Shard, distribute = t.distributed.tensor.Shard, t.distributed.tensor.distribute_tensor
    d, wrong, waits = t.distributed, [], random.Random(rank)
    whole = (t.arange(320.0 * 320) % 7).reshape(320, 320)
    a, b = distribute(whole, mesh, [Shard(1)]), distribute(whole, mesh, [Shard(0)])
    product, few = whole @ whole, distribute(t.arange(8.0), mesh, [Shard(0)])
    step = t.compile(lambda x, y: (x @ y).sum()) if t.__name__ == "torchlike" else lambda x, y: (x @ y).sum()
    with late(t, waits):
        for i in range(count):
            c = a @ b  # takes a while, and is not waited for
            x, y = t.full((4,), float(i + rank)), t.full((3,), float(rank))
            first = d.all_reduce(x, async_op=i % 3 < 2)
            second = d.all_reduce(y, d.ReduceOp.MAX, async_op=True)
            total, s = step(a, b) if i % 4 == 0 else None, few.sum()
            time.sleep(waits.random() * 0.002)
            for work in (second, first)[: 1 + (first is not None)]:
                work.wait()
            found = x.tolist(), y.tolist(), s.full_tensor().item(), bool(t.equal(c.full_tensor(), product))
            if found != ([2.0 * i + 1] * 4, [1.0] * 3, 28.0, True):
                wrong.append((i, found))
            if total is not None and abs(total.full_tensor().item() / product.sum().item() - 1) > 1e-5:
                wrong.append((i, "step"))
    return wrong


@contextlib.contextmanager
def late(t, waits):
    """The thread of collectives comes late to each of them."""
    if t.__name__ != "torchlike":
        yield
        return
    arrival = importlib.import_module("torchlike.distributed._xla").Arrival
    run = arrival.run

    def slowly(self):
        time.sleep(waits.random() * 0.004)
        run(self)

    arrival.run = slowly
    try:
        yield
    finally:
        arrival.run = run
