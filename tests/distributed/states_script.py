"""States over ``fully_shard``: ``states_script.py LIBRARY FILE``, run by ``test_processes.py``."""

import importlib
import shutil
import sys
import tempfile
import warnings

import ranks

LIBRARY = sys.argv[1]
t = importlib.import_module(LIBRARY)
d, nn, optim = t.distributed, t.nn, t.optim
fsdp = importlib.import_module(f"{LIBRARY}.distributed.fsdp")
fully_shard, Wrapper = fsdp.fully_shard, fsdp.FullyShardedDataParallel
wrap = importlib.import_module(f"{LIBRARY}.distributed.fsdp.wrap")
dcp = importlib.import_module(f"{LIBRARY}.distributed.checkpoint")
states = importlib.import_module(f"{LIBRARY}.distributed.checkpoint.state_dict")
warnings.simplefilter("ignore")
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


def plain(x):
    if hasattr(x, "full_tensor"):
        return ["cut", plain(x.full_tensor())]
    if isinstance(x, t.Tensor):
        return [list(x.shape), [round(v, 3) + 0.0 for v in x.detach().double().flatten().tolist()]]
    if isinstance(x, (list, tuple)):
        return [plain(y) for y in x]
    if isinstance(x, dict):
        return {str(k): plain(v) for k, v in x.items()}
    return x if isinstance(x, (int, float, str, bool, type(None))) else str(x)


def net():
    """Some of its parameters have no equal parts."""
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(((t.arange(p.numel()) * 7 + i) % 11 - 5).reshape(p.shape) / 16)
    return model


def cut(model):
    fully_shard(model[0])
    return fully_shard(model)


def adam(model):
    return optim.AdamW(model.parameters(), lr=0.1)


def step(model, optimizer, rank, k=0):
    x = ((t.arange(24) * 5 + k) % 9 - 4.0 + rank).reshape(4, 6) / 8
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def trained(rank, make=adam):
    model = cut(net())
    optimizer = make(model)
    step(model, optimizer, rank)
    return model, optimizer


def all_of(model, optimizer):
    """Parameters, and the state of the optimizer."""
    return list(model.parameters()), [dict(s) for s in optimizer.state.values()]


OPTIMIZERS = {
    "SGD": {"momentum": 0.9}, "AdamW": {}, "Adagrad": {"initial_accumulator_value": 0.5}, "Adadelta": {},
    "RMSprop": {"momentum": 0.9, "centered": True}, "Adamax": {}, "ASGD": {},
}  # fmt: skip
for kind, options in OPTIMIZERS.items():
    CASES[kind] = lambda rank, kind=kind, options=options: all_of(
        *trained(rank, lambda m: getattr(optim, kind)(m.parameters(), lr=0.1, **options))
    )


def again(rank, model, optimizer):
    step(model, optimizer, rank, 1)
    return all_of(model, optimizer)


@case
def whole_states(rank):
    model, optimizer = trained(rank)
    options = states.StateDictOptions(full_state_dict=True)
    whole = states.get_optimizer_state_dict(model, optimizer, options=options)
    parameters = states.get_model_state_dict(model, options=options)
    other = cut(net())
    second = adam(other)
    states.set_model_state_dict(other, parameters, options=options)
    states.set_optimizer_state_dict(other, second, whole, options=options)
    return whole, states.get_optimizer_state_dict(model, optimizer), again(rank, other, second)


@case
def whole_states_of_rank_0(rank):
    model, optimizer = trained(rank)
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    told = *states.get_state_dict(model, optimizer, options=options), options
    other = cut(net())
    second = adam(other)
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    states.set_model_state_dict(other, told[0], options=options)
    states.set_optimizer_state_dict(other, second, told[1], options=options)
    moments = states.get_optimizer_state_dict(model, optimizer, options=told[2])
    return again(rank, other, second), [*told[0]], [*told[1]], [*moments]


@case
def their_own_state_dicts(rank):
    model, optimizer = trained(rank)
    other = cut(net())
    second = adam(other)
    second.load_state_dict(optimizer.state_dict())
    other.load_state_dict(model.state_dict())
    return again(rank, other, second)


@case
def checkpoints(rank):
    model, optimizer = trained(rank)
    box = [tempfile.mkdtemp() if rank == 0 else None]
    d.broadcast_object_list(box)
    dcp.save(dict(zip("mo", states.get_state_dict(model, optimizer), strict=True)), checkpoint_id=box[0])
    found = []
    for other in (cut(net()), net()):
        second = adam(other)
        told = dict(zip("mo", states.get_state_dict(other, second), strict=True))
        dcp.load(told, checkpoint_id=box[0])
        states.set_state_dict(other, second, model_state_dict=told["m"], optim_state_dict=told["o"])
        found.append(all_of(other, second))
    d.barrier()
    if rank == 0:
        shutil.rmtree(box[0])
    return found


@case
def clipped(rank):
    found = []
    for order in (2.0, 1.0, float("inf")):
        model, _ = trained(rank)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.05, order)
        found.append([norm, [p.grad for p in model.parameters()]])
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.01, norm)
        found.append([norm, [p.grad for p in model.parameters()]])
    return found


