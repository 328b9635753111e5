"""DeviceMesh, DTensor, plans and fully_shard of two processes: a script for PyTorch and torchlike.

    python mesh_script.py LIBRARY FILE

RANK, WORLD_SIZE and so on are in the environment. ``test_processes`` runs it. Writes what each case
gave on this rank, as JSON.
"""

import copy
import importlib
import io
import pickle
import sys
import warnings

import ranks

t = importlib.import_module(sys.argv[1])
d, nn = t.distributed, t.nn
device_mesh = importlib.import_module(f"{sys.argv[1]}.distributed.device_mesh")
dt = importlib.import_module(f"{sys.argv[1]}.distributed.tensor")
tp = importlib.import_module(f"{sys.argv[1]}.distributed.tensor.parallel")
fsdp = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp")
experimental = importlib.import_module(f"{sys.argv[1]}.distributed.tensor.experimental")
Shard, Replicate, Partial, DTensor = dt.Shard, dt.Replicate, dt.Partial, dt.DTensor
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def rounded(x):
    return [round(v, 4) + 0.0 for v in x.detach().double().flatten().tolist()]


def said(f):
    try:
        return repr(f())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def line(names=None):
    return device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=names)


def grid():
    return device_mesh.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))


def numbers(*shape):
    n = 1
    for s in shape:
        n *= s
    return ((t.arange(n) * 7 % 11 - 5) / 8).reshape(shape)


def filled(model):
    with t.no_grad():
        for p in model.parameters():
            p.copy_(numbers(*p.shape))
    return model


def net():
    return filled(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)))


@case
def meshes(rank):
    m = grid()
    return [
        repr(x) for x in (
            line(), line(("x",)), m["dp"], m["dp", "tp"] == m, m.size(), m.size(0), m.shape, m.ndim, m.mesh.tolist(),
            m["dp"].mesh.tolist(), m["tp"].mesh.tolist(), m.get_rank(), m.get_local_rank("dp"), m.get_local_rank(1),
            m["dp"].get_local_rank(), m.get_coordinate(), m.mesh_dim_names, m.device_type, m["dp"] == m["dp"],
            hash(m) == hash(m), d.get_world_size(m.get_group("dp")), d.get_process_group_ranks(m.get_group("tp")),
            len(m.get_all_groups()), m._flatten("all"), m["all"].size(),
        )
    ]  # fmt: skip


@case
def wrong_meshes(rank):
    make, m = device_mesh.init_device_mesh, grid()
    return [
        said(f) for f in (
            lambda: m["x"], m.get_local_rank, m.get_group, lambda: make("cpu", (2,))["dp"],
            lambda: make("cpu", (2,), mesh_dim_names=("a", "b")),
            lambda: make("cpu", (1, 2), mesh_dim_names=("a", "a")), lambda: make("cpu:0", (2,)),
        )
    ]  # fmt: skip


@case
def groups_of_a_size(rank):
    return [said(lambda n=n: d.new_subgroups(n)) for n in (3, 0)] + [
        said(d.new_subgroups)[:70], said(lambda: d.new_subgroups_by_enumeration([[0, 1], [1]])),
        [d.get_process_group_ranks(g) for g in d.new_subgroups(2)[1]],
    ]  # fmt: skip


@case
def too_large(rank):
    return said(lambda: device_mesh.init_device_mesh("cpu", (3,)))[:80]


@case
def tensors(rank):
    x = dt.distribute_tensor(numbers(4, 2), line(), [Shard(0)])
    return [
        repr(y) for y in (
            x, x + 1, x.shape, x.stride(), x.dtype, x.device, x.placements, x.device_mesh, x.requires_grad, x.is_leaf,
            x.to_local(), x.full_tensor(), x.redistribute(placements=[Replicate()]),
            x.redistribute(placements=[Shard(1)]), x.t().placements,
            x.relu().placements, x.clone().placements, t.zeros_like(x), x * t.tensor(2.0),
            dt.distribute_tensor(numbers(4, 2), line()).placements, x.sum().full_tensor(), x.mean().full_tensor(),
            (x @ dt.distribute_tensor(numbers(2, 2), line(), [Replicate()])).placements, x.detach().placements,
            dt.zeros(4, 2, device_mesh=line(), placements=[Shard(0)]), dt.ones((4,), device_mesh=line()),
            dt.full((4,), 3.0, device_mesh=line(), placements=[Shard(0)]), copy.deepcopy(x),
        )
    ]  # fmt: skip


