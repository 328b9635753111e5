"""Gradients of several backwards: ``accumulate_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
DDP = importlib.import_module(f"{sys.argv[1]}.nn.parallel").DistributedDataParallel
replicate = importlib.import_module(f"{sys.argv[1]}.distributed._composable.replicate").replicate
in_backward = importlib.import_module(f"{sys.argv[1]}.distributed.optim")
checkpoint = importlib.import_module(f"{sys.argv[1]}.utils.checkpoint").checkpoint
wrappers = importlib.import_module(f"{sys.argv[1]}.distributed.algorithms._checkpoint.checkpoint_wrapper")
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


class Branches(nn.Module):
    """Each call goes through one of three layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        for i, p in enumerate(self.parameters()):
            nn.init.constant_(p, 0.1 * (i + 1))

    def forward(self, x, which):
        return self.layers[which](x)


def firsts(model):
    return [None if p.grad is None else p.grad.flatten()[0].item() for p in model.parameters()]


def gone(rank, *steps, **options):
    """The gradients after each step: (whether they are averaged, the layer on each rank)."""
    model, found = DDP(Branches(), **options), []
    for averaged, *which in steps:
        model.require_backward_grad_sync = bool(averaged)
        model(t.ones(2, 3) * (rank + 1), which[rank]).sum().backward()
        found.append(firsts(model))
    return found


UNUSED = {"find_unused_parameters": True}
CASES["unused since"] = lambda r: gone(r, (0, 0, 0), (1, 1, 1), (1, 2, 2), (1, 0, 0), **UNUSED)
CASES["used on one rank"] = lambda r: gone(r, (0, 0, 1), (1, 2, 2), (1, 2, 2), **UNUSED)
CASES["used twice"] = lambda r: gone(r, (0, 0, 1), (0, 1, 1), (1, 2, 2), (0, 0, 0), (1, 1, 1), **UNUSED)
CASES["in buckets"] = lambda r: gone(r, (0, 0, 1), (1, 2, 2), (1, 1, 0), gradient_as_bucket_view=True, **UNUSED)
CASES["kept"] = lambda r: gone(r, (1, 0, 0), (1, 1, 1), (1, 1, 1), (1, 0, 1), **UNUSED)
CASES["always averaged"] = lambda r: gone(r, (1, 0, 1), (1, 2, 2), (1, 2, 1), (1, 2, 2), **UNUSED)
CASES["static graph"] = lambda r: gone(r, (1, 1, 1), (1, 1, 1), static_graph=True)


@case
def a_gradient_of_ones_own(rank):
    model = DDP(Branches(), find_unused_parameters=True)
    model.module.layers[0].weight.grad = t.ones(3, 3) * (rank + 1)
    model(t.ones(2, 3), 1).sum().backward()
    return firsts(model)


@case
def a_compiled_backward_alone(rank):
    """Ours goes on in eager code, since what it touches is to be averaged later."""
    model = DDP(Branches(), find_unused_parameters=True)

    def step(x, which):
        model(x, which).sum().backward()

    with model.no_sync():
        (t.compile(step) if sys.argv[1] == "torchlike" else step)(t.ones(2, 3) * (rank + 1), rank)
    step(t.ones(2, 3), 2)
    return firsts(model)


@case
def reduced_later(rank):
    """Gradients of a fully sharded model that are kept apart, beside those that optimizers see."""
    fsdp = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp")
    mesh = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh").init_device_mesh
    found = []
    for grid, compiled in ((None, False), (None, True), ((2, 1), False)):
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        for i, p in enumerate(model.parameters()):
            nn.init.constant_(p, 0.1 * (i + 1))
        fsdp.fully_shard(model, mesh=grid and mesh("cpu", grid, mesh_dim_names=("r", "s")))
        chosen = model.set_requires_all_reduce if grid else model.set_requires_gradient_sync

        def step(x, model=model):
            model(x).square().sum().backward()

        run = t.compile(step) if compiled and sys.argv[1] == "torchlike" else step
        for i, now in enumerate((True, False, False, True, False, True)):
            if i == 4:
                model.zero_grad()
            chosen(now)
            run(t.ones(2, 3) * (rank + i + 1) / 8)
            found.append([None if p.grad is None else round(p.grad.full_tensor().sum().item(), 3)
                          for p in model.parameters()])  # fmt: skip
    return found


