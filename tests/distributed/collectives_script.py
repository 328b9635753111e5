"""Collectives of two processes: a script for PyTorch and torchlike, run by ``test_collectives.py``.

    python collectives_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. Writes what each case gave on this rank, as JSON.
"""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d = t.distributed
importlib.import_module(f"{sys.argv[1]}.distributed.nn.functional")  # PyTorch's keeps the group that there is now
C = importlib.import_module(f"{sys.argv[1]}.distributed._functional_collectives")
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def plain(x):
    """What a case returned, as numbers and words."""
    if isinstance(x, t.Tensor):
        y = x.detach()
        numbers = t.view_as_real(y) if y.is_complex() else y.double() if y.dtype.is_floating_point else y
        return [str(x.dtype), list(x.shape), list(x.stride()), numbers.tolist()]
    if isinstance(x, list | tuple):
        return [plain(y) for y in x]
    return x if isinstance(x, int | float | str | bool | None) else str(x)


def said(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def mine(rank, dtype, *shape):
    n = 1
    for size in shape:
        n *= size
    x = (t.arange(n) * 3 % 7 + rank + 1).reshape(shape)
    if dtype == "bool":
        return x % 2 == 0
    x = x.to(getattr(t, dtype))
    return x * (1 + 2j) if dtype.startswith("complex") else x


DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "complex64"]
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]


def reduced(rank, dtype, op):
    x = mine(rank, dtype, 2, 3)
    try:
        d.all_reduce(x, getattr(d.ReduceOp, op))
    except Exception as error:
        return type(error).__name__
    return x


@case
def all_reduce(rank):
    return {dtype: plain(reduced(rank, dtype, "SUM")) for dtype in DTYPES}


for op in OPS:
    for dtype in ("float32", "int64", "bool", "bfloat16", "complex64"):
        refused = ("int64", "bool") if op == "AVG" else ("float32", "bfloat16") if op.startswith("B") else ()
        if dtype not in refused:  # in PyTorch a thread of its own fails, and what comes next
            CASES[f"all_reduce {op} {dtype}"] = lambda rank, op=op, dtype=dtype: reduced(rank, dtype, op)


@case
def means_of_large_numbers(rank):
    """Added up before they are divided: infinite."""
    found = []
    for dtype, number in (("float16", 6e4), ("bfloat16", 3e38), ("float32", 3e38), ("float64", 1.6e308)):
        x, y = (t.full((4,), number, dtype=getattr(t, dtype)) for _ in range(2))
        part, parts = t.zeros(2, dtype=x.dtype), t.zeros(2, dtype=x.dtype)
        d.reduce_scatter_single(part, x, d.ReduceOp.AVG)
        d.reduce_scatter(parts, [x[:2], x[2:]], d.ReduceOp.AVG)
        d.all_reduce(x, d.ReduceOp.AVG)
        d.reduce(y, 0, d.ReduceOp.AVG)
        found += [
            part,
            parts,
            x,
            y if rank == 0 else None,
            C.all_reduce(x.clone().fill_(number), "avg", d.group.WORLD) * 1,
        ]
    return [None if y is None else (str(y.dtype), str(y.tolist())) for y in found]


@case
def all_reduce_of_small_things(rank):
    x, y = t.tensor(float(rank + 1)), t.zeros(0)
    d.all_reduce(x)
    d.all_reduce(y)
    return x, y


@case
def later(rank):
    x = mine(rank, "float32", 4)
    work = d.all_reduce(x, async_op=True)
    done = work.wait()
    return x, done, work.is_completed()


@case
def broadcast(rank):
    found = []
    for dtype in DTYPES:
        x = mine(rank, dtype, 3)
        d.broadcast(x, 1)
        found.append(x)
    x = t.tensor([-0.0, float("nan"), float("inf")]) if rank == 0 else t.zeros(3)
    d.broadcast(x, src=0)
    return found, str(x.tolist())


@case
def reduce(rank):
    x = mine(rank, "float32", 3)
    d.reduce(x, 1)
    y = mine(rank, "int64", 3)
    d.reduce(y, 0, d.ReduceOp.MAX)
    return (x if rank == 1 else None), (y if rank == 0 else None)