@case
def parts(rank):
    x = numbers(2, 2) + rank
    m = line()
    return [
        repr(y) for y in (
            DTensor.from_local(x, m, [Shard(0)]).full_tensor(), DTensor.from_local(x, m, [Shard(1)]),
            DTensor.from_local(x, m, [Partial()]).full_tensor(),
            DTensor.from_local(x, m, [Partial("avg")]).full_tensor(),
            DTensor.from_local(x, m, [Partial()]).redistribute(placements=[Shard(0)]),
            DTensor.from_local(x, m, [Partial("max")]).full_tensor(), DTensor.from_local(numbers(2), m),
        )
    ]  # fmt: skip


@case
def dimensions_that_a_tensor_has_not(rank):
    x, m = numbers(4, 2), line()
    return [
        said(lambda f=f, dim=dim: f([Shard(dim)])).partition(":")[0] for dim in (2, 5, -3) for f in (
            lambda cut: dt.distribute_tensor(x, m, cut), lambda cut: DTensor.from_local(x, m, cut),
            lambda cut: dt.zeros(4, 2, device_mesh=m, placements=cut),
            lambda cut: dt.distribute_tensor(x, m, [Shard(0)]).redistribute(placements=cut).to_local(),
        )
    ]  # fmt: skip


@case
def wrong_tensors(rank):
    x, m = dt.distribute_tensor(numbers(4, 2), line(), [Shard(0)]), line()
    return [
        said(f) for f in (
            lambda: dt.distribute_tensor(numbers(4, 2), m, [Shard(5)]),
            lambda: dt.distribute_tensor(numbers(4, 2), m, [Shard(0), Shard(1)]), lambda: dt.zeros(4),
            lambda: dt.distribute_tensor(numbers(2).requires_grad_() * 2, m),
        )
    ] + [said(f)[:9] for f in (lambda: x + numbers(4, 2), x.tolist, x.numpy, lambda: x.redistribute(m))]  # fmt: skip


@case
def gradients(rank):
    m = line()
    x = numbers(2, 4) + rank
    p = nn.Parameter(dt.distribute_tensor(numbers(4, 4), m, [Shard(0)]))
    leaf = x.clone().requires_grad_()
    y = DTensor.from_local(leaf, m, [Shard(0)])
    ((y @ p).relu() ** 2).sum().backward()
    found = [isinstance(p, nn.Parameter), isinstance(p, DTensor), type(p.grad) is DTensor]
    z = dt.distribute_tensor(numbers(4), m, [Shard(0)]).requires_grad_()
    (z.to_local() * (rank + 1)).sum().backward()
    return found, rounded(p.grad.full_tensor()), rounded(leaf.grad), rounded(z.grad.full_tensor())


@case
def gradients_of_parts(rank):
    found = []
    for placement in (Replicate(), Shard(0), Partial()):
        for back in (Replicate(), Shard(0), Partial(), Partial("avg"), None):
            leaf = (numbers(2, 2) + rank).requires_grad_()
            x = DTensor.from_local(leaf, line(), [placement], grad_placements=None if back is None else [back])
            weight = dt.distribute_tensor(numbers(*x.shape), line())
            found.append(said(lambda x=x, w=weight, leaf=leaf: [(x * w).sum().backward(), rounded(leaf.grad)])[:12])
            found.append(leaf.grad is not None and rounded(leaf.grad))
    return found


@case
def optimizers(rank):
    m, found = line(), []
    for make in (lambda p: t.optim.SGD(p, 0.0713, momentum=0.83), lambda p: t.optim.AdamW(p, 0.0913)):
        p = nn.Parameter(dt.distribute_tensor(numbers(4, 2), m, [Shard(0)]))
        optimizer = make([p])
        for _ in range(3):
            optimizer.zero_grad()
            (p**2).sum().backward()
            optimizer.step()
        found += [rounded(p.full_tensor()), repr(p.placements)]
    return found


