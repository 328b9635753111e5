"""What goes wrong between two processes: a script for torchlike, ``faults_script.py CASE``, run by ``test_faults.py``.

Prints each error with the seconds that it took.
"""

import datetime
import functools
import os
import signal
import sys
import time

import torchlike as t

d = t.distributed
RANK = int(os.environ["RANK"])


def start(seconds):
    d.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
    d.all_reduce(t.ones(2))


def tell(name, call):
    begun = time.monotonic()
    try:
        call()
    except Exception as error:
        print(f"{name}: rank {RANK}, {time.monotonic() - begun:.1f} s, {type(error).__name__}: {error}", flush=True)
        return
    print(f"{name}: rank {RANK}, no error", flush=True)


@functools.partial(t.compile, fullgraph=True)
def in_a_program(x):
    d.all_reduce(x)
    return x * 2


def killed(victim=1):
    """In a backward, in which the others wait for gradients."""
    start(20)
    model = t.nn.parallel.DistributedDataParallel(t.nn.Linear(2, 2))
    if RANK == victim:
        model.module.weight.register_hook(lambda g: os.kill(os.getpid(), signal.SIGKILL))
    tell("killed", lambda: model(t.ones(1, 2)).sum().backward())
    tell("again", lambda: d.all_reduce(t.ones(1)))


def first_killed():
    """Rank 0 may keep nothing that the others need to say so."""
    killed(victim=0)


def dropped():
    """One comes to the barrier, and dies before it takes part in a sum that nobody waits for."""
    start(6)
    if RANK == 0:
        d.all_reduce(t.ones(2), async_op=True)
        tell("dropped", d.barrier)
        return
    next(d.group.WORLD.calls)
    d.barrier(async_op=True)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def gone():
    """One dies at once; whatever the other one waits for of it, no collective says so."""
    start(20)
    if RANK:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
    x = t.ones(2)
    tell("received", lambda: d.recv(x, 1))
    tell("of any", lambda: d.recv(x))
    tell("begun", lambda: d.batch_isend_irecv([d.P2POp(d.irecv, x, 1)])[0].wait())
    tell("object", lambda: d.all_gather_object([None, None], 3))
    tell("checkpoint", lambda: d.checkpoint.save({"x": x}, checkpoint_id=f"/tmp/torchlike-gone-{os.getpid()}"))
    stage = d.pipelining.PipelineStage(t.nn.Linear(2, 2), 0, 2, t.device("cpu"), input_args=(x,), output_args=(x,))
    schedule = d.pipelining.ScheduleGPipe(stage, 2, loss_fn=lambda y, target: y.sum())
    tell("pipeline", lambda: schedule.step(t.ones(4, 2)))
    tell("barrier", d.barrier)


def late():
    start(2)
    time.sleep(5 * RANK)
    if RANK == 0:
        tell("late", lambda: in_a_program(t.ones(3)))


def of_a_mesh():
    """One dies while the other reads a DTensor; then nobody answers it."""
    start(6)
    mesh = d.init_device_mesh("cpu", (2,))
    x = d.tensor.distribute_tensor(t.arange(4.0), mesh, [d.tensor.Shard(0)])
    x.full_tensor()
    d.barrier()
    if RANK:
        os.kill(os.getpid(), signal.SIGKILL)
    tell("whole of a mesh", x.full_tensor)
    tell("of a mesh", lambda: x.sum().full_tensor())


def late_on_a_mesh():
    start(3)
    x = d.tensor.distribute_tensor(t.arange(4.0), d.init_device_mesh("cpu", (2,)), [d.tensor.Shard(0)])
    d.barrier()
    time.sleep(20 * RANK)
    x.sum().full_tensor()


def alone():
    """The other one never comes."""
    tell("alone", lambda: start(2))


def first_time():
    """Without a debug level; the ranks differ in what none of them has done before."""
    start(5)
    tell("kinds", lambda: d.broadcast(t.ones(3), 0) if RANK else d.all_reduce(t.ones(3)))
    tell("programs", lambda: in_a_program(t.ones(2 + RANK)))
    tell("sizes", lambda: d.all_gather([t.ones(1 + RANK), t.ones(2)], t.ones(1 + RANK)))
    mine = [t.ones(1 + RANK), t.ones(2)]
    tell("parts", lambda: d.all_to_all(mine, [t.ones(1), t.ones(2)]))
    tell("fine", lambda: d.all_reduce(t.ones(2)))
    tell("asymmetric", lambda: d.all_reduce(t.ones(2 + 5 * RANK)))


def swapped():
    """Two that both have done before; XLA's transport would end the process that gets more than it waits for."""
    start(20)
    few, many = t.ones(3), t.ones(5000)
    for _ in range(2):
        d.all_reduce(few)
        d.all_reduce(many)
    tell("swapped", lambda: d.all_reduce(many if RANK else few))
    tell("again", lambda: d.all_reduce(few))
    time.sleep(5)  # whoever has begun looks around after a while, if the other is still there


def mismatches():
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL; nobody is lost, so that the next call is right again."""
    start(2)
    DDP = t.nn.parallel.DistributedDataParallel
    tell("shapes", lambda: d.all_reduce(t.ones(2 + RANK)))
    tell("dtypes", lambda: d.all_reduce(t.ones(2, dtype=[t.float32, t.int32][RANK])))
    tell("order", lambda: d.all_reduce(t.ones(2)) if RANK else d.broadcast(t.ones(2), 0))
    tell("programs", lambda: in_a_program(t.ones(2 + RANK)))
    tell("root", lambda: d.broadcast(t.ones(2), RANK))
    tell("fine", lambda: d.all_reduce(t.ones(2)))
    tell("models", lambda: DDP(t.nn.Linear(2 + RANK, 2)))
    tell("more parameters", lambda: DDP(t.nn.Sequential(*[t.nn.Linear(2, 2) for _ in range(RANK + 1)])))
    if RANK == 0:
        tell("nothing sent", lambda: d.recv(t.ones(3), 1))
        d.send(t.ones(3), 1)
        tell("barrier", lambda: d.barrier(timeout=datetime.timedelta(seconds=1)))
    else:
        time.sleep(0.2)
        tell("another message", lambda: d.recv(t.ones(2), 0))
        time.sleep(2)


globals()[sys.argv[1]]()