def filled():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((t.arange(p.numel()) * 7 + i) % 11 - 5).reshape(p.shape) / 8)
    return model


def backward(model, rank, k):
    x = (t.arange(12).reshape(4, 3) * 7 % 5) / 6 + rank + k
    model(x).square().mean().backward()


def kept(model):
    return [[round(v, 2) + 0.0 for v in x.detach().double().flatten().tolist()] for x in model.state_dict().values()]


@case
def a_processes_own(rank):
    """Parameters and buffers by name, which are neither made equal nor averaged."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    for i, p in enumerate(model.parameters()):
        nn.init.constant_(p, 0.1 * (i + 1 + rank))
    DDP._set_params_and_buffers_to_ignore_for_model(model, ["0.bias", "1.running_mean"])
    model = DDP(model)
    for k in range(2):
        backward(model, rank, k)
    return sorted(model.parameters_to_ignore), [round(v, 3) for v in firsts(model)], kept(model)


@case
def modules_without_a_forward(rank):
    fsdp, found = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp"), []
    bare = nn.Module()
    bare.layer = nn.Linear(3, 2)
    for module in (nn.ParameterList([nn.Parameter(t.ones(4))]), nn.ParameterDict({"a": nn.Parameter(t.ones(2))}), bare):
        fsdp.fully_shard(module)
        found.append([type(module).__name__, [str(p.placements) for p in module.parameters()]])
    return found


@case
def replicated_in_place(rank):
    model = filled()
    with t.no_grad():
        model[0].bias.add_(rank)
    same = replicate(model) is model
    optimizer, found = t.optim.SGD(model.parameters(), 0.1), [same, list(model.state_dict())]
    for k in range(3):
        optimizer.zero_grad()
        backward(model, rank, k)
        optimizer.step()
        found.append(kept(model))
    try:
        replicate(model)
    except AssertionError:
        return found


class Within(nn.Module):
    """Runs its layers again in backward by itself."""

    def __init__(self, layers):
        super().__init__()
        self.layers, self.scale = layers, nn.Parameter(t.ones(2) / 2)

    def forward(self, x):
        return checkpoint(lambda x: self.layers(x) * self.scale, x, use_reentrant=False)


@case
def checkpoints_within_what_is_cut(rank):
    """Whatever brings parameters together has brought them together when backward runs the forward again."""
    fsdp, found = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp"), []
    wrapped, kinds = wrappers.checkpoint_wrapper, wrappers.CheckpointImpl

    def old(model):
        model = fsdp.FullyShardedDataParallel(model, use_orig_params=True, device_id=t.device("cpu"))
        wrappers.apply_activation_checkpointing(model, check_fn=lambda m: type(m) is nn.Sequential)
        return model

    def apart(model):
        for m in model:
            fsdp.fully_shard(m)
        return fsdp.fully_shard(wrapped(model))

    makes = [lambda m, kind=kind: fsdp.fully_shard(wrapped(m, checkpoint_impl=kind)) for kind in kinds]
    for make in (*makes, apart, lambda m: fsdp.fully_shard(Within(m)), old):
        layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        for i, p in enumerate(layers.parameters()):
            nn.init.constant_(p, 0.1 * (i + 1))
        model = make(layers)
        optimizer = t.optim.SGD(model.parameters(), 0.1)
        for k in range(2):
            x = ((t.arange(12).reshape(4, 3) * 7 % 5) / 6 + rank + k).requires_grad_()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            found += [round(loss.item(), 4), [round(v, 4) for v in x.grad.flatten().tolist()]]
        found.append([*model.state_dict()])
    return found


@case
def steps_in_backward(rank):
    model = filled()
    in_backward._apply_optimizer_in_backward(t.optim.SGD, model.parameters(), {"lr": 0.1, "momentum": 0.9})
    in_backward._apply_optimizer_in_backward(t.optim.Adam, [model[0].bias], {"lr": 0.2})
    found = [len(in_backward._get_in_backward_optimizers(model))]
    for k in range(2):
        backward(model, rank, k)
        found += [kept(model), firsts(model)]
    return found


@case
def steps_in_backward_with_the_mean(rank):
    """PyTorch's own needs an accelerator under DistributedDataParallel: there it is another optimizer."""
    inner = filled()
    given, ours = (inner.parameters(), {"lr": 0.1, "momentum": 0.9}), t.__name__ != "torch"
    optimizer = None if ours else t.optim.SGD(given[0], **given[1])
    if ours:
        in_backward._apply_optimizer_in_backward(t.optim.SGD, *given)
    model, found = DDP(inner), []
    for k in range(3):
        if k < 2:
            backward(model, rank, k)
        else:  # two backwards make a step
            with model.no_sync():
                backward(model, rank, k)
            backward(model, rank, k + 1)
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        found += [kept(inner), firsts(inner)]
    return found


