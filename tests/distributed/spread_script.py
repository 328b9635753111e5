"""Optimizers and hooks of two processes: ``spread_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
DDP = importlib.import_module(f"{sys.argv[1]}.nn.parallel").DistributedDataParallel
Join = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.join").Join
ZeroRedundancyOptimizer = importlib.import_module(f"{sys.argv[1]}.distributed.optim").ZeroRedundancyOptimizer
power = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
dcp = importlib.import_module(f"{sys.argv[1]}.distributed.checkpoint.state_dict")
meshes = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh")
tp = importlib.import_module(f"{sys.argv[1]}.distributed.tensor.parallel")
pp = importlib.import_module(f"{sys.argv[1]}.distributed.pipelining")
warnings.simplefilter("ignore")
OURS = sys.argv[1] == "torchlike"
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def rounded(x):
    return [round(v, 4) + 0.0 for v in x.detach().double().flatten().tolist()]


def near(xs, ys):
    return all(abs(x - y) < 2e-4 for a, b in zip(xs, ys, strict=True) for x, y in zip(a, b, strict=True))


def model_of():
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    with t.no_grad():
        for p in model.parameters():
            p.copy_(((t.arange(p.numel()) * 7 % 11 - 5) / 16).reshape(p.shape))
    return model


def batch(rank):
    x = ((t.arange(24) * 5 % 9 - 4 + rank) / 8).reshape(4, 6)
    return x, x[:, :2] * 2


def trained(model, optimizer, rank, steps=3):
    x, y = batch(rank)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return [rounded(p) for p in model.parameters()]


def kinds(model, cls, **options):
    return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=cls, **options)


@case
def sharded_state(rank):
    model = DDP(model_of())
    optimizer = kinds(model, t.optim.Adam, lr=0.05)
    found = trained(model, optimizer, rank)
    whole = DDP(model_of())
    same = trained(whole, t.optim.Adam(whole.parameters(), lr=0.05), rank)
    return found, found == same, sorted(len(optimizer.optim.state[p]) for p in optimizer.optim.state)


@case
def inputs_that_run_out(rank):
    found = []
    for steps, cls in ((2 + rank, t.optim.SGD), (2 + 3 * (1 - rank), t.optim.Adam)):
        model = DDP(model_of())
        optimizer = kinds(model, cls, lr=0.05)
        with Join([model, optimizer]):
            found.append(trained(model, optimizer, rank, steps))
        found.append([rounded(p) for p in model.parameters()])
    return found


@case
def the_state_of_all(rank):
    model = DDP(model_of())
    optimizer = kinds(model, t.optim.SGD, lr=0.05, momentum=0.9)
    optimizer.param_groups[0]["lr"] = 0.1
    trained(model, optimizer, rank)
    optimizer.consolidate_state_dict(to=1)
    told = None
    if rank == 1:
        state = optimizer.state_dict()
        told = {k: rounded(v["momentum_buffer"]) for k, v in state["state"].items()}, state["param_groups"][0]["lr"]
    box = [optimizer.state_dict() if rank == 1 else None]
    d.broadcast_object_list(box, src=1)
    again = DDP(model_of())
    another = kinds(again, t.optim.SGD, lr=0.5, momentum=0.1)
    another.load_state_dict(box[0])
    return str(told), trained(again, another, rank), another.param_groups[0]["lr"]


@case
def added_parameters(rank):
    model = model_of()
    optimizer = kinds(model[0], t.optim.SGD, lr=0.1)
    optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.2})
    return trained(DDP(model), optimizer, rank), [g["lr"] for g in optimizer.param_groups]


@case
def no_state_here(rank):
    optimizer = kinds(model_of(), t.optim.SGD, lr=0.1)
    try:
        optimizer.state_dict()
    except RuntimeError as error:
        return "has not been consolidated on this rank" in str(error)


def compressed(rank, hook, steps, **options):
    """Of full rank nothing is lost."""
    model = DDP(model_of())
    state = power.PowerSGDState(None, min_compression_rate=0.01, start_powerSGD_iter=2, **options)
    model.register_comm_hook(state, hook)
    return trained(model, t.optim.SGD(model.parameters(), lr=0.1), rank, steps), state.iter


@case
def power_sgd(rank):
    return compressed(rank, power.powerSGD_hook, 5, matrix_approximation_rank=8)


@case
def power_sgd_in_batches(rank):
    """PyTorch's refuses as many columns as the square has."""
    if not OURS:
        return True
    model = DDP(model_of())
    plain = trained(model, t.optim.SGD(model.parameters(), lr=0.1), rank, 4)
    return near(compressed(rank, power.batched_powerSGD_hook, 4, matrix_approximation_rank=9)[0], plain)