@case
def all_gather(rank):
    found = []
    for dtype in DTYPES:
        xs = [mine(5, dtype, 2, 2) for _ in range(2)]
        d.all_gather(xs, mine(rank, dtype, 2, 2))
        found.append(xs)
    one = t.zeros(4, 3)
    d.all_gather_into_tensor(one, mine(rank, "float32", 2, 3))
    strided = t.zeros(2, 6).t()[:3]
    outs = [t.zeros(3, 2), strided]
    d.all_gather(outs, mine(rank, "float32", 2, 3).t())
    return found, one, outs


@case
def several_at_once(rank):
    a, b, rows = mine(rank, "float32", 2), mine(rank, "float32", 3), [[t.zeros(2), t.zeros(3)] for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d.all_gather_coalesced(rows, [a, b])
        work = d.all_gather_coalesced(again := [[t.zeros(2), t.zeros(3)] for _ in range(2)], [a, b], async_op=True)
    work.wait()
    whole, part = t.zeros(4), t.zeros(1)
    d.all_gather_single(whole, a)
    d.reduce_scatter_single(part, a)
    with d.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        d.all_reduce(a)
        d.all_reduce(b)
    manager.wait()
    return rows, again, whole, part, a, b


@case
def empty_tensors_beside_others(rank):
    xs = [t.zeros(0), mine(rank, "float32", 3), t.zeros(2, 0), t.tensor(float(rank))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        d.all_reduce_coalesced(xs)
    return xs


@case
def lists_that_are_none(rank):
    x, two, far = t.ones(2), lambda: (t.zeros(2), t.zeros(2)), [None] * 3
    wrong = [
        said(lambda: d.all_gather(two(), x)), said(lambda: d.reduce_scatter(t.zeros(2), two())),
        said(lambda: d.all_to_all(two(), [x, x])), said(lambda: d.all_to_all([x, x], two())),
        said(lambda: d.all_reduce_coalesced(two())), said(lambda: d.all_gather_object([None], rank)),
    ]  # fmt: skip
    d.all_gather_object(far, rank)
    return wrong, far


@case
def reduce_scatter(rank):
    x = t.zeros(2, 3)
    d.reduce_scatter(x, [mine(rank + i, "float32", 2, 3) for i in range(2)])
    y = t.zeros(2, 3)
    d.reduce_scatter_tensor(y, mine(rank, "float32", 4, 3))
    z = t.zeros(3, dtype=t.int64)
    d.reduce_scatter_tensor(z, mine(rank, "int64", 6), d.ReduceOp.MAX)
    return x, y, z


@case
def gather_and_scatter(rank):
    x = mine(rank, "float32", 2)
    found = [t.zeros(2), t.zeros(2)] if rank == 1 else None
    d.gather(x, found, dst=1)
    y = t.zeros(2, 2)
    d.scatter(y, [mine(3 + i, "float32", 2, 2) for i in range(2)] if rank == 0 else None, src=0)
    return found, y


@case
def all_to_all(rank):
    x, y = mine(rank, "float32", 4, 2), t.zeros(4, 2)
    d.all_to_all_single(y, x)
    z = t.zeros(3 if rank == 0 else 5, dtype=t.int64)
    sent = mine(rank, "int64", 4)
    d.all_to_all_single(z, sent, *([[1, 2], [1, 3]] if rank == 0 else [[3, 2], [2, 2]]))
    outs = [t.zeros(2), t.zeros(2)]
    listed = said(lambda: d.all_to_all(outs, [mine(rank + i, "float32", 2) for i in range(2)]))
    return y, z, outs, listed


@case
def send_and_receive(rank):
    x, y = mine(rank, "float32", 2, 3), t.zeros(2, 3)
    if rank == 0:
        d.send(x, 1)
        back = d.recv(y, src=1)
    else:
        back = d.recv(y)
        d.send(x * 2, 0)
    z, w = mine(rank, "complex64", 2), t.zeros(2, dtype=t.complex64)
    works = [d.isend(z, 1 - rank, tag=3), d.irecv(w, 1 - rank, tag=3)]
    for work in works:
        work.wait()
    ops = [d.P2POp(d.isend, x, 1 - rank), d.P2POp(d.irecv, y, 1 - rank)]
    for work in d.batch_isend_irecv(ops):
        work.wait()
    return y, back, w


@case
def uneven_lists(rank):
    """PyTorch's gloo cuts them for sums only."""
    own = t.zeros(rank + 1, 2)
    d.reduce_scatter(own, [t.ones(i + 1, 2) * (rank + 1) * (i + 1) for i in range(2)])
    least = t.zeros(rank + 1, dtype=t.int32)
    d.reduce_scatter(least, [t.arange(i + 1).int() - rank for i in range(2)], op=d.ReduceOp.MIN)
    return own, least


@case
def cut_beyond_gloo(rank):
    gathered, came = [t.zeros(1), t.zeros(2)], [t.zeros(2 * i + rank + 1) for i in range(2)]
    number = t.tensor(0.0)
    d.all_gather(gathered, t.ones(rank + 1))
    d.all_to_all(came, [t.arange(2.0 * rank + i + 1) + 10 * rank for i in range(2)])
    d.reduce_scatter_tensor(number, t.arange(2.0) + rank)
    return *gathered, *came, number


@case
def objects(rank):
    found, told = [None, None], [{"a": rank}, rank] if rank == 0 else [None, None]
    d.all_gather_object(found, {"rank": rank, "x": t.ones(2)})
    d.broadcast_object_list(told, src=0)
    gathered = [None, None] if rank == 0 else None
    d.gather_object(("g", rank), gathered, dst=0)
    given = [None]
    d.scatter_object_list(given, ["s0", "s1"] if rank == 1 else None, src=1)
    return found[1]["rank"], found[0]["x"], str(told), str(gathered), given


@case
def groups(rank):
    first, second, both = d.new_group([0]), d.new_group([1]), d.new_group([0, 1])
    x = t.ones(2) * (rank + 1)
    d.all_reduce(x, group=both)
    y = t.ones(2) * (rank + 1)
    own = first if rank == 0 else second
    d.all_reduce(y, group=own)
    d.barrier(both)
    return (
        x, y, d.get_rank(first), d.get_world_size(first), d.get_world_size(own), d.get_rank(both),
        d.get_process_group_ranks(both), d.get_group_rank(both, 1), d.get_global_rank(both, 0), d.get_world_size(),
    )  # fmt: skip


@case
def outside_of_a_group(rank):
    """A process that calls for a group of others is warned, or told."""
    away, x = 1 - rank, t.ones(2)
    other = [d.new_group([0]), d.new_group([1])][away]
    calls = {
        "all_reduce": [x], "all_reduce_coalesced": [[x]], "broadcast": [x, away], "reduce": [x, away],
        "all_gather": [[x], x], "all_gather_into_tensor": [x, x], "all_gather_coalesced": [[[x]], [x]],
        "gather": [x, None, away], "scatter": [x, None, away], "reduce_scatter": [x, [x]],
        "reduce_scatter_tensor": [x, x], "all_to_all": [[x], [x]], "all_to_all_single": [x, x], "barrier": [],
        "monitored_barrier": [], "all_gather_object": [[None], 1], "gather_object": [1, None, away],
        "broadcast_object_list": [[1], away], "scatter_object_list": [[None], None, away], "send": [x, away],
        "isend": [x, away], "recv": [x, away], "irecv": [x, away], "send_object_list": [[1], away],
        "recv_object_list": [[1], away],
    }  # fmt: skip
    found = []
    for name, arguments in calls.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                result = str(getattr(d, name)(*arguments, group=other))
            except ValueError as error:
                result = str(error)
        found.append([name, result, [str(w.message) for w in told if "global rank" in str(w.message)]])
    return found


@case
def groups_of_functional_collectives(rank):
    mesh = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh").init_device_mesh
    square, line = mesh("cpu", (1, 2), mesh_dim_names=("a", "b")), mesh("cpu", (2,))
    found = []
    for group in ([0, 1], [[0], [1]], [[0], [0, 1]], d.group.WORLD, line, square, (square, 1), (1, 2), 3):
        try:
            tag, *rest = C._expand_group(group)
            found.append([tag[:4], *rest])
        except (AssertionError, ValueError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found, C._expand_group(d.group.WORLD, "tag")


@case
def as_methods(rank):
    """Collectives that a group has, as hooks of gradients call them."""
    world, x, out = d.group.WORLD, mine(rank, "float32", 2), [t.zeros(2), t.zeros(2)]
    sums = [world.allreduce([x]).get_future().wait()[0].clone(), x.clone()]
    world.allreduce(x, d.ReduceOp.MAX).wait()
    world.allgather([out], [x + rank]).wait()
    y, z, part, both = mine(rank, "float32", 2), mine(rank, "float32", 2), t.zeros(2), t.zeros(4)
    world.broadcast(y, 1).wait()
    world.reduce(z, 1).wait()
    world.reduce_scatter(part, [x + rank, x]).wait()
    world._allgather_base(both, part).wait()
    there = world.send([y + 1], 1, 3) if rank == 0 else world.recv([y], 0, 3)
    there.wait()
    swapped = t.zeros(2)
    world.alltoall_base(swapped, y, [], []).wait()
    world.barrier().wait()
    return [*sums, x, *out, y, z if rank else 0, part, both, swapped]


@case
def functional_forms(rank):
    world, x = d.group.WORLD, mine(rank, "float32", 4)
    whole, part, same, came, both = t.zeros(8), t.zeros(2), x.clone(), t.zeros(4), [t.zeros(4), t.zeros(4)]
    C.all_gather_tensor_inplace(whole, x, world)
    C.reduce_scatter_tensor_inplace(part, x, "max", world)
    C.all_reduce_inplace(same, "sum", world)
    C.all_to_all_inplace(came, x, group=world)
    C.all_gather_inplace(both, x, world)
    moved = [C.permute_tensor(x, to, world) + 0 for to in ([1, 0], [0, 1])]
    turned = C.all_reduce(mine(rank, "float32", 2, 3).t(), "sum", world) + 0
    named = C.all_reduce(x, "avg", world.group_name) + 0
    return whole, part, same, came, both, moved, turned, named, list(C.REDUCE_OP_TO_STR.values())


@case
def facts_of_messages_and_groups(rank):
    op = d.P2POp(d.isend, t.ones(1), 1 - rank)
    again = d.P2POp(d.irecv, t.ones(1), group=d.new_group([0, 1]), group_peer=1 - rank)
    y = t.zeros(2)
    if rank == 0:
        d.send(t.ones(2), 1)
    else:
        work = d.irecv(y)
        work.wait()
        assert work._source_rank() == 0
    with d._coalescing_manager():
        d.all_reduce(y)
    groups = [d.new_group(group_desc=name).group_desc for name in (None, "pairs")]
    return op.peer, op.group_peer, again.peer, again.group_peer, y, d.group.WORLD.group_desc, groups


@case
def backends(rank):
    names = [str(d.Backend(b)) for b in BACKENDS if isinstance(b, str)]
    return names, [said(lambda b=b: d.Backend(b)) for b in BACKENDS]


BACKENDS = ["GLOO", "nccl", "foo", "", None, 3, ["gloo"]]


@case
def refusals(rank):
    two = [t.zeros(2), t.zeros(2)]
    return {
        "gathered shape": said(lambda: d.all_gather([t.zeros(3), t.zeros(3)], t.zeros(2))),
        "gathered dtype": said(lambda: d.all_gather([t.zeros(2).double()] * 2, t.zeros(2))),
        "gathered length": said(lambda: d.all_gather([t.zeros(2)], t.zeros(2))),
        "into shape": said(lambda: d.all_gather_into_tensor(t.zeros(5), t.zeros(2))),
        "into dtype": said(lambda: d.all_gather_into_tensor(t.zeros(4).double(), t.zeros(2))),
        "scattered shape": said(lambda: d.reduce_scatter_tensor(t.zeros(3), t.zeros(4))),
        "scattered list": said(lambda: d.reduce_scatter(t.zeros(2), [t.zeros(2)])),
        "root": said(lambda: d.broadcast(t.zeros(2), 2)),
        "destination": said(lambda: d.reduce(t.zeros(2), 7)),
        "no tensor": said(lambda: d.all_reduce(3)),
        "no list": said(lambda: d.all_gather(t.zeros(2), t.zeros(2))),
        "to itself": said(lambda: d.send(t.zeros(2), rank)),
        "no gather list": said(lambda: d.gather(t.zeros(2), two if rank else None, dst=0)),
        "split sizes": said(lambda: d.all_to_all_single(t.zeros(4), t.zeros(4), [1, 1], [2, 2])),
        "bad group": said(lambda: d.new_group([0, 5])),
        "twice": said(lambda: d.init_process_group("gloo")),
        "a leaf": said(lambda: d.all_reduce(t.ones(2, requires_grad=True))),
    }


if __name__ == "__main__":
    ranks.run(d, CASES, told=lambda result: result if isinstance(result, dict) else plain(result))
