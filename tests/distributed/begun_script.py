"""Processes that have computed before they meet: a script for PyTorch and torchlike.

    python begun_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. Writes what each case gave on this rank, as JSON.
"""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
warnings.simplefilter("ignore")
CASES = {}

t.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))  # before there is a group
BEFORE = t.arange(6.0).reshape(2, 3) * 2
SUM = BEFORE.sum().item()


def case(f):
    CASES[f.__name__] = f
    return f


def numbers(*ts):
    return [[str(x.dtype), x.double().mul(1e4).round().tolist()] for x in ts]


@case
def of_tensors_from_before(rank):
    x, y = BEFORE.clone() + rank, BEFORE.clone()
    d.all_reduce(x)
    d.broadcast(y, 1)
    rows = [t.zeros(2, 3), t.zeros(2, 3)]
    d.all_gather(rows, BEFORE * (rank + 1))
    return numbers(x, y, *rows, x @ BEFORE.t(), BEFORE)


@case
def of_several_kinds(rank):
    ts = [BEFORE.to(kind) + rank for kind in (t.int32, t.bool, t.bfloat16, t.float64)]
    for x in ts:
        d.all_reduce(x, d.ReduceOp.MAX)
    one, none, part, swapped = t.tensor(1.0 + rank), t.zeros(0), t.zeros(3), t.zeros(2, 3)
    d.all_reduce(one)
    d.all_reduce(none)
    d.reduce_scatter_tensor(part, BEFORE.reshape(-1))
    d.all_to_all_single(swapped, BEFORE + rank)
    return numbers(*ts, one, none, part, swapped)


@case
def changed_while_it_travels(rank):
    x = t.ones(200_000)
    for i in range(20):
        work = d.all_reduce(y := x.clone(), async_op=True)
        x[i] = 7.0
        x.add_(1.0)
        work.wait()
        if y[i].item() != 2.0 * (i + 1):
            return i, y[i].item()
    return x[:3].tolist()


@case
def objects_and_messages(rank):
    found = [None, None]
    d.all_gather_object(found, {"rank": rank})
    x = BEFORE + rank
    d.send(x, 1) if rank == 0 else d.recv(x, 0)
    own = d.new_group([0, 1])
    d.all_reduce(x, group=own)
    return found, numbers(x)


@case
def steps_of_ddp(rank):
    model = nn.parallel.DistributedDataParallel(MODEL)
    optimizer = t.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    x = (t.arange(12.0).reshape(4, 3) - 5) * (rank + 1) / 7
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses, [p.detach().double().mul(1e3).round().tolist() for p in model.parameters()]


@case
def a_compiled_function(rank):
    def step(x):
        y = x * 2
        d.all_reduce(y)
        return y + BEFORE, y.sum()

    run = t.compile(step) if t.__name__ == "torchlike" else step
    return [numbers(*run(BEFORE + rank + i)) for i in range(3)]


@case
def tensors_over_several_processes(rank):
    """Which PyTorch has here, and a backend that began alone has not."""
    try:
        d.init_device_mesh("cpu", (2,))
    except RuntimeError as error:
        return str(error)


if __name__ == "__main__":
    ranks.run(d, CASES)
