"""Methods of a group with options, its store, queues of stores, hooks of gradients by name, and whole parameters.

A script for PyTorch and torchlike:

    python group_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. Writes what each case gave on this rank, as JSON.
"""

import datetime
import importlib
import os
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
fsdp = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp")
hooks = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks")
warnings.simplefilter("ignore")
CASES = {}
NAMES = ("Allreduce", "AllreduceCoalesced", "Broadcast", "Reduce", "Gather", "Scatter", "ReduceScatter", "AllToAll",
         "Barrier")  # fmt: skip


def case(f):
    CASES[f.__name__] = f
    return f


def said(f):
    try:
        return str(f())
    except Exception as error:
        return type(error).__name__


def made(kind, **values):
    options = getattr(d, f"{kind}Options")()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def numbers(rank, count=2):
    return t.arange(float(count)) + 10 * rank


@case
def what_options_are(rank):
    told = [(kind, [n for n in dir(made(kind)) if n[0] != "_"], str(made(kind).timeout)) for kind in NAMES]
    other = [said(lambda: made("Allreduce", foo=1)), said(lambda: made("Allreduce", reduceOp=1))]
    op, summed = d.ReduceOp.MAX, made("Reduce").reduceOp == d.ReduceOp.SUM
    return told, other, said(lambda: d.AllreduceOptions(3)), str(op), repr(op), summed


@case
def collectives_with_options(rank):
    group, op = d.group.WORLD, d.ReduceOp.MAX
    x, y, z, parts, own = (numbers(rank) for _ in range(5))
    group.allreduce([x], made("Allreduce", reduceOp=op)).wait()
    group.broadcast([y], made("Broadcast", rootRank=1)).wait()
    group.reduce([z], made("Reduce", rootRank=1, reduceOp=op)).wait()
    rows = [t.zeros(2), t.zeros(2)] if rank else []
    group.gather([rows] if rank else [], [numbers(rank)], made("Gather", rootRank=1)).wait()
    group.scatter([own], [[parts, parts + 1]] if rank else [], made("Scatter", rootRank=1)).wait()
    return [v.tolist() for v in (x, y, z if rank else y, *rows, own)]


@case
def more_with_options(rank):
    group, op, two = d.group.WORLD, d.ReduceOp.MAX, [t.zeros(2), t.zeros(2)]
    part, base, moved, several = t.zeros(2), t.zeros(2), t.zeros(2), [numbers(rank), numbers(rank, 3)]
    group.allgather([two], [numbers(rank)]).wait()
    group.reduce_scatter([part], [[numbers(rank), numbers(rank) + 1]], made("ReduceScatter", reduceOp=op)).wait()
    group._reduce_scatter_base(base, numbers(rank, 4), made("ReduceScatter", reduceOp=op)).wait()
    group.alltoall_base(moved, numbers(rank), [], [], made("AllToAll")).wait()
    group.allreduce_coalesced(several, made("AllreduceCoalesced")).wait()
    group.barrier(made("Barrier", timeout=datetime.timedelta(seconds=20))).wait()
    return [v.tolist() for v in (*two, part, base, moved, *several)]


@case
def other_forms(rank):
    group, found = d.group.WORLD, [numbers(rank) for _ in range(6)]
    group.allreduce([found[0]], d.ReduceOp.MIN).wait()
    group.allreduce(found[1], op=d.ReduceOp.MAX, timeout=datetime.timedelta(seconds=20)).wait()
    group.broadcast(found[2], root=1).wait()
    group.broadcast([found[3]]).wait()
    group.reduce(found[4], root=rank * 0, op=d.ReduceOp.MAX).wait()
    if rank:
        group.send([numbers(1)], 0, 5).wait()
    else:
        group.recv_anysource([found[5]], 5).wait()
    group.monitored_barrier()
    group.set_timeout(datetime.timedelta(seconds=25))
    return [v.tolist() for v in found[:4]], found[4 + rank].tolist(), [d.supports_complex(op) for op in OPS]


