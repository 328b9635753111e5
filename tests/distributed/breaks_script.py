"""What users get wrong, and what they try: ``breaks_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys
import warnings
from datetime import timedelta

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
DDP = nn.parallel.DistributedDataParallel
hooks = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks.default_hooks")
power = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def raised(call):
    """The type of what a call raises, with the names that it has in both libraries."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def model_of():
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    with t.no_grad():
        for p in model.parameters():
            p.copy_(((t.arange(p.numel()) * 7 % 11 - 5) / 16).reshape(p.shape))
    return model


def batch(rank, step=0):
    return ((t.arange(20) * 5 % 9 - 4 + rank + 2 * step) / 8).reshape(5, 4)


def rounded(tensors):
    return [round(v, 4) + 0.0 for x in tensors for v in x.detach().double().flatten().tolist()]


def gradients(model):
    return rounded(p.grad for p in model.parameters())


def stepped(model, optimizer, rank, steps):
    for k in range(steps):
        optimizer.zero_grad()
        model(batch(rank, k)).pow(2).sum().backward()
        optimizer.step()
    return rounded(model.parameters())


# -- groups and messages -----------------------------------------------------------------------------------------------
@case
def groups_that_are_none(rank):
    wrong = [[0, 0], [0, 5], [-1], [0, 1, 2, 3]]
    return [raised(lambda ranks=ranks: d.new_group(ranks)) for ranks in wrong], raised(lambda: d.new_subgroups(3))


@case
def a_group_in_another_order(rank):
    group, found = d.new_group([1, 0]), [t.zeros(1), t.zeros(1)]
    d.all_gather(found, t.tensor([float(rank)]), group=group)
    return [x.item() for x in found], d.get_process_group_ranks(group), d.get_rank(group)


@case
def a_group_of_the_other(rank):
    group, x = d.new_group([0]), t.ones(2) * (rank + 1)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        d.all_reduce(x, group=group)
    return d.get_rank(group), x.tolist(), [str(w.message)[:60] for w in told]


@case
def a_group_that_is_destroyed(rank):
    group = d.new_group([0, 1])
    d.all_reduce(t.ones(1), group=group)
    d.barrier(group)
    d.destroy_process_group(group)
    return raised(lambda: d.get_rank(group)), raised(lambda: d.destroy_process_group(group))


@case
def messages_to_oneself(rank):
    return raised(lambda: d.send(t.ones(2), rank)), raised(lambda: d.P2POp(d.send, t.ones(2), 0))


@case
def a_message_of_anybody(rank):
    x = t.zeros(2)
    return d.send(t.ones(2) * 5, 1) if rank == 0 else (d.recv(x), x.tolist())


@case
def messages_in_a_batch(rank):
    x, y = t.ones(2) * (rank + 1), t.zeros(2)
    works = d.batch_isend_irecv([d.P2POp(d.isend, x, 1 - rank), d.P2POp(d.irecv, y, 1 - rank)])
    for work in works:
        work.wait()
    return y.tolist(), raised(lambda: d.batch_isend_irecv([3])), raised(lambda: d.batch_isend_irecv([]))


# -- collectives -------------------------------------------------------------------------------------------------------
@case
def a_work_that_is_waited_for_twice(rank):
    x = t.ones(2)
    work = d.all_reduce(x, async_op=True)
    return work.wait(), work.wait(), x.tolist(), work.is_completed(), work.is_success()


@case
def large_objects(rank):
    mine = {"a": list(range(200_000)), "b": b"x" * (1 << 22), "rank": rank}
    every, given, parts = [None, None], [mine if rank == 0 else None, "k" if rank == 0 else None], [None]
    d.all_gather_object(every, mine)
    d.broadcast_object_list(given, 0)
    gathered = [None, None] if rank == 0 else None
    d.gather_object(mine, gathered, 0)
    d.scatter_object_list(parts, [mine, 5] if rank == 0 else None, 0)
    ranks_of = [len(x["a"]) + x["rank"] for x in every], gathered and [x["rank"] for x in gathered]
    return ranks_of, given[0]["rank"], given[1], parts[0] if rank else parts[0]["rank"]


@case
def objects_that_cannot_travel(rank):
    wrong = raised(lambda: d.gather_object(1, [None, None], 0)) if rank else None
    return raised(lambda: d.all_gather_object([None, None], lambda: 3)), wrong


@case
def barriers(rank):
    limit = timedelta(seconds=20)
    calls = [
        lambda: d.barrier(device_ids=[0]), lambda: d.barrier(device_ids=0), lambda: d.barrier(async_op=True).wait(),
        lambda: d.monitored_barrier(timeout=limit), lambda: d.monitored_barrier(timeout=limit, wait_all_ranks=True),
    ]  # fmt: skip
    return [raised(call) for call in calls]