def gradients(rank, model, factor=1):
    model.zero_grad()
    model(t.arange(24.0).reshape(4, 6) / 16 + rank).square().mean().backward()
    return [p.grad.full_tensor() * factor for p in model.parameters()]


@case
def divided_by(rank):
    """PyTorch cannot with gloo, but says what it is of."""
    model, found = fully_shard(net()), []
    for factor in (1.0, 3.0):
        if LIBRARY == "torch":
            found.append(gradients(rank, model, d.get_world_size() / factor))
        else:
            model.set_gradient_divide_factor(factor)
            found.append(gradients(rank, model))
    return found


@case
def moving_averages(rank):
    model, _ = trained(rank)
    kept = [p.detach().clone() for p in net().parameters()]
    average = [p.detach().clone() for p in model.parameters()]
    step(model, adam(model), rank, 1)
    for a, p in zip(average, model.parameters(), strict=True):
        a.mul_(0.9).add_(p.detach(), alpha=0.1)
    other = [p.detach().clone() for p in model.parameters()]
    t._foreach_mul_(other, 0.5)
    t._foreach_lerp_(other, average, 0.3)
    return kept, average, other


@case
def parts_in_safetensors(rank):
    """Written and read by ranks that hold other parts; PyTorch needs a package for it."""
    if LIBRARY == "torch":
        return "read"
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    d.broadcast_object_list(folder, 0)
    model, other = cut(net()), net()
    writer = dcp.HuggingFaceStorageWriter(folder[0], save_distributed=True, enable_consolidation=True)
    dcp.save(model.state_dict(), storage_writer=writer)
    for place in (folder[0], f"{folder[0]}/sharded"):
        found = {name: p * 0 for name, p in (cut(net()) if place == folder[0] else other).state_dict().items()}
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(place))
        for name, p in net().state_dict().items():
            assert (getattr(found[name], "full_tensor", lambda x=found[name]: x)() == p).all(), name
    try:
        dcp.save(model.state_dict(), storage_writer=dcp.HuggingFaceStorageWriter(folder[0]))
    except dcp.CheckpointException as error:
        assert "pass save_distributed=True" in str(error.failures)
    d.barrier()
    shutil.rmtree(folder[0], ignore_errors=True)
    return "read"


def wrapped(policy=None):
    return Wrapper(net(), device_id=t.device("cpu"), auto_wrap_policy=policy, use_orig_params=policy is not None)


@case
def states_of_wrappers_that_share_nothing(rank):
    """Two optimizers that hold one state go on by themselves, that of the bare model too."""
    model, found = wrapped(), []
    optimizer = adam(model)
    step(model, optimizer, rank)
    whole = Wrapper.full_optim_state_dict(model, optimizer, rank0_only=False)
    others = [(net(), Wrapper.rekey_optim_state_dict(whole, fsdp.OptimStateKeyType.PARAM_ID, net()))]
    others[0][0].load_state_dict(model.state_dict())
    for state in others[0][1]["state"].values():  # PyTorch's parameters of one wrapper have one count among them
        state["step"] = state["step"].clone()
    for kind in (fsdp.StateDictType.FULL_STATE_DICT, fsdp.StateDictType.SHARDED_STATE_DICT):
        other = wrapped()
        Wrapper.set_state_dict_type(model, kind)
        Wrapper.set_state_dict_type(other, kind)
        other.load_state_dict(model.state_dict())
        state = Wrapper.optim_state_dict(model, optimizer)
        others.append((other, Wrapper.optim_state_dict_to_load(other, adam(other), state)))
    for other, state in others:
        second = adam(other)
        second.load_state_dict(state)
        for k in range(3):
            step(other, second, rank, k)
        Wrapper.set_state_dict_type(other, fsdp.StateDictType.FULL_STATE_DICT)
        found.append(other.state_dict())
    step(model, optimizer, rank, 1)
    Wrapper.set_state_dict_type(model, fsdp.StateDictType.FULL_STATE_DICT)
    return found, model.state_dict()


@case
def wrappers_that_policies_make(rank):
    """What is seen of them, and where they keep to dtypes that they were not told."""
    found = []
    for policy in (None, wrap.ModuleWrapPolicy({nn.Linear}), wrap.CustomPolicy(lambda m: {"use_orig_params": True})):
        model = wrapped(policy)
        names = [[name for name, _ in model.named_modules()], [*model.state_dict()], str(model)]
        names += [name for name, _ in model.named_parameters() if policy is not None]
        with Wrapper.summon_full_params(model):
            names += [name for name, _ in model.named_parameters()]
        found.append(names)
    for casts in (True, False):
        half = {"mixed_precision": fsdp.MixedPrecision(t.bfloat16, cast_forward_inputs=casts)}
        model = wrapped(wrap.CustomPolicy(lambda m, half=half: half))
        try:
            found.append(str(model(t.ones(2, 6)).dtype))
        except RuntimeError:
            found.append("other dtypes")
    return found


if __name__ == "__main__":
    ranks.run(d, CASES, told=plain)