OPS = [getattr(d.ReduceOp, name) for name in ("SUM", "AVG", "PRODUCT", "MIN", "BAND")]


@case
def how_many_groups(rank):
    before = d.get_pg_count()
    one, both = d.new_group([1]), d.new_group()
    d.barrier()
    if rank:
        d.destroy_process_group(one)
    return d.get_pg_count() - before, both.size()


@case
def groups_without_this_process(rank):
    """They are all one number, which means the last."""
    c10d = importlib.import_module(f"{sys.argv[1]}.distributed.distributed_c10d")
    d.new_group([1 - rank])
    first, other = (d.new_group([r]) for r in range(2))
    made = [d.new_group([0, 1], group_desc="both"), first, other]
    asked = (
        d.get_process_group_ranks, d.get_rank, d.get_world_size, lambda g: d.get_group_rank(g, 1 - rank),
        lambda g: d.get_global_rank(g, 0), lambda g: c10d._world.pg_group_ranks[g],
    )  # fmt: skip
    found = [[said(lambda f=f, g=g: f(g)) for f in asked] for g in made]
    world = c10d._world
    counts = [len(world.pg_map), len(world.pg_names), len(world.pg_group_ranks), world.group_count - len(made)]
    told = [(x["pg_desc"], x["ranks"], x["group_size"]) for x in world.pg_config_info][-2:]
    for g in made:
        d.destroy_process_group(g)
    return found, counts, told


@case
def meshes_of_groups(rank):
    mesh = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh")
    known, grid = mesh._mesh_resources, d.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    lines = mesh.DeviceMesh.from_group(grid.get_group("dp"), "cpu", mesh_dim_names=("w",))
    again = [grid.get_group("dp"), grid.get_group("tp")]
    whole = mesh.DeviceMesh.from_group(again, "cpu", mesh=[[0], [1]], mesh_dim_names=("a", "b"))
    with grid:
        within = known.get_current_mesh() is grid, len(known.mesh_stack)
    parts = [part.mesh.tolist() for part in known._get_all_submeshes(grid, "tp")]
    wrong = said(lambda: mesh.DeviceMesh.from_group(again, "cpu"))
    facts = known.get_root_mesh(grid["dp"]) is grid, known.num_hosts("cpu"), known.num_devices_per_host("cpu")
    groups = lines.get_group() is grid.get_group("dp"), whole.get_group("b") is grid.get_group("tp"), whole.shape
    return lines.mesh.tolist(), groups, within, len(known.mesh_stack), parts, wrong, facts


def used(store, rank):
    """What both ranks do to the same keys of a store."""
    store.set(f"a/{rank}", b"\xff\x00")
    won = store.compare_set("leader", "", str(rank)).decode() == store.get("leader").decode()
    for _ in range(20):
        store.append("text", "x")
        store.queue_push("queue", str(rank))
        counted = store.compare_set("count", store.get("count"), "0") if store.check(["count"]) else None
    total = store.add("n", 2 + rank)
    store.set(f"done{rank}", "")
    store.wait(["done0", "done1"])
    there = store.get("a/0"), store.get("a/1"), len(store.get("text")), store.add("n", 0), store.queue_len("queue")
    empty = said(lambda: store.queue_pop("nothing", False))
    keys = store.check(["a/0"]), store.check(["a"]), store.check(["queue"]), total > 1, counted
    d.barrier()
    mine = [store.queue_pop("queue") for _ in range(20)]
    store.set(f"gone{rank}", "")
    store.wait(["gone0", "gone1"])
    store.set_timeout(datetime.timedelta(milliseconds=200))
    late = said(lambda: store.get("never")), said(lambda: store.queue_pop("queue"))
    kept = [store.compare_set("other", *pair).decode() for pair in (("z", "y"), ("", "x"))] if rank else []
    return won, [str(v) for v in there], empty, keys, len(mine), store.queue_len("queue"), late, kept