@case
def distributed_modules(rank):
    m = line()

    def cut(name, part, mesh):
        for key, p in [*part.named_parameters(recurse=False)]:
            part.register_parameter(key, nn.Parameter(dt.distribute_tensor(p, mesh, [Shard(0)])))

    def take(module, inputs, mesh):
        return tuple(DTensor.from_local(x, mesh, [Replicate()]) for x in inputs)

    model = dt.distribute_module(net(), m, cut, take, lambda module, out, mesh: out.full_tensor())
    out = model(numbers(3, 4))
    return (
        [repr(p.placements) for p in model.parameters()],
        rounded(out),
        said(lambda: dt.distribute_module(model, m))[:60],
    )


@case
def local_maps(rank):
    m = line()
    f = experimental.local_map(lambda x, w: x @ w, [Partial()], ([Shard(1)], [Shard(0)]), device_mesh=m)
    x, w = dt.distribute_tensor(numbers(2, 4), m, [Shard(1)]), dt.distribute_tensor(numbers(4, 2), m, [Shard(0)])
    g = experimental.local_map(lambda x: (x.sum(0), x, 3), (None, [Shard(1)], None), device_mesh=m)
    untold, cut, number = g(dt.distribute_tensor(numbers(4, 2), m, [Replicate()]))
    alone = experimental.local_map(lambda x: x * 2, None, device_mesh=m)(x)
    wrong = said(lambda: experimental.local_map(lambda x: 3, [Shard(0)], device_mesh=m)(x))[:20]
    told = [repr(y.placements) for y in (untold, cut, alone)], rounded(untold.full_tensor()), number, wrong
    return rounded(f(x, w).full_tensor()), said(lambda: f(w, w))[:10], told


@case
def dtypes_on_the_way(rank):
    found = []
    for here, there in ((Shard(0), Replicate()), (Replicate(), Shard(0))):
        for forth, back in ((t.bfloat16, None), (None, t.bfloat16), (t.float64, t.float32)):
            w = (t.arange(4.0) + 1 / 3).requires_grad_()
            x = dt.DTensor.from_local(w, line(), [here]).redistribute(
                placements=[there], forward_dtype=forth, backward_dtype=back
            )
            (x.to_local().float() * (1 + 1 / 300)).sum().backward()
            found.append([str(x.dtype), repr(x.placements), str(w.grad.dtype), rounded(w.grad), rounded(x.to_local())])
    return found


@case
def copies(rank):
    x = dt.distribute_tensor(numbers(4, 2), line(), [Shard(0)])
    p, found = nn.Parameter(x), []
    for make in (copy.copy, copy.deepcopy, lambda y: pickle.loads(pickle.dumps(y)), saved_and_loaded):
        for y in (x.clone(), p, x * 2):
            z = make(y)
            found.append([repr(z.detach()), z.requires_grad, isinstance(z, nn.Parameter)])
            z.detach().add_(1)
            found.append(rounded(y.full_tensor()))
    m = grid()
    meshes = [
        make(y) == y for y in (m, m["dp"]) for make in (lambda y: pickle.loads(pickle.dumps(y)), saved_and_loaded)
    ]
    shared = saved_and_loaded({"a": p, "b": [p]})
    return found, meshes, shared["a"] is shared["b"][0]


def saved_and_loaded(x):
    file = io.BytesIO()
    t.save(x, file)
    file.seek(0)
    return t.load(file)


@case
def parallel_losses(rank):
    m, found = line(), []
    targets, weight = t.arange(4) * 3 % 6, numbers(6).abs() + 0.5
    for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": weight}, {"ignore_index": 3}):
        logits = dt.distribute_tensor(numbers(4, 6), m, [Shard(1)]).requires_grad_()
        with tp.loss_parallel():
            loss = nn.functional.cross_entropy(logits, targets, **options)
            loss.sum().backward()
        found += [rounded(loss.full_tensor()), rounded(logits.grad.full_tensor()), type(loss) is DTensor]
    with tp.loss_parallel():
        found += [said(f)[:12] for f in (
            lambda: nn.functional.cross_entropy(logits, targets, label_smoothing=0.1), lambda: logits + numbers(4, 6),
            lambda: nn.functional.cross_entropy(logits, numbers(4, 6)),
        )]  # fmt: skip
    found.append(said(lambda: nn.functional.cross_entropy(logits, targets))[:12])
    return found