@case
def optimizers_within_the_reduction(rank):
    found = []
    kinds = [(t.optim.SGD, {}), (t.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (t.optim.Adam, {}), (t.optim.AdamW, {})]
    for kind, options in kinds:
        model = DDP(filled())
        model._register_fused_optim(kind, **options)
        for k in range(2):
            backward(model, rank, k)
            found += [kept(model.module), [round(v, 3) for v in firsts(model.module)]]
    some = DDP(filled())
    some._register_fused_optim(t.optim.Adam, 0.1, optim_params=[*some.module.parameters()][:1])
    backward(some, rank, 0)
    found += [kept(some.module), [round(v, 3) for v in firsts(some.module)]]
    for call in (
        lambda: some.register_comm_hook(None, lambda state, bucket: None),
        lambda: DDP(filled())._register_fused_optim(t.optim.Adadelta, lr=0.1),
    ):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            found.append((type(error).__name__, str(error)[:13]))
    return found


@case
def sums_of_sparse_tensors(rank):
    made, found = t.sparse_coo_tensor, []
    for x in (
        made([[rank, 2]], [1.0, 2.0], (4,)).coalesce(), made([[2, 2]], [1.0, 2.0], (4,)),
        made([[rank, 1]], [[1.0, 2.0], [3.0, 4.0]], (4, 2)), made([[rank]], [1], (4,)),
        made([[0]], [1.0], (4,)) if rank else made(t.zeros(1, 0).long(), t.zeros(0), (4,)),
        made(t.zeros(2, 0).long(), t.zeros(0), (4, 3)),
    ):  # fmt: skip
        d.all_reduce(x)
        found += [x.to_dense().tolist(), x.is_coalesced(), x._nnz()]
    return found


@case
def sparse_gradients(rank):
    """They stay sparse, with the rows of all processes, under no_sync too."""
    net, found = nn.Sequential(nn.EmbeddingBag(9, 4, mode="sum", sparse=True), nn.Linear(4, 2)), []
    for i, p in enumerate(net.parameters()):
        nn.init.constant_(p, 0.1 * (i + 1))
    model = DDP(net)
    optims = [t.optim.SparseAdam(net[0].parameters(), 0.05), t.optim.SGD(net[1].parameters(), 0.1)]
    for k in range(3):
        with model.no_sync() if k == 1 else warnings.catch_warnings():
            loss = model(t.tensor([[rank, k], [k, 5 + rank]])).square().mean()
            loss.backward()
        grad = net[0].weight.grad.coalesce()
        found += [round(loss.item(), 4), grad.indices().tolist(), [round(v, 4) for v in grad.values()[:, 0].tolist()]]
        for optim in optims if k != 1 else ():
            optim.step()
            optim.zero_grad()
    return found


if __name__ == "__main__":
    ranks.run(d, CASES)
