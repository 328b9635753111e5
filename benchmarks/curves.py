"""Loss curves of one GPT on one device and on eight, in the ways to use them.

    python benchmarks/curves.py [--only NAME ...] [--quick]

Each layout has a row for eager steps and one for compiled ones: the largest difference of a loss from that of one
device, over it, in units of what rounding may make of it. The devices are made of the CPU, the numbers the same for
all, the batch that of all devices together.
"""

import json
import os
import socket
import subprocess
import sys

import _programs as programs
from _jobs import JOBS
from _rows import Row, command

import torchlike

BATCH, SIZES = 16, {"layers": 2, "width": 64, "heads": 4, "length": 32}
STEPS, FEW, ROUNDING = 12, 2, 1e-6
ONE = "one device"
# of each layout: its name in a table, processes, devices of each
LAYOUTS = {
    ONE: (ONE, 1, 1),
    "data": ("data over 8 devices", 1, 8),
    "ddp": ("DistributedDataParallel, 8 processes", 8, 1),
    "fully": ("fully_shard over 8 devices", 1, 8),
    "fsdp": ("FullyShardedDataParallel over 8 devices", 1, 8),
    "tensor": ("tensor parallel 2x4", 1, 8),
    "both": ("tensor parallel 4, fully_shard 2", 1, 8),
    "fully_spanning": ("fully_shard, 2 processes x 4 devices", 2, 4),
    "both_spanning": ("tensor parallel 4, fully_shard 2, 2 processes x 4 devices", 2, 4),
}


def laid_out(t, model, name):
    """The model, and what cuts a batch."""
    same = lambda x: x  # noqa: E731
    if name == ONE:
        return model, same
    if name == "ddp":
        return t.nn.parallel.DistributedDataParallel(model), same
    if name == "data":
        mesh = t.sharding.make_mesh(dp=8)
        return t.distribute(model, mesh, lambda name, p: ()), lambda x: x.shard(mesh, "dp")
    if name == "fsdp":
        return t.distributed.fsdp.FullyShardedDataParallel(model, use_orig_params=True), same
    if name == "tensor":
        mesh = t.sharding.make_mesh(dp=2, tp=4)
        rules = {"qkv|up|head": "tp", r"(out|down)\.weight": (None, "tp")}
        return t.distribute(model, mesh, rules), lambda x: x.shard(mesh, "dp")
    return fully(t, model, name.startswith("both")), same


def fully(t, model, with_tensors):
    mesh, shard = None, t.distributed.fsdp.fully_shard
    if with_tensors:
        tp = t.distributed.tensor.parallel
        grid = t.distributed.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        plan = {"up": tp.ColwiseParallel(), "down": tp.RowwiseParallel()}
        for block in model.blocks:
            tp.parallelize_module(block, grid["tp"], plan)
        mesh = grid["dp"]
    for block in model.blocks:
        shard(block, mesh=mesh)
    return shard(model, mesh=mesh)


def losses(t, name, compiled, steps):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    t.manual_seed(0)
    model, cut = laid_out(t, programs.gpt(t, **SIZES), name)
    optimizer = t.optim.AdamW(model.parameters(), lr=3e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(x), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    run, found = t.compile(step) if compiled else step, []
    x, y = (t.tensor(a).reshape(BATCH, -1) for a in programs.sentences(BATCH, SIZES["length"]))
    own = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    for _ in range(steps):
        loss = run(cut(x[own]), cut(y[own])).detach().clone()
        if size > 1:
            t.distributed.all_reduce(loss, t.distributed.ReduceOp.AVG)
        found.append(loss.item())
    return found


def worker(name, steps):
    """Print the losses of eager steps and of compiled ones; of one device those of eager ones."""
    if int(os.environ["WORLD_SIZE"]) > 1:
        torchlike.distributed.init_process_group("gloo")
    found = [losses(torchlike, name, compiled, steps) for compiled in (False, True)[: 1 + (name != ONE)]]
    if os.environ["RANK"] == "0":
        print(json.dumps(found), flush=True)
    if torchlike.distributed.is_initialized():
        torchlike.distributed.destroy_process_group()


def curves(name, steps):
    """The losses, eager and compiled, in processes of their own."""
    _, size, devices = LAYOUTS[name]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    call = [sys.executable, __file__, "worker", name, str(steps)]
    ranks = [
        subprocess.Popen(call, env={**os.environ, **shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    outs = [rank.communicate(timeout=500)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{name}: {[rank.returncode for rank in ranks]}")
    return json.loads(outs[0].splitlines()[-1])


def measure(name, quick=False):
    """The rows of one layout."""
    steps = FEW if quick else STEPS
    one, *_ = curves(ONE, steps)
    rows = []
    for kind, found in zip(("eager", "compiled"), curves(name, steps), strict=True):
        apart = max(abs(a - b) / b for a, b in zip(found, one, strict=True))
        title, note = f"{LAYOUTS[name][0]}, {kind}", f"{steps} steps, {one[0]:.4f} to {one[-1]:.4f}"
        rows.append(Row("losses", title, ONE, ROUNDING, "of a loss", apart / ROUNDING, 1.0, note))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], int(sys.argv[3]))
    else:
        command(__doc__, JOBS["curves"], measure)
