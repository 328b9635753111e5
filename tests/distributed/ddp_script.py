"""DistributedDataParallel of two processes: a script for PyTorch and torchlike, run by ``test_ddp.py``.

    python ddp_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. Writes what each case gave on this rank, as JSON.
"""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
DDP = importlib.import_module(f"{sys.argv[1]}.nn.parallel").DistributedDataParallel
debugging = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks.debugging_hooks")
hooks = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks.default_hooks")
join = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.join")
warnings.simplefilter("ignore")
CASES = {}
SAMPLES = 8
OURS = sys.argv[1] == "torchlike"


def case(f):
    CASES[f.__name__] = f
    return f


def rounded(x):
    return [round(v, 4) + 0.0 for v in x.detach().double().flatten().tolist()]


def filled(model):
    with t.no_grad():
        for p in model.parameters():
            p.copy_(((t.arange(p.numel()) * 7 % 11 - 5) / 16).reshape(p.shape))
    return model


class Net(nn.Module):
    def __init__(self, norm=False):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.spare = nn.Linear(4, 2)

    def forward(self, x, spare=False):
        h = self.norm(self.first(x)).tanh()
        return self.last(h) + (self.spare(h) if spare else 0)


def data():
    x = ((t.arange(SAMPLES * 3) * 5 % 9 - 4) / 8).reshape(SAMPLES, 3)
    y = ((t.arange(SAMPLES * 2) * 3 % 5 - 2) / 4).reshape(SAMPLES, 2)
    return x, y


def part(x, rank, size=2):
    return x[rank * SAMPLES // size : (rank + 1) * SAMPLES // size]


def grads(model):
    return [None if p.grad is None else rounded(p.grad) for p in model.parameters()]


def mean(loss):
    """The loss over all processes."""
    loss = loss.detach().clone()
    d.all_reduce(loss, d.ReduceOp.AVG)
    return round(loss.item(), 4)


def trained(model, rank, steps=4, **options):
    x, y = data()
    optimizer = t.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(part(x, rank), **options), part(y, rank))
        loss.backward()
        optimizer.step()
        losses.append(mean(loss))
    return losses


@case
def losses_and_parameters(rank):
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))), gradient_as_bucket_view=True)
    return trained(model, rank), [rounded(p) for p in model.parameters()], grads(model)


@case
def parameters_without_elements(rank):
    """They travel beside others, whose gradients are those of all."""
    model = filled(nn.Linear(3, 2))
    model.none, model.forward = nn.Parameter(t.zeros(0)), lambda x: model.none.sum() + t.tanh(x @ model.weight.t())
    model.register_buffer("nothing", t.zeros(0))
    model.register_buffer("count", t.ones(2) * rank)
    spread = DDP(model, find_unused_parameters=True)
    return trained(spread, rank), grads(spread), rounded(model.count)


@case
def many_buckets(rank):
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))), bucket_cap_mb=0.00001)
    return trained(model, rank), grads(model)


@case
def buckets_of_every_dtype(rank):
    """Without a hook they are as large as suits; a hook sees those that were asked for."""
    found = []
    for dtype in (t.float64, t.float16, t.bfloat16, t.complex64):
        for hooked in (False, True):
            model = nn.ParameterList([t.ones(s, dtype=dtype) for s in ((3, 2), (), (1200, 1100), (3,))])
            model.forward = lambda x, m=model: (m[0] * x.to(m[0].dtype)).abs().sum() * (m[1] * m[3]).abs().sum()
            spread, seen = DDP(model, bucket_cap_mb=40, find_unused_parameters=True), []
            if hooked:
                spread.register_comm_hook(seen, lambda s, b: hooks.allreduce_hook(None, s.append(b.index()) or b))
            spread(t.arange(6.0).reshape(3, 2) * 2**rank).float().backward()
            found += [len(seen), *[(p.grad.dtype, p.grad.flatten()[:6].tolist()) for p in (*model[:2], model[3])]]
    return repr(found)