@case
def power_sgd_of_rank_one(rank):
    """Feedback lets it go on: the losses of all ranks fall, and their parameters are equal."""
    found, _ = compressed(rank, power.powerSGD_hook, 25, matrix_approximation_rank=1)
    every = [None, None]
    d.all_gather_object(every, found)
    model = model_of()
    x, y = batch(rank)
    before = nn.functional.mse_loss(model(x), y).item()
    with t.no_grad():
        for p, new in zip(model.parameters(), found, strict=True):
            p.copy_(t.tensor(new).reshape(p.shape))
    return every[0] == every[1], nn.functional.mse_loss(model(x), y).item() < before / 2


@case
def power_sgd_from_the_same_factors(rank):
    """What is lost depends on the random factors, which are PyTorch's."""
    options = {"warm_start": False, "random_seed": 3}
    return [compressed(rank, power.powerSGD_hook, 6, matrix_approximation_rank=1, **o) for o in ({}, options)]


@case
def some_layers_parallel(rank):
    """One optimizer has parameters of a mesh and others of this process alone."""
    found = []
    for cls, options in ((t.optim.AdamW, {}), (t.optim.SGD, {"momentum": 0.9, "foreach": False})):
        model, mesh = model_of().append(nn.Linear(2, 2)), meshes.init_device_mesh("cpu", (d.get_world_size(),))
        with t.no_grad():
            model[3].weight.copy_(t.eye(2))
            model[3].bias.fill_(0.25)
        tp.parallelize_module(model, mesh, {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()})
        optimizer = cls(model.parameters(), lr=0.1, **options)
        x, y = batch(0)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        found.append([rounded(getattr(p, "full_tensor", lambda p=p: p)()) for p in model.parameters()])
    return found


@case
def inputs_in_pieces(rank):
    """What layers save for backward, cut along a dimension of the mesh meanwhile."""
    reshard = importlib.import_module(f"{sys.argv[1]}.distributed.tensor.parallel.input_reshard").input_reshard
    mesh, found = meshes.init_device_mesh("cpu", (d.get_world_size(),)), []
    for dim in (None, 0, 1, 5)[: 3 + OURS]:  # PyTorch's goes on after an error, in whatever comes then
        model = tp.parallelize_module(model_of(), mesh, {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()})
        hooks = reshard(model, mesh, dim) is model, len(model._forward_hooks), len(model._forward_pre_hooks)
        try:
            nn.functional.mse_loss(model(batch(0)[0]), batch(0)[1]).backward()
        except AssertionError as error:
            assert "none of which is 5" in str(error)
            continue
        assert dim != 5
        found.append((dim, hooks, [rounded(p.grad.full_tensor()) for p in model.parameters()]))
    return found


@case
def wrong_calls(rank):
    found = []
    for device_ids, output_device in ((None, 1), ([], "cpu"), ([], None)):
        try:
            DDP(model_of(), device_ids=device_ids, output_device=output_device)
            found.append("")
        except ValueError as error:
            found.append(str(error)[:60])
    try:
        d.batch_isend_irecv([])
    except IndexError as error:
        found.append(type(error).__name__)
    return found


@case
def states_of_wrapped_models(rank):
    model = DDP(model_of())
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    trained(model, optimizer, rank)
    options = dcp.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    given = dict(dcp.get_model_state_dict(model))
    names, kept = list(given), rounded(model.module[0].bias)
    with t.no_grad():
        model.module[0].bias.add_(rank)
    dcp.set_model_state_dict(model, given if rank == 0 else {}, options=options)
    state = dcp.get_optimizer_state_dict(model, optimizer)
    return names, kept == rounded(model.module[0].bias), list(state["state"]), state["param_groups"][0]["params"]


