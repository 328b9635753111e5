"""What a step of training costs more in two processes than in one: ``python benchmarks/processes.py [STEPS]``.

Two processes that compute with one thread each train a small transformer under DistributedDataParallel; between these
steps rank 0 trains the bare module with the batch of one process while the other one sleeps, and both train it side by
side. Prints the median of each and their ratios: 1 would be a second process for nothing. The last line is PyTorch's,
over gloo as well: what the machine allows.
"""

import importlib
import os
import statistics
import subprocess
import sys
import time

ONE_THREAD = {**os.environ, "NPROC": "1", "OMP_NUM_THREADS": "1"}
KINDS = {"eager": "torchlike", "compiled": "torchlike", "torch eager": "torch"}
WIDTH, LAYERS, BATCH, LENGTH, WORDS = 256, 4, 8, 128, 512


def model_of(t):
    layer = t.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
    encoder = t.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
    return t.nn.Sequential(t.nn.Embedding(WORDS, WIDTH), encoder, t.nn.Linear(WIDTH, WORDS))


def step_of(t, model):
    optimizer = t.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def timed(step, x, y, steps):
    found = []
    for _ in range(steps):
        begun = time.perf_counter()
        step(x, y).item()
        found.append(time.perf_counter() - begun)
    return found


def worker(rank, steps, port, kind):
    t = importlib.import_module(KINDS[kind])
    d = t.distributed
    d.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    t.manual_seed(0)
    x, y = t.randint(0, WORDS, (2, BATCH, LENGTH)).unbind()
    alone, together = step_of(t, model_of(t)), step_of(t, t.nn.parallel.DistributedDataParallel(model_of(t)))
    if kind == "compiled":
        alone, together = t.compile(alone), t.compile(together)
    timed(alone, x, y, 4), timed(together, x, y, 4)
    one, two, beside = [], [], []
    for _ in range(3):
        d.barrier()
        if rank == 0:
            one += timed(alone, x, y, steps)
        d.barrier()
        two += timed(together, x, y, steps)
        d.barrier()
        beside += timed(alone, x, y, steps)
    if rank == 0:
        a, b, c = (statistics.median(found) * 1e3 for found in (one, two, beside))
        line = f"{kind}: one process {a:.1f} ms, each of two {b:.1f} ms: efficiency {a / b:.2f}"
        print(f"{line}; two that know nothing of each other {c:.1f} ms: {a / c:.2f}, {c / b:.2f} of that", flush=True)
    d.barrier()
    d.destroy_process_group()


def main():
    if len(sys.argv) > 2:
        worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
        return
    steps = sys.argv[1] if len(sys.argv) > 1 else "10"
    for number, kind in enumerate(KINDS):
        port = str(29761 + number)
        command = [sys.executable, __file__]
        workers = [subprocess.Popen([*command, str(rank), steps, port, kind], env=ONE_THREAD) for rank in range(2)]
        if any([w.wait(300) for w in workers]):
            sys.exit(1)


if __name__ == "__main__":
    main()