@case
def means_of_numbers_whose_sum_is_too_large(rank):
    """And of small ones, whose halves may be none."""
    found = []
    for dtype, large, small in ((t.float32, 3e38, 1.4e-45), (t.float16, 6e4, 6e-8), (t.bfloat16, 3e38, 1e-37)):
        for x in (large, small):
            model = DDP(nn.Linear(2, 1, bias=False).to(dtype))
            model(t.full((1, 2), x, dtype=dtype)).sum().backward()
            found.append(model.module.weight.grad.tolist())
    return found


@case
def the_start_is_that_of_rank_0(rank):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    with t.no_grad():
        for x in [*model.parameters(), *model.buffers()]:
            x.fill_(rank + 1)
    DDP(model)
    return [rounded(x) for x in [*model.parameters(), *model.buffers()]]


@case
def buffers_are_those_of_rank_0(rank):
    model = DDP(filled(Net(norm=True)), find_unused_parameters=True)
    losses = trained(model, rank)
    found = rounded(model.module.norm.running_mean), rounded(model.module.norm.running_var)
    model.eval()
    with t.no_grad():
        model(part(data()[0], rank))
    return losses, found, rounded(model.module.norm.running_mean), model.module.norm.num_batches_tracked.item()


@case
def without_agreement(rank):
    model = DDP(filled(nn.Linear(3, 2)))
    x, y = data()
    with model.no_sync():
        nn.functional.mse_loss(model(part(x, rank)), part(y, rank)).backward()
    alone = grads(model)
    nn.functional.mse_loss(model(part(x, rank) * 2), part(y, rank)).backward()
    return alone, grads(model)


@case
def unused_parameters(rank):
    model = DDP(filled(Net()), find_unused_parameters=True)
    x = data()[0]
    model(part(x, rank)).sum().backward()
    nobody = grads(model)
    model.zero_grad()
    model(part(x, rank), spare=rank == 1).sum().backward()
    return nobody, grads(model)


@case
def unused_parameters_without_leave(rank):
    model = DDP(filled(Net()))
    x = data()[0]
    model(part(x, rank)).sum().backward()
    try:
        model(part(x, rank))
    except RuntimeError as error:
        return str(error).startswith("Expected to have finished reduction in the prior iteration"), grads(model)[-2:]


@case
def static_graph(rank):
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))), static_graph=True)
    return trained(model, rank), grads(model)


def hooked(rank, hook):
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))))
    model.register_comm_hook(None, hook)
    return trained(model, rank), grads(model)


for name in ("allreduce_hook", "fp16_compress_hook", "bf16_compress_hook"):
    CASES[name] = lambda rank, name=name: hooked(rank, getattr(hooks, name))


CASES["noop_hook"] = lambda rank: hooked(rank, debugging.noop_hook)


@case
def builtin_hooks(rank):
    found = []
    for kind in d.BuiltinCommHookType.__members__.values():
        model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))))
        model._register_builtin_comm_hook(kind)
        found.append((trained(model, rank), grads(model)))
    return found


@case
def a_hook_of_ones_own(rank):
    told = []

    def hook(state, bucket):
        told.append((bucket.index(), bucket.is_last(), [list(g.shape) for g in bucket.gradients()]))
        future = t.futures.Future()
        future.set_result(bucket.buffer() * 0 + 3)
        return future

    return hooked(rank, hook)[1], len(told)


@case
def uneven_inputs(rank):
    model = DDP(filled(nn.Linear(3, 2)))
    optimizer = t.optim.SGD(model.parameters(), lr=0.25)
    x, y = data()
    with model.join():
        for i in range(2 + 2 * rank):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x[i : i + 2]), y[i : i + 2]).backward()
            optimizer.step()
    return [rounded(p) for p in model.parameters()]


@case
def uneven_inputs_by_those_that_go_on(rank):
    model = DDP(filled(nn.Linear(3, 2)))
    x = data()[0]
    with model.join(divide_by_initial_world_size=False):
        for i in range(2 - rank):
            model.zero_grad()
            model(x[i : i + 2]).sum().backward()
    return grads(model) if rank == 0 else None


