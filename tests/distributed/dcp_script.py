"""Checkpoints of two processes with two devices each: ``dcp_script.py FOLDER``, run by ``test_dcp.py``.

FOLDER/theirs is a checkpoint of PyTorch's. Prints what is wrong; the last save ends in the death of rank 1.
"""

import datetime
import os
import signal
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import torchlike as t
import torchlike.distributed.checkpoint as dcp
from torchlike._core.tensor.tensor import array_of, wrap
from torchlike.distributed.checkpoint.metadata import ChunkStorageMetadata

d = t.distributed
RANK, FOLDER = int(os.environ["RANK"]), sys.argv[1]


class Rows:
    """A tensor of which each rank has some rows, described as PyTorch's sharded tensors are."""

    def __init__(self, shape, begin, rows):
        self.shape, self.begin, self.rows = t.Size(shape), begin, rows
        self.dtype, self.layout, self.requires_grad = rows.dtype, rows.layout, False

    def __create_chunk_list__(self):
        return [ChunkStorageMetadata(t.Size((self.begin, 0)), self.rows.shape)]

    def __get_tensor_shard__(self, index):
        return self.rows


def spread(whole):
    """A tensor over all devices of both processes, rows and columns."""
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
    sharding = NamedSharding(mesh, PartitionSpec("x", "y"))
    return wrap(jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index]))


WHOLE = np.arange(24.0, dtype=np.float32).reshape(4, 6)


def state(factor):
    own = WHOLE[:3] if RANK == 0 else WHOLE[3:]
    return {
        "model": {"a": t.arange(6.0) * factor, "b": t.ones(300) * factor, "c": t.ones(300) * factor},
        "rows": Rows(WHOLE.shape, 3 * RANK, t.tensor(own * factor)),
        "spread": spread(WHOLE * factor),
        "step": factor,
        f"only{RANK}": t.ones(1) * RANK,
    }


def differs(found, factor):
    wanted = state(factor)
    pairs = [(found["model"][k], wanted["model"][k]) for k in "abc"] + [(found["rows"].rows, wanted["rows"].rows)]
    mine, theirs = found["spread"], wanted["spread"]
    for a, b in zip(*[array_of(x).addressable_shards for x in (mine, theirs)], strict=True):
        pairs.append((t.tensor(np.asarray(a.data)), t.tensor(np.asarray(b.data))))
    return found["step"] != factor or not all(t.equal(x, y) for x, y in pairs)


class Dies(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        done = super().write_data(plan, planner)
        if RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


class Fails(dcp.FileSystemWriter):
    def write_data(self, plan, planner):
        if RANK == 1:
            raise OSError("no space left")
        return super().write_data(plan, planner)


def tell(what, wrong):
    print(f"{what}: {'wrong' if wrong else 'right'}", flush=True)


def main():
    d.init_process_group("gloo", timeout=datetime.timedelta(seconds=5))
    from_theirs = {"x": t.zeros(4, 6), "rows": Rows((4, 6), 2 * RANK, t.zeros(2, 6)), "n": 0}
    dcp.load(from_theirs, checkpoint_id=f"{FOLDER}/theirs")
    rows = t.tensor(WHOLE[2 * RANK : 2 * RANK + 2])
    tell("theirs", from_theirs["n"] != 5 or not t.equal(from_theirs["rows"].rows, rows))
    ours = f"{FOLDER}/ours"
    metadata = dcp.save(state(1), checkpoint_id=ours)
    if RANK == 0:  # both write
        tell("files", sorted(os.listdir(ours)) != [".metadata", "__0_0.distcp", "__1_0.distcp"])
    tell("pieces", [len(metadata.state_dict_metadata[k].chunks) for k in ("model.b", "rows", "spread")] != [1, 2, 4])
    d.barrier()
    later = dcp.async_save(state(2), checkpoint_id=ours)
    d.all_reduce(t.ones(1))
    later.result()
    found = state(0)
    dcp.load(found, checkpoint_id=ours)
    tell("later", differs(found, 2))
    begun = [[dcp.async_save(state(k), checkpoint_id=f"{FOLDER}/at{k}") for k in (5, 6, 7)] for _ in range(4)]
    for save in sum(begun, []):  # at once, in one order
        save.result()
    wrong = []
    for k in (5, 6, 7):
        dcp.load(found, checkpoint_id=f"{FOLDER}/at{k}")
        wrong.append(differs(found, k))
    tell("at once", any(wrong))
    try:
        dcp.save(state(3), storage_writer=Fails(ours))
    except dcp.CheckpointException as error:
        tell("fails", list(error.failures) != [1] or "no space left" not in str(error))
    dcp.load(found, checkpoint_id=ours)
    tell("kept", differs(found, 2))
    try:
        dcp.save(state(4), storage_writer=Dies(ours))
    except d.DistError as error:
        tell("dies", "rank 1 gave nothing" not in str(error))
        os._exit(0)  # nobody else is left to wait for


main()
