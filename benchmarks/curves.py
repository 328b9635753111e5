"""Loss curves of one GPT on one device and on eight, in the ways to use them: ``python benchmarks/curves.py [STEPS]``.

Prints for each layout, eagerly and compiled, the largest difference of a loss from that of one device, over it. The
devices are made of the CPU, the numbers the same for all, the batch that of all devices together.
"""

import json
import os
import socket
import subprocess
import sys

import _programs as programs

import torchlike

BATCH, SIZES = 16, {"layers": 2, "width": 64, "heads": 4, "length": 32}
# of each layout: processes, devices of each
LAYOUTS = {
    "one device": (1, 1),
    "data over 8 devices": (1, 8),
    "DistributedDataParallel, 8 processes": (8, 1),
    "fully_shard over 8 devices": (1, 8),
    "FullyShardedDataParallel over 8 devices": (1, 8),
    "tensor parallel 2x4": (1, 8),
    "tensor parallel 4, fully_shard 2": (1, 8),
    "fully_shard, 2 processes x 4 devices": (2, 4),
    "tensor parallel 4, fully_shard 2, 2 processes x 4 devices": (2, 4),
}


def laid_out(t, model, name):
    """The model, and what cuts a batch."""
    same = lambda x: x  # noqa: E731
    if name == "one device":
        return model, same
    if name.startswith("Distributed"):
        return t.nn.parallel.DistributedDataParallel(model), same
    if name.startswith("data"):
        mesh = t.sharding.make_mesh(dp=8)
        return t.distribute(model, mesh, lambda name, p: ()), lambda x: x.shard(mesh, "dp")
    if name.startswith("Fully"):
        return t.distributed.fsdp.FullyShardedDataParallel(model, use_orig_params=True), same
    if name.startswith("tensor parallel 2x4"):
        mesh = t.sharding.make_mesh(dp=2, tp=4)
        rules = {"qkv|up|head": "tp", r"(out|down)\.weight": (None, "tp")}
        return t.distribute(model, mesh, rules), lambda x: x.shard(mesh, "dp")
    return fully(t, model, name.startswith("tensor")), same


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
    if size > 1:
        t.distributed.init_process_group("gloo")
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


def worker(name, compiled, steps):
    found = losses(torchlike, name, compiled, steps)
    if os.environ["RANK"] == "0":
        print(json.dumps(found), flush=True)
    if torchlike.distributed.is_initialized():
        torchlike.distributed.destroy_process_group()


def curve(name, compiled, steps):
    """The losses in processes of their own."""
    size, devices = LAYOUTS[name]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size), "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    call = [sys.executable, __file__, "worker", name, "compiled" * compiled, str(steps)]
    ranks = [
        subprocess.Popen(call, env={**os.environ, **shared, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    outs = [rank.communicate(timeout=500)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{name}: {[rank.returncode for rank in ranks]}")
    return json.loads(outs[0].splitlines()[-1])


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    one = curve("one device", False, steps)
    print(f"{steps} steps, losses {one[0]:.4f} to {one[-1]:.4f}", flush=True)
    for name in LAYOUTS:
        found = [curve(name, compiled, steps) for compiled in (False, True)]
        apart = [max(abs(a - b) / b for a, b in zip(curve_, one, strict=True)) for curve_ in found]
        print(f"{name:60} eager {apart[0]:.1e} compiled {apart[1]:.1e}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], bool(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