@case
def wrong_arguments(rank):
    two, three = t.zeros(2), t.zeros(3)
    calls = [
        lambda: d.all_gather([two], two), lambda: d.all_gather([two, two.long()], two), lambda: d.all_gather(two, two),
        lambda: d.all_reduce([two]), lambda: d.all_reduce(two, op="sum"), lambda: d.reduce_scatter(two, [two]),
        lambda: d.scatter(two, [two, two], src=1 - rank), lambda: d.scatter(two, None, src=rank),
        lambda: d.gather(two, [two, two], dst=1 - rank), lambda: d.all_gather_into_tensor(three, two),
        lambda: d.all_to_all([two], [two]), lambda: d.all_to_all_single(t.zeros(4), t.zeros(4), [1, 2], [2, 2]),
        lambda: d.reduce_scatter_tensor(three, t.zeros(5)), lambda: d.all_reduce(three, d.ReduceOp.BOR),
        lambda: d.all_reduce(t.zeros(2, dtype=t.complex64), d.ReduceOp.MAX),
    ]  # fmt: skip
    return [raised(call) for call in calls]


@case
def tensors_that_lie_otherwise(rank):
    x, parts = (t.arange(6.0).reshape(2, 3) * (rank + 1)).t(), [t.zeros(3, 2), t.zeros(3, 2)]
    d.all_gather(parts, x)
    d.all_reduce(x)
    y = t.arange(6.0).reshape(2, 3) * (rank + 1)
    d.broadcast(y[1], 1)
    d.all_reduce(y[0])
    grown = t.ones(3, requires_grad=True) * 2
    d.broadcast(grown, 0)
    return x.tolist(), [part.tolist() for part in parts], y.tolist(), grown.tolist()


@case
def rows_of_unequal_numbers(rank):
    x, y = t.arange(4.0) + 10 * rank, t.empty(2 + 4 * rank)
    d.all_to_all_single(y, x, [1 + 2 * rank] * 2, [1, 3])
    return y.tolist()


# -- training ----------------------------------------------------------------------------------------------------------
@case
def samplers(rank):
    found = []
    for n in (7, 8, 1, 2, 5):
        for drop_last in (False, True):
            for shuffle in (False, True):
                s = t.utils.data.DistributedSampler(list(range(n)), shuffle=shuffle, seed=3, drop_last=drop_last)
                s.set_epoch(2)
                found.append((list(s), len(s)))
    return found, raised(lambda: t.utils.data.DistributedSampler([1], num_replicas=2, rank=2))


@case
def gradients_that_are_views(rank):
    found = []
    for to_none in (True, False):
        model = DDP(model_of(), gradient_as_bucket_view=True)
        optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for k in range(3):
            optimizer.zero_grad(set_to_none=to_none)
            model(batch(rank, k)).pow(2).sum().backward()
            optimizer.step()
        found += [rounded(model.parameters()), gradients(model)]
        optimizer.zero_grad(set_to_none=to_none)
        found.append([p.grad is None for p in model.parameters()])
    return found


@case
def without_agreement(rank):
    model, found = DDP(model_of()), []
    for k in range(5):
        if k % 3 < 2:
            with model.no_sync():
                model(batch(rank, k)).pow(2).sum().backward()
        else:
            model(batch(rank, k)).pow(2).sum().backward()
        found.append(gradients(model))
    with model.no_sync():  # the forward says whether there is agreement
        y = model(batch(rank, 9))
    y.sum().backward()
    found.append(gradients(model))
    y = model(batch(rank, 9))
    with model.no_sync():
        y.sum().backward()
    return [*found, gradients(model)]


def hooked(name):
    model = DDP(model_of())
    if name == "half":
        model.register_comm_hook(None, hooks.fp16_compress_hook)
        return model
    options = {"start_powerSGD_iter": 3, "min_compression_rate": 0.1, "use_error_feedback": name != "bare"}
    kept = power.PowerSGDState(process_group=None, matrix_approximation_rank=1, **options)
    model.register_comm_hook(kept, power.powerSGD_hook)
    return model


@case
def hooks_of_buckets(rank):
    found = []
    for name in ("half", "power", "bare"):
        model = hooked(name)
        found.append([round(v, 3) for v in stepped(model, t.optim.SGD(model.parameters(), lr=0.1), rank, 3)])
    return found, raised(lambda: DDP(model_of()).register_comm_hook(None, 3))


@case
def inputs_that_run_out(rank):
    found = []
    for whole in (True, False):
        model = DDP(model_of())
        optimizer = t.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=whole):
            stepped(model, optimizer, rank, 3 + 2 * rank if whole else 4 - 2 * rank)
        found.append(rounded(model.parameters()))
    return found


if __name__ == "__main__":
    ranks.run(d, CASES)