@case
def the_store_of_all(rank):
    store = d.distributed_c10d._get_default_store()
    return used(d.PrefixStore("mine", store), rank)


@case
def the_store_of_a_group(rank):
    group = d.new_group()
    store = group.get_group_store()
    store.set("a", "1") if rank else store.wait(["a"])
    store.wait(["a"])
    d.barrier()
    if rank:
        store.set("a/b", "2")
        found = store.delete_key("a"), store.delete_key("a"), store.check(["a/b"])
    d.barrier()
    return store.check(["a"]), store.get("a/b").decode(), found if rank else None


@case
def a_store_over_the_network(rank):
    store = d.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1, 2, rank == 0)
    found = used(store, rank)
    d.barrier()
    return found, store.port > 0


@case
def a_file_has_no_queues(rank):
    store = d.FileStore(f"{sys.argv[2]}.store{rank}", 1)
    return said(lambda: store.queue_push("a", "b")), store.has_extended_api(), store.delete_key("x"), store.num_keys()


def trained(model, rank):
    """The sums of the parameters after two steps."""
    optimizer = t.optim.SGD(model.parameters(), lr=0.1)
    for i in range(2):
        optimizer.zero_grad()
        model((t.arange(24.0).reshape(4, 6) + i + rank) / 24).square().mean().backward()
        optimizer.step()
    return [round(float(p.detach().sum()), 4) for p in model.parameters()]


def filled():
    model = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 3))
    with t.no_grad():
        for p in model.parameters():
            p.copy_((t.arange(p.numel()) * 5 % 7 - 3).reshape(p.shape) / 7)
    return model


@case
def hooks_by_name(rank):
    found = {}
    for kind in hooks.DDPCommHookType:
        if "BF16" in kind.name or "QUANTIZE" in kind.name:
            continue
        model = nn.parallel.DistributedDataParallel(filled())
        hooks.register_ddp_comm_hook(kind, model)
        found[kind.name] = trained(model, rank)
    return found


@case
def what_powersgd_has_sent(rank):
    model = nn.parallel.DistributedDataParallel(filled())
    state = hooks.powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=1)
    before = state.compression_stats()
    model.register_comm_hook(state, hooks.powerSGD_hook.powerSGD_hook)
    trained(model, rank), trained(model, rank)
    return before, state.compression_stats()


@case
def the_processes_of_a_mesh(rank):
    line = d.init_device_mesh("cpu", (2,))
    grid = d.init_device_mesh("cpu", (2, 1), mesh_dim_names=("a", "b"))
    model = nn.parallel.DistributedDataParallel(filled(), device_mesh=line)
    both = said(lambda: nn.parallel.DistributedDataParallel(filled(), process_group=d.group.WORLD, device_mesh=line))
    return trained(model, rank), both, said(lambda: nn.parallel.DistributedDataParallel(filled(), device_mesh=grid))


def facts(model):
    return [(type(p).__name__, list(p.shape), p.is_leaf, p.requires_grad) for p in model.parameters()]


@case
def what_unshard_gives(rank):
    model, told = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), []
    with t.no_grad():
        for p in model.parameters():
            p.copy_(t.arange(p.numel()).reshape(p.shape) / 7)
    fsdp.fully_shard(model[0])
    fsdp.fully_shard(model)
    model.unshard()
    told += [facts(model), [type(v).__name__ for v in model.state_dict().values()], facts(model)]
    for m in (model[0], model):
        m.unshard()
    with t.no_grad():
        model[0].weight.add_(1)
    told += [facts(model), [p.tolist() for p in model.parameters()]]
    y = model(t.ones(2, 3) * (rank + 1)).sum()
    y.backward()
    grads = [p.grad.full_tensor().tolist() for p in model.parameters()]
    return told, y.item(), grads, facts(model), [p.full_tensor().tolist() for p in model.parameters()]


if __name__ == "__main__":
    ranks.run(d, CASES)