def trained(model, step, steps=3):
    optimizer = t.optim.AdamW(model.parameters(), 0.05)
    losses = []
    for k in range(steps):
        optimizer.zero_grad()
        loss = step(k)
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    return losses


@case
def tensor_parallel(rank):
    m = line()
    plan = {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()}
    model = tp.parallelize_module(net(), m, plan)
    losses = trained(model, lambda k: (model(numbers(6, 4) + k) ** 2).mean())
    shapes = [list(model[0](numbers(3, 4)).shape), list(model(numbers(3, 4)).shape)]
    return losses, shapes, [repr(p.placements) for p in model.parameters()], repr(plan["0"]), repr(plan["2"])


@case
def sequence_parallel(rank):
    m = line()
    model = nn.Sequential(nn.LayerNorm(4), net())
    plan = {
        "0": tp.SequenceParallel(),
        "1": tp.PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "1.0": tp.ColwiseParallel(), "1.2": tp.RowwiseParallel(output_layouts=Shard(1)),
    }  # fmt: skip
    tp.parallelize_module(model, m, plan)
    x = numbers(2, 4, 4)[:, rank * 2 : rank * 2 + 2]
    losses = trained(model, lambda k: (model(x + k) ** 2).mean())
    return losses, rounded(model(x)), repr(plan["0"])


@case
def wrong_plans(rank):
    m, model = line(), nn.Sequential(nn.ReLU())
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        tp.parallelize_module(model, m, {"nothing": tp.ColwiseParallel()})
    return len(seen), said(lambda: tp.parallelize_module(model, m, {"0": tp.ColwiseParallel()}))[:70]


def fully(model, **options):
    for part in model:
        if isinstance(part, nn.Linear):
            fsdp.fully_shard(part, **options)
    return fsdp.fully_shard(model, **options)


def batch(rank, k):
    return (numbers(8, 4) + k)[rank * 4 : rank * 4 + 4]


@case
def fully_sharded(rank):
    found = []
    offload = fsdp.CPUOffloadPolicy(pin_memory=False)
    for options in ({}, {"reshard_after_forward": False}, {"mesh": line()}, {"offload_policy": offload}):
        model = fully(net(), **options)
        losses = trained(model, lambda k, model=model: (model(batch(rank, k)) ** 2).mean())
        found += [losses, [rounded(p.full_tensor()) for p in model.parameters()]]
        found += [[type(m).__name__ for m in model], isinstance(model, fsdp.FSDPModule), repr(model[0])]
        found += [[(repr(p.placements), list(p.shape), type(p) is DTensor) for p in model.parameters()]]
        found += [repr(model[0].weight.grad.placements), [*model.state_dict()]]
    return found


@case
def unsharded(rank):
    model = fully(net())
    model.unshard()
    before = [type(model[0].weight) is DTensor, list(model[0].weight.shape)]
    model.reshard()
    return before, type(model[0].weight) is DTensor, said(lambda: fsdp.fully_shard(model))[:90]


@case
def mixed_precision(rank):
    policy = fsdp.MixedPrecisionPolicy(param_dtype=t.bfloat16, output_dtype=t.float32)
    model = fsdp.fully_shard(net(), mp_policy=policy)
    seen = []
    model[0].register_forward_hook(lambda m, inputs, out: seen.append((str(inputs[0].dtype)[-8:], str(out.dtype)[-8:])))
    out = model(batch(rank, 0))
    out.sum().backward()
    return seen, str(out.dtype)[-7:], str(model[0].weight.dtype)[-7:], str(model[0].weight.grad.dtype)[-7:]


@case
def wrapped(rank):
    model = fsdp.FullyShardedDataParallel(net(), use_orig_params=True, device_id=t.device("cpu"))
    losses = trained(model, lambda k: (model(batch(rank, k)) ** 2).mean())
    return losses, list(model(batch(rank, 0)).shape), type(model.module).__name__