@case
def a_compiled_step(rank):
    """Programs end at the collectives. PyTorch's compiler would take its time, so there the step is eager."""
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))))
    optimizer = t.optim.SGD(model.parameters(), lr=0.25)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def total(x):
        d.all_reduce(x)
        return x * 2

    if OURS:
        step, total = t.compile(step), t.compile(total)
    x, y = data()
    losses = [mean(step(part(x, rank), part(y, rank))) for _ in range(4)]
    return losses, [rounded(p) for p in model.parameters()], rounded(total(t.ones(2) * (rank + 1)))


def compiled(f):
    """As one program; PyTorch's compiler would take its time."""
    return t.compile(f, fullgraph=True) if OURS else f


@case
def collectives_in_one_program(rank):
    def every(x, tell):
        outs, rows, both = [t.zeros(2), t.zeros(2)], t.zeros(1), t.zeros(2)
        d.all_gather(outs, x)
        root, most, late = x.clone(), x.clone(), x * 2
        d.broadcast(root, 1)
        d.reduce(most, 1, d.ReduceOp.MAX)
        work = d.all_reduce(late, async_op=True)
        d.reduce_scatter_tensor(rows, x)
        d.all_to_all_single(both, x)
        work.wait()
        unused = x.sum()
        d.all_reduce(unused)  # whose result one rank alone returns
        return (
            outs,
            root,
            most if rank == 1 else x,
            late,
            rows,
            both,
            C.all_reduce(x, "avg", d.group.WORLD),
            (unused if tell else x.max()),
        )

    run = compiled(every)
    found = [run((t.arange(2.0) + 3 * rank) * k, rank == 0) for k in (1, 2, 3)]
    return [[rounded(y) for y in [*outs, *rest]] for outs, *rest in found]


@case
def a_step_in_one_program(rank):
    """Loss and gradients of all processes, by hand."""
    model = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    optimizer = t.optim.Adam(model.parameters(), lr=0.25)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.all_reduce(model(x)).pow(2).mean() + nn.functional.mse_loss(model(x), y)
        loss.backward()
        for p in model.parameters():
            d.all_reduce(p.grad, d.ReduceOp.AVG)
        optimizer.step()
        return loss

    x, y = data()
    run = compiled(step)
    return [mean(run(part(x, rank), part(y, rank))) for _ in range(4)], [rounded(p) for p in model.parameters()]


@case
def a_step_of_ddp_in_one_program(rank):
    model = DDP(filled(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))), bucket_cap_mb=0.00001)
    optimizer = t.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = data()
    run = compiled(step)
    losses = [mean(run(part(x, rank), part(y, rank))) for _ in range(4)]
    return losses, [rounded(p) for p in [*model.parameters(), *model.buffers()]], grads(model)


@case
def forward_and_backward_in_two_programs(rank):
    """Gradients are averaged whatever part of a step is compiled; fullgraph=True says why the forward is no program."""
    found, x = [], t.ones(2) * (rank + 1)
    for make in (lambda m: m, lambda m: lambda x: m(x).tanh()):
        model = DDP(filled(nn.Linear(2, 2)))
        run = t.compile(make(model)) if OURS else make(model)
        for _ in range(3):
            model.zero_grad()
            run(x).sum().backward()
            found.append(grads(model))
    if OURS:
        try:
            t.compile(lambda x: model(x).sum(), fullgraph=True)(x)
        except Exception as error:
            assert "DistributedDataParallel average gradients of a backward elsewhere" in str(error)
    return found


@case
def gradients_from_a_program(rank):
    run = compiled(lambda x: F.all_reduce(x * x).sin())
    x = (t.arange(3.0) + rank).requires_grad_()
    for _ in range(2):
        run(x).sum().backward()
    return rounded(x.grad)


@case
def pieces_around_messages(rank):
    def exchange(x):
        y = x * 2
        d.barrier()
        if rank == 0:
            d.send(y, 1)
        else:
            d.recv(y, 0)
        told = [None, None]
        d.all_gather_object(told, rank)
        return y + told[1]

    run = t.compile(exchange) if OURS else exchange
    return [rounded(run(t.ones(2) * (rank + k))) for k in range(3)]


