"""Sixteen threads at once: eager and compiled training, recorded execution and data loading, alone and together.

    python benchmarks/stress.py [--seconds 600] [--threads 16]

Nothing may be lost and nothing may fail. Each thread counts what it adds, and everything is compared at the end: a
tensor of its own has every addition, a gradient that threads share has every addend (`.grad` is added to under a lock),
so has a tensor that they change in place, what is read of a parameter while a compiled step replaces it is its value
before or after, a model of a thread's own ends where the same steps end in one thread. Prints what was done, and exits
with 1 if something is wrong.
"""

import argparse
import sys
import threading
import time
import traceback

import torchlike as torch
from torchlike import nn

F = nn.functional
WIDTH = 16


class Shared:
    """What the threads share.

    Attributes:
        total: a parameter whose gradient everybody adds ones to. frozen: a model that is read only.
        counter: a parameter from which a compiled step takes 1, in all its elements.
        written: what threads add ones to, in place and without a lock: eagerly, recorded and compiled, some to a part.
    """

    def __init__(self):
        self.total, self.frozen = nn.Parameter(torch.zeros(4)), nn.Linear(WIDTH, WIDTH)
        self.total.grad = torch.zeros(4)
        self.counter = nn.Parameter(torch.zeros(64))
        optimizer = torch.optim.SGD([self.counter], lr=1.0)
        self.written = nn.Parameter(torch.zeros(8))
        self.part = self.written.detach()[2:5]
        self.write_compiled = torch.compile(lambda: (self.part.add_(1), None)[1], fullgraph=True)
        self.written.grad = -torch.ones(8)
        self.write_by_step = torch.optim.SGD([self.written], lr=1.0).step

        @torch.compile(fullgraph=True)
        def step():
            self.counter.grad = torch.ones(64)
            optimizer.step()

        self.step, self.expected = step, self.frozen(torch.ones(1, WIDTH)).tolist()

    def add(self):
        """Add ones to the shared gradient."""
        (self.total * 1.0).sum().backward()

    def look(self):
        """Read what others may be replacing or reading."""
        seen = self.counter.detach().clone().numpy()  # the clone's memory: that of the counter changes while it is read
        assert (seen == seen[0]).all() and seen[0] <= 0, f"neither the old nor the new value: {seen}"
        assert self.frozen(torch.ones(1, WIDTH)).tolist() == self.expected, "a model that nobody writes has changed"


def trainer(seed):
    """(model, step): a training step from numbers of its own, and the model."""
    random = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=random) * 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def batches(seed):
    """Endless data of one thread."""
    random = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(8, WIDTH, generator=random)


class Worker:
    """One thread's work: ``turn()`` again and again, then ``check()``."""

    def __init__(self, seed, shared):
        self.seed, self.shared, self.turns, self.added = seed, shared, 0, 0
        self.own = torch.zeros(3)
        self.start()

    def start(self):
        """Make what the thread works on."""

    def turn(self):
        self.own.add_(1)
        self.work()
        self.turns += 1

    def check(self):
        assert self.own.tolist() == [self.turns] * 3, f"{self.own.tolist()} after {self.turns} additions"


class Eager(Worker):
    """Trains a model of its own, and adds to the shared gradient."""

    wrap = staticmethod(lambda step: step)

    def start(self):
        self.model, step = trainer(self.seed)
        self.step, self.data = self.wrap(step), batches(self.seed)

    def work(self):
        self.step(next(self.data)).item()
        self.shared.add()
        self.added += 1
        self.shared.look()

    def check(self):
        super().check()
        model, step = trainer(self.seed)
        step, data = self.wrap(step), batches(self.seed)  # wrapped alike: Adam makes roundings large in 10,000 steps
        for _ in range(self.turns):
            step(next(data))
        for p, q in zip(self.model.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


class Compiled(Eager):
    """As Eager, with a compiled step; now and then it compiles another one."""

    wrap = staticmethod(lambda step: torch.compile(step, fullgraph=True))

    def work(self):
        super().work()
        if self.turns % 50 == 0:
            number = float(self.turns)
            assert torch.compile(lambda x: x * 2 + number)(torch.ones(1)).item() == 2 + number


class Recorded(Eager):
    """As Eager, in recorded execution."""

    def turn(self):
        with torch.set_execution("recorded"):
            super().turn()


class Stepper(Worker):
    """Calls the shared compiled step."""

    def work(self):
        self.shared.step()


class Adder(Worker):
    """Adds to the shared gradient in a compiled function of its own."""

    def start(self):
        self.run = torch.compile(lambda x: (self.shared.total * x).sum().backward(), fullgraph=True)

    def work(self):
        self.run(torch.ones(4))
        self.added += 1


class Writer(Worker):
    """Adds to a shared tensor in place, in one way after the other."""

    def start(self):
        s = self.shared
        self.ways = s.write_compiled, s.write_by_step, lambda: s.part.add_(1), lambda: s.written.data.add_(1)

    def work(self):
        self.ways[self.turns % 4]()
        with torch.set_execution("recorded"):
            self.shared.part.add_(1)


class Loader(Worker):
    """Reads batches that other threads collate."""

    def start(self):
        rows = torch.utils.data.TensorDataset(torch.arange(64.0), torch.ones(64))
        self.loader = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)

    def work(self):
        total = sum((x * y).sum().item() for x, y in self.loader)
        assert total == 64 * 63 / 2, f"rows are missing: {total}"
        self.shared.look()


KINDS = (Eager, Compiled, Recorded, Stepper, Adder, Loader, Writer, Eager, Compiled, Writer)


def run(seconds, threads):
    """What went wrong, as texts; prints what was done."""
    shared, faults, over = Shared(), [], threading.Event()
    workers = [KINDS[i % len(KINDS)](i, shared) for i in range(threads)]

    def body(worker):
        try:
            while not over.is_set() and not faults:
                worker.turn()
        except BaseException:
            faults.append(f"{type(worker).__name__} {worker.seed}:\n{traceback.format_exc()}")

    running = [threading.Thread(target=body, args=(w,)) for w in workers]
    for thread in running:
        thread.start()
    time.sleep(seconds)
    over.set()
    for thread in running:
        thread.join(300)
        if thread.is_alive():
            faults.append("a thread hangs")
    return faults or list(wrong(shared, workers))


def wrong(shared, workers):
    """Compare everything with what the threads counted."""
    for worker in workers:
        try:
            worker.check()
        except AssertionError as error:
            yield f"{type(worker).__name__} {worker.seed}: {error}"
        print(f"{type(worker).__name__:10} {worker.seed:3}: {worker.turns} turns")
    added, taken = sum(w.added for w in workers), sum(w.turns for w in workers if isinstance(w, Stepper))
    if shared.total.grad.tolist() != [added] * 4:
        yield f"the shared gradient is {shared.total.grad.tolist()} after {added} additions"
    if shared.counter.tolist() != [-taken] * 64:
        yield f"the shared parameter is {shared.counter[0].item()} after {taken} steps"
    written = 2 * sum(w.turns for w in workers if isinstance(w, Writer))
    if shared.part.tolist() != [written] * 3:
        yield f"what threads write to is {shared.part.tolist()} after {written} additions"
    print(f"{added} additions to a shared gradient, {taken} steps of a shared parameter, {written} of a shared tensor")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    faults = run(options.seconds, options.threads)
    print("\n".join(faults) or "nothing lost, no error")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