@case
def norms_of_wrapped(rank):
    found = []
    for order in (1.0, 2.0, float("inf")):
        model = fsdp.FullyShardedDataParallel(net(), use_orig_params=True, device_id=t.device("cpu"))
        (model(batch(rank, 0)) ** 2).mean().backward()
        norm = model.clip_grad_norm_(0.1, order)
        found.append((type(norm).__name__, rounded(norm), rounded(model.clip_grad_norm_(1e9, order))))
    return found


@case
def states_of_wrapped(rank):
    """Without values of moments, which PyTorch gathers wrongly on CPUs, and without rank0_only, which ends it there."""
    FSDP, kinds = fsdp.FullyShardedDataParallel, fsdp.StateDictType
    model = FSDP(net(), use_orig_params=True, device_id=t.device("cpu"))
    optim = t.optim.Adam(model.parameters(), lr=0.1)
    (model(batch(rank, 0)) ** 2).mean().backward()
    optim.step()
    whole, moments = model.state_dict(), FSDP.optim_state_dict(model, optim)
    found = [{k: (type(v).__name__, list(v.shape), rounded(v)) for k, v in whole.items()}]
    found += [{k: {n: list(x.shape) for n, x in v.items()} for k, v in moments["state"].items()}]
    found += [[g["params"] for g in moments["param_groups"]], repr(FSDP.get_state_dict_type(model))]
    other = FSDP(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), use_orig_params=True, device_id="cpu")
    found += [repr(other.load_state_dict(whole)), rounded(other(batch(rank, 1)))]
    with FSDP.summon_full_params(model):
        for _, p in model.named_parameters():
            p.data.fill_(2.0)
    found += [rounded(model.state_dict()["0.bias"])]
    with FSDP.state_dict_type(model, kinds.SHARDED_STATE_DICT):
        found += [list(model.state_dict()), repr(FSDP.get_state_dict_type(model).state_dict_type)]
    full = FSDP.full_optim_state_dict(model, optim)
    by_number = fsdp.fully_sharded_data_parallel.OptimStateKeyType.PARAM_ID
    found += [list(full)]
    found += [sorted(FSDP.rekey_optim_state_dict(full, by_number, model)["state"])] if rank == 0 else []
    found += [said(lambda: FSDP.set_state_dict_type(model, kinds.FULL_STATE_DICT, 3)).partition("<")[0]]
    return found + [len(FSDP.fsdp_modules(model)), FSDP.get_state_dict_type(net())]


def scaled_steps(model, scaler, rank, first=False, fused=False):
    """The scale and the losses of three steps; in the second the gradients of rank 1 alone overflow."""
    optim, found = t.optim.SGD(model.parameters(), lr=0.125, fused=fused), []
    for k in range(3):
        optim.zero_grad()
        loss = (model(batch(rank, k)) ** 2).mean()
        found += [rounded(loss)]
        scaler.scale(loss * float("inf") if (k, rank) == (1, 1) else loss).backward()
        if first:
            scaler.unscale_(optim)
        scaler.step(optim)
        scaler.update()
        found += [scaler.get_scale()]
    return found


def by_wrapper(module=None, **options):
    return fsdp.FullyShardedDataParallel(module or net(), use_orig_params=True, device_id=t.device("cpu"), **options)


@case
def parts_of_a_sum(rank):
    """What from_local makes of parts that are to be reduced has them, and its gradient is theirs."""
    m, found = line(), []
    for op in ("sum", "avg", "max", "min"):
        x = (numbers(2, 2) * (rank + 1)).requires_grad_()
        y = DTensor.from_local(x, m, [Partial(op)])
        part = y.to_local()
        (part * numbers(2, 2)).sum().backward()
        found += [repr(y.placements), rounded(part), rounded(x.grad), rounded(y.full_tensor())]
        found += [rounded(f(y).full_tensor()) for f in (lambda y: y * 2, lambda y: y + 1, lambda y: y @ y)]
        found += [rounded(y.redistribute(m, [Shard(0)]).to_local())]
        found += [repr(y.redistribute(m, [Partial(op)]).placements), repr(y.redistribute(m, [Replicate()]).placements)]
        found += [rounded(dt.distribute_tensor(numbers(2), m, [Partial(op)]).to_local())]
    plan = {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel(output_layouts=Partial())}
    total = tp.parallelize_module(net(), m, plan)(numbers(2, 4))
    d.all_reduce(total)
    wrong = said(lambda: DTensor.from_local(t.ones(2), m, [Partial()]).redistribute(m, [Partial("max")]))
    return found + [rounded(total), wrong[:32]]