@case
def synchronized_batch_norm(rank):
    """That of the whole batch in one process, which is what PyTorch's does on GPUs."""
    x, y = data()
    norm = (nn.SyncBatchNorm if OURS else nn.BatchNorm1d)(3)
    given = (part(x, rank) if OURS else x).clone().requires_grad_()
    weight = x.flip(0) + x * x
    out = norm(given)
    (out * (part(weight, rank) if OURS else weight)).sum().backward()
    slope = norm.weight.grad.clone()
    if OURS:
        d.all_reduce(slope)
    own = (lambda a: a) if OURS else (lambda a: part(a, rank))
    return rounded(own(out)), rounded(own(given.grad)), rounded(slope), rounded(norm.running_var)


def derived(rank, f):
    x = (t.arange(4.0) + 1 + rank).requires_grad_()
    y = f(x)
    ys = list(y) if isinstance(y, tuple) else [y]
    sum((z * (t.arange(z.numel()).reshape(z.shape) + 1 + rank)).sum() for z in ys).backward()
    return [rounded(z) for z in ys], rounded(x.grad)


F = importlib.import_module(f"{sys.argv[1]}.distributed.nn.functional")
C = importlib.import_module(f"{sys.argv[1]}.distributed._functional_collectives")
DERIVED = {
    "all_reduce": lambda x: F.all_reduce(x * 1),
    "broadcast": lambda x: F.broadcast(x * 1, 1),
    "all_gather": lambda x: F.all_gather(x * 1),
    "gather": lambda x: F.gather(x * 1, 1),
    "scatter": lambda x: F.scatter([x * 2, x * 3], 1),
    "reduce_scatter": lambda x: F.reduce_scatter(t.zeros(4), [x * 2, x * 3]),
    "all_to_all": lambda x: F.all_to_all([t.zeros(4), t.zeros(4)], [x * 2, x * 3]),
    "all_to_all_single": lambda x: F.all_to_all_single(t.zeros(4), x * 2),
    "all_to_all_single of unlike parts": lambda x: F.all_to_all_single(t.zeros(4), x * 2, [1, 3], [1, 3])
    if d.get_rank() == 0
    else F.all_to_all_single(t.zeros(4), x * 2, [3, 1], [3, 1]),
    **{f"all_reduce {op}": lambda x, op=op: F.all_reduce(x * 1, getattr(d.ReduceOp, op)) for op in ("AVG", "MAX")},
    "reduce_scatter AVG": lambda x: F.reduce_scatter(t.zeros(4), [x * 2, x * 3], d.ReduceOp.AVG),
    "functional all_reduce": lambda x: C.all_reduce(x * 1, "sum", d.group.WORLD),
    "functional all_gather": lambda x: C.all_gather_tensor_autograd(x.reshape(2, 2), 1, d.group.WORLD),
    "functional reduce_scatter": lambda x: C.reduce_scatter_tensor_autograd(x.reshape(2, 2), "sum", 1, d.group.WORLD),
    "functional all_to_all": lambda x: C.all_to_all_single_autograd(x * 1, [2, 2], [2, 2], d.group.WORLD),
}
for name, f in DERIVED.items():
    CASES[f"derivative of {name}"] = lambda rank, f=f: derived(rank, f)


@case
def outputs_of_collectives_with_derivatives(rank):
    """Their memory is what the callers gave, where they gave one."""
    whole, outs, found = t.full((3, 4), 9.0), [t.full((4,), 9.0), t.full((4,), 8.0)], []
    for grad in (True, False):
        x = (t.arange(4.0) + 1 + rank).requires_grad_(grad)
        ys = [F.reduce_scatter(whole[0], [x * 2, x * 3]), F.all_to_all_single(whole[1], x * 2)]
        ys += F.all_to_all([o.clone() for o in outs] if grad else outs, [x * 2, x * 3])
        found.append([[rounded(y.detach()), y.requires_grad] for y in ys])
    return found, rounded(whole), whole.requires_grad, [rounded(o) for o in outs]