def piped(rank, cls, stages=1, parts=4, v=False, **options):
    """Four layers on two ranks, and the gradients, losses and results of two steps."""
    filled, layers = model_of(), []
    for i in range(2 * stages):
        layer = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        with t.no_grad():
            layer[0].weight.copy_(filled[0].weight[:6] / (i + 1))
            layer[0].bias.fill_(0.1 * i)
        layers.append(layer)
    numbers = [rank, 3 - rank] if v else range(rank, 2 * stages, 2)
    own = [pp.PipelineStage(layers[i], i, 2 * stages, t.device("cpu")) for i in numbers]
    schedule = cls(own if stages > 1 else own[0], parts, loss_fn=nn.functional.mse_loss, **options)
    x, found = t.arange(48).reshape(8, 6) % 7 / 7, []
    for _ in range(2):
        losses = []
        if v:
            out = schedule.step(x, target=x.flip(0), losses=losses) if rank == 0 else schedule.step()
        elif rank == 0:
            out = schedule.step(x)
        else:
            out = schedule.step(target=x.flip(0), losses=losses)
        grads = [rounded(p.grad) for stage in own for p in stage.submod.parameters()]
        found.append([None if out is None else rounded(out), [rounded(loss) for loss in losses], grads])
    if v:
        return found
    last = schedule.eval(x) if rank == 0 else schedule.eval(target=x)
    return found, None if last is None else rounded(last)


CASES["gpipe"] = lambda rank: piped(rank, pp.ScheduleGPipe)
CASES["gpipe not scaled"] = lambda rank: piped(rank, pp.ScheduleGPipe, parts=2, scale_grads=False)
CASES["1f1b"] = lambda rank: piped(rank, pp.Schedule1F1B)
CASES["looped"] = lambda rank: piped(rank, pp.ScheduleLoopedBFS, stages=2)
CASES["zero bubble"] = lambda rank: piped(rank, pp.ScheduleInterleavedZeroBubble, stages=2)
CASES["zero bubble along a V"] = lambda rank: piped(rank, pp.ScheduleZBVZeroBubble, stages=2, v=True)
CASES["dual pipe"] = lambda rank: piped(rank, pp.ScheduleDualPipeV, stages=2, v=True)
CASES["interleaved"] = lambda rank: piped(rank, pp.ScheduleInterleaved1F1B, stages=2)


class Skipping(nn.Module):
    """What the first layer takes is added behind the last; one of its halves, or both."""

    def __init__(self, half=None):
        super().__init__()
        self.first, self.last, self.half = nn.Linear(6, 6), nn.Linear(6, 6), half
        with t.no_grad():
            for n, p in enumerate(self.parameters()):
                p.copy_(((t.arange(p.numel()) * 7 + n) % 11 - 5).reshape(p.shape) / 8)

    def forward(self, x, h=None):
        h = self.first(x).tanh() if h is None else h
        return (x, h) if self.half == 0 else self.last(h) + x


def cut(rank):
    """Stages that ``pipeline`` makes; of PyTorch those made by hand, which need its compiler less."""
    x, losses = t.arange(48).reshape(8, 6) % 7 / 7, []
    if sys.argv[1] == "torch":
        stage = pp.PipelineStage(Skipping(rank), rank, 2, t.device("cpu"))
    else:
        pipe = pp.pipeline(Skipping(), (x[:2],), split_spec={"last": pp.SplitPoint.BEGINNING})
        stage = pipe.build_stage(rank, t.device("cpu"))
    schedule = pp.ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    out = schedule.step(x) if rank == 0 else schedule.step(target=x.flip(0), losses=losses)
    grads = {name: rounded(p.grad) for name, p in stage.submod.named_parameters() if p.grad is not None}
    return None if out is None else rounded(out), [rounded(loss) for loss in losses], grads


CASES["cut"] = cut


if __name__ == "__main__":
    ranks.run(d, CASES)