@case
def parts_that_are_checked(rank):
    """from_local(run_check=True) gives all the whole of the first process; shape and stride come together."""
    m, found = line(), []
    for placement in (Replicate(), Shard(0), Partial()):
        x = (numbers(2, 3) + rank).requires_grad_()
        y = DTensor.from_local(x, m, [placement], run_check=True)
        (y.to_local() * numbers(2, 3)).sum().backward()
        found += [rounded(y.to_local()), rounded(x.grad)]
    for how in ({"shape": t.Size((4, 3))}, {"stride": (3, 1)}):
        found += [said(lambda how=how: DTensor.from_local(numbers(2, 3), m, [Shard(0)], **how))[:13]]
    for op in ("sum", "avg", "max"):  # a copy is Partial too
        y = copy.deepcopy(DTensor.from_local(numbers(2, 3) + rank, m, [Partial(op)]))
        found += [repr(y.placements), rounded(y.to_local()), rounded(y.full_tensor())]
    return found


@case
def values_of_one_process_of_a_part_of_a_mesh(rank):
    m, found = grid(), []
    for part, source in (("dp", 0), ("dp", 1), ("tp", 0), ("dp", None)):
        for placement in (Replicate(), Shard(0)):
            y = dt.distribute_tensor(numbers(4) + 10 * rank, m[part], [placement], src_data_rank=source)
            found += [rounded(y.to_local()), rounded(y.full_tensor())]
    both = dt.distribute_tensor(numbers(4) + 10 * rank, m, [Replicate(), Shard(0)], src_data_rank=0)
    return [*found, rounded(both.to_local())]


@case
def summoned_in_many_ways(rank):
    summon, half = fsdp.FullyShardedDataParallel.summon_full_params, fsdp.MixedPrecision(param_dtype=t.bfloat16)
    model, found = by_wrapper(mixed_precision=half), []
    model(batch(rank, 0)).float().sum().backward()
    for kept in (True, False):
        with summon(model, with_grads=True, writeback=kept):
            found += [[str(p.dtype), rounded(p), str(p.grad.dtype)] for p in model.parameters()]
            with t.no_grad():
                for p in model.parameters():
                    p.add_(1e-3)  # which bfloat16 would lose
                    p.grad.fill_(0.25)
    if t.__name__ == "torchlike":  # PyTorch's process ends here
        with summon(model, with_grads=True, rank0_only=True, writeback=False):
            assert [isinstance(p, DTensor) for p in model.parameters()] == [rank > 0] * 4
            assert rank > 0 or all((p.grad == 0.25).all() for p in model.parameters())
        with summon(model, offload_to_cpu=True):
            assert found[4][1] == [rounded(p) for p in model.parameters()][0] != found[0][1]
    return found + [said(lambda: summon(model, rank0_only=True).__enter__())]


@case
def precision_that_batch_norms_keep(rank):
    """The dtypes that modules compute in, and give on."""
    F, found = importlib.import_module(f"{t.__name__}.distributed.fsdp.wrap"), []
    for options in ({}, {"buffer_dtype": t.bfloat16}, {"_module_classes_to_ignore": (nn.LayerNorm,)}):
        parts = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LayerNorm(4)
        options = {"buffer_dtype": t.bfloat16, **options} if "_module_classes_to_ignore" in options else options
        for m in parts:
            m.register_forward_hook(lambda m, i, o, told=found: told.append([str(i[0].dtype), str(o.dtype)]))
        half, policy = fsdp.MixedPrecision(param_dtype=t.bfloat16, **options), F.ModuleWrapPolicy({nn.Linear})
        model = by_wrapper(nn.Sequential(*parts), mixed_precision=half, auto_wrap_policy=policy)
        found.append(str(model(batch(rank, 0)).dtype))
        found += [[str(b.dtype) for b in model.buffers()]]
    return found