@case
def functional_reductions_have_derivatives_of_sums(rank):
    found = []
    for f in (C.all_reduce, lambda x, op, group: C.reduce_scatter_tensor_autograd(x, op, 0, group)):
        for op in ("avg", "max"):
            y = f(t.ones(4, requires_grad=True) * (rank + 1), op, d.group.WORLD)
            try:
                y.sum().backward()
            except RuntimeError as error:
                found.append([rounded(y.detach() + 0), str(error)])
    return found


@case
def samplers(rank):
    sampler = t.utils.data.DistributedSampler(range(11), shuffle=True, seed=3)
    sampler.set_epoch(2)
    return list(sampler), list(t.utils.data.DistributedSampler(range(11), shuffle=False, drop_last=True))


@case
def names_and_modes(rank):
    model = DDP(nn.Linear(2, 1))
    return list(model.state_dict()), model.device_ids, str(model.device), model.require_backward_grad_sync


class Counted(nn.Module):
    """A module with a buffer that says whose it is."""

    def __init__(self, rank):
        super().__init__()
        self.weight = nn.Parameter(t.ones(1) * (rank + 1))
        self.register_buffer("count", t.full((1,), 100.0 * (rank + 1)))

    def forward(self, x):
        self.seen = self.count.item()
        self.count += 1
        return (x * self.weight).sum()


@case
def whose_buffers(rank):
    """Those of the last that has inputs, where processes join; ``broadcast_buffers=False`` is another thing than
    ``forward_sync_buffers=False``.
    """
    found = []
    for how in ({}, {"broadcast_buffers": False}, {"forward_sync_buffers": False}, {"init_sync": False}):
        model = DDP(Counted(rank), **how)
        first = model.module.count.item()
        for _ in range(2):
            model(t.ones(2)).backward()
        found.append([first, model.module.seen, model.module.count.item(), model.module.weight.grad.tolist()])
        model = DDP(Counted(rank), **how)
        with model.join():
            for _ in range(2 + rank):
                model.module.count += rank
                model(t.ones(2)).backward()
        found.append([model.module.seen, model.module.count.item(), model.module.weight.tolist()])
    return found


class Told(join.JoinHook):
    def __init__(self, counter):
        self.counter = counter

    def main_hook(self):
        total = t.zeros(1)
        d.all_reduce(total)
        self.counter.log += ["main", total.item()]

    def post_hook(self, is_last_joiner):
        self.counter.log.append(is_last_joiner)


class Counter(join.Joinable):
    """Counts the processes that go on."""

    def __init__(self):
        super().__init__()
        self.log = []

    def __call__(self):
        work = join.Join.notify_join_context(self)
        total = t.ones(1)
        d.all_reduce(total)
        self.log += [work is None, total.item()]

    def join_hook(self, **kwargs):
        self.log.append(sorted(kwargs.items()))
        return Told(self)

    @property
    def join_device(self):
        return t.device("cpu")

    @property
    def join_process_group(self):
        return d.group.WORLD


@case
def joined_with_others(rank):
    a, b = Counter(), Counter()
    with join.Join([a, b], some=3):
        for _ in range(2 + rank):
            a()
            b()
    c = Counter()
    with join.Join([c], enable=False):
        c()
    c()
    model = DDP(nn.Linear(2, 2, bias=False))
    with t.no_grad():
        model.module.weight.fill_(1.0)
    e = Counter()
    with join.Join([model, e], divide_by_initial_world_size=False):
        for _ in range(2 + rank):
            model(t.ones(1, 2) * (rank + 1)).sum().backward()
            e()
    return a.log, b.log, c.log, repr(c._join_config), e.log, model.module.weight.grad.tolist()


@case
def joining_ends_early(rank):
    a = Counter()
    try:
        with join.Join([a], throw_on_early_termination=True):
            for _ in range(2 + rank):
                a()
    except RuntimeError as error:
        return str(error), a.log


@case
def wrong_joins(rank):
    found = []
    for call in (lambda: join.Join([]), lambda: join.Join([3]), lambda: join.Join(3), join.Joinable):
        try:
            found.append(repr(call()))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


if __name__ == "__main__":
    ranks.run(d, CASES)