@case
def a_sequence_over_processes(rank):
    """Attention to a sequence of which each process has a part; PyTorch's own needs a GPU."""
    if t.__name__ == "torch":
        return "as whole"
    F, parts = t.nn.functional, importlib.import_module("torchlike.distributed.tensor.experimental._attention")
    for causal, balanced in ((False, True), (True, True), (True, False)):
        parts._cp_options.enable_load_balance = balanced
        whole = [(numbers(1, 2, 8, 4) + i / 4).cos().requires_grad_() for i in range(3)]
        buffers = [x.detach().clone() for x in whole]
        expected = F.scaled_dot_product_attention(*whole, is_causal=causal)
        (expected**2).sum().backward()
        with experimental.context_parallel(
            line(), buffers=buffers, buffer_seq_dims=[2, -2, 2], no_restore_buffers={buffers[2]}
        ):
            mine = [b.clone().requires_grad_() for b in buffers]
            y = F.scaled_dot_product_attention(*mine, is_causal=causal)
            (y**2).sum().backward()
            found = parts.context_parallel_unshard(line(), [y, *(x.grad for x in mine)], [2, 2, -2, 2])
        for a, b in zip(found, [expected, *(x.grad for x in whole)], strict=True):
            assert (a - b).abs().max() < 1e-6
        assert [b.shape[2] for b in buffers] == [8, 8, 4] and (buffers[0] == whole[0]).all()
    parts._cp_options.enable_load_balance = True
    for call, message in (
        (lambda: nn.MultiheadAttention(4, 2)(*[t.ones(4, 1, 4)] * 3), "attends to this process's part alone"),
        (lambda: F.scaled_dot_product_attention(*[t.ones(1, 4, 4)] * 3, dropout_p=0.5), "mask or dropout"),
    ):
        with experimental.context_parallel(line()):
            assert message in said(call)
    assert "a sequence of 6 is not cut" in said(
        lambda: experimental.context_parallel(line(), buffers=[t.ones(6)], buffer_seq_dims=[0]).__enter__()
    )
    return "as whole"


@case
def scaled(rank):
    return list(scaled_cases(rank))


def scaled_cases(rank):
    sharded = importlib.import_module(f"{sys.argv[1]}.distributed.fsdp.sharded_grad_scaler").ShardedGradScaler
    for first in (False, True):
        yield scaled_steps(net(), sharded("cpu", 16.0, growth_interval=1), rank, first)
    if sys.argv[1] == "torchlike":  # the scales of PyTorch's ranks go apart here
        fused = scaled_steps(net(), sharded("cpu", 16.0, growth_interval=1), rank, fused=True)
        assert fused == scaled_steps(net(), sharded("cpu", 16.0, growth_interval=1), rank)
    wrapper = fsdp.FullyShardedDataParallel(net(), use_orig_params=True, device_id=t.device("cpu"))
    yield scaled_steps(wrapper, sharded("cpu", 16.0, growth_interval=1), rank)
    yield scaled_steps(fully(net()), t.amp.GradScaler("cpu", 16.0, growth_interval=1), rank)
    yield scaled_steps(nn.parallel.DistributedDataParallel(net()), t.amp.GradScaler("cpu", 16.0), rank)
    half, scaler = net().half(), sharded("cpu", 4.0)
    optim = t.optim.SGD(half.parameters(), lr=0.125)
    yield str(scaler.scale(half(batch(rank, 0).half()).sum()).dtype), scaler.state_dict()
    half(batch(rank, 0).half()).sum().backward()
    yield said(lambda: scaler.unscale_(optim)), rounded(half[0].bias.grad)
    yield said(lambda: t.amp.GradScaler("cpu").step(optim)), sharded().is_enabled()


@case
def on_meta(rank):
    """Built on meta, cut by tensor and data parallelism, then filled."""
    mesh = device_mesh.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    x = dt.distribute_tensor(t.ones(4, 6, device="meta"), mesh["tp"], [Shard(0)])
    found = [x.to_local(), x.full_tensor(), x.redistribute(placements=[Shard(1)]).to_local(), (x + 1).to_local()]
    found.append(DTensor.from_local(t.ones(2, 6, device="meta"), mesh["tp"], [Shard(0)]))
    with t.device("meta"):
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
    tp.parallelize_module(model, mesh["tp"], {"0": tp.ColwiseParallel(), "1": tp.RowwiseParallel()})
    fsdp.fully_shard(model, mesh=mesh["dp"])
    for p in model.parameters():
        found += [p, p.to_local()]
    told = [(list(y.shape), y.device.type, isinstance(y, DTensor)) for y in found]
    model.to_empty(device="cpu")
    with t.no_grad():
        for p in model.parameters():
            p.fill_(0.5)
    return told, model(t.ones(1, 4)).sum().item()


@case
def in_one_order(rank):
    """Collectives, operators over both processes and both in turn, which each rank begins after waits of its own."""
    mixed = importlib.import_module("in_turn")
    return mixed.rounds(t, line(), rank, 12)


@case
def collectives_that_ran(rank):
    debug = importlib.import_module(f"{t.__name__}.distributed.tensor.debug")
    F, world = importlib.import_module(f"{t.__name__}.distributed._functional_collectives"), d.group.WORLD
    x, whole = (dt.distribute_tensor(numbers(4, 4), line(), [p]) for p in (Shard(0), Replicate()))
    model = t.nn.Sequential(t.nn.Linear(4, 8), t.nn.ReLU(), t.nn.Linear(8, 4))
    model = tp.parallelize_module(model, line(), {"0": tp.ColwiseParallel(), "2": tp.RowwiseParallel()})
    optimizer, ddp = t.optim.Adam(model.parameters()), t.nn.parallel.DistributedDataParallel(t.nn.Linear(4, 2))
    parts, counts = [t.zeros(2), t.zeros(2)], []
    for f in (
        lambda: x.redistribute(line(), [Replicate()]), x.full_tensor, lambda: whole.redistribute(line(), [Shard(0)]),
        lambda: x + x, lambda: x @ whole, lambda: x.sum().full_tensor(), lambda: (x.t() @ x).full_tensor(),
        lambda: DTensor.from_local(t.ones(2), line(), [Partial()]).full_tensor(),
        lambda: model(t.ones(2, 4)), lambda: model(t.ones(2, 4)).sum().backward(), optimizer.step,
        lambda: t.nn.utils.clip_grad_norm_(model.parameters(), 1.0), lambda: ddp(t.ones(2, 4)).sum().backward(),
        lambda: d.all_reduce(t.ones(2)), lambda: d.all_gather(parts, t.ones(2)), d.barrier,
        lambda: d.all_gather_into_tensor(t.ones(4), t.ones(2)), lambda: d.reduce_scatter_tensor(t.ones(2), t.ones(4)),
        lambda: d.broadcast(t.ones(2), 0), lambda: d.all_to_all_single(t.ones(4), t.ones(4)),
        lambda: d.reduce(t.ones(2), 0), lambda: d.reduce_scatter(t.ones(2), parts), lambda: None,
        lambda: F.all_reduce(t.ones(2), "sum", world), lambda: F.all_gather_tensor(t.ones(2), 0, world),
        lambda: F.reduce_scatter_tensor(t.ones(2), "sum", 0, world),
        lambda: F.all_to_all_single(t.ones(2), None, None, world), lambda: F.broadcast(t.ones(2), 0, world),
    ):  # fmt: skip
        mode = debug.CommDebugMode()
        with mode:
            f()
        counts.append([mode.get_total_counts(), {str(k): n for k, n in mode.get_comm_counts().items() if n}])
    with mode:
        d.all_reduce(t.ones(2))
    found = mode.get_comm_counts()
    return counts, found[t.ops.c10d.allreduce_], found[t.ops.c10d_functional.all_reduce]


if __name__ == "__main__":
    ranks.run(d, CASES, seconds=60)
