"""torch.distributed.checkpoint.state_dict: names without wrappers, states of optimizers by names."""

import importlib

import pytest
from both import agree
from story_kit import said


def kit(t):
    s = importlib.import_module(f"{t.__name__}.distributed.checkpoint.state_dict")
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2))
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(t.arange(float(p.numel())).reshape(p.shape) + i)
    return s, model, t.optim.Adam(model.parameters(), lr=0.5)


def plain(x):
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return [plain(v) for v in x]
    return x.tolist() if hasattr(x, "tolist") else x


def stepped(t):
    s, model, optimizer = kit(t)
    model(t.ones(3, 2)).sum().backward()
    optimizer.step()
    return s, model, optimizer


class Shared:
    def __new__(cls, t):
        model = t.nn.Sequential(t.nn.Linear(2, 2, bias=False), t.nn.Linear(2, 2, bias=False))
        model[1].weight = model[0].weight
        return model


def frozen(t, **options):
    s, model, _ = kit(t)
    model[0].bias.requires_grad_(False)
    return list(s.get_model_state_dict(model, options=s.StateDictOptions(**options)))


def taken(t, change=None, **options):
    """A state of one optimizer, in another one."""
    s, model, optimizer = stepped(t)
    chosen = s.StateDictOptions(**options)
    state = s.get_optimizer_state_dict(model, optimizer, options=chosen)
    if change:
        change(state)
    _, other, another = kit(t)
    s.set_optimizer_state_dict(other, another, state, options=chosen)
    return plain(another.state_dict())


def faster(state):
    state["param_groups"][0]["lr"] = 0.7


def loaded(t, state, **options):
    s, model, _ = kit(t)
    return list(s.set_model_state_dict(model, state, options=s.StateDictOptions(**options)))


def two(t):
    s, model, _ = kit(t)
    first = t.optim.SGD([{"params": [model[0].weight], "lr": 0.1}, {"params": [model[0].bias], "lr": 0.2}], lr=1.0)
    return s.get_optimizer_state_dict(model, [first, t.optim.SGD(model[1].parameters(), lr=0.3, momentum=0.5)])


def early(t):
    """The first state leaves parameters, rates and gradients as they are."""
    s, model, optimizer = kit(t)
    state = s.get_optimizer_state_dict(model, optimizer)
    return (
        plain(state),
        plain(list(model.parameters())),
        [p.grad for p in model.parameters()],
        optimizer.param_groups[0]["lr"],
    )


def checkpointed(t):
    """A model whose parts are wrapped for activation checkpointing: names are those of the bare one."""
    wrappers = importlib.import_module(f"{t.__name__}.distributed.algorithms._checkpoint.checkpoint_wrapper")
    s, model, optimizer = stepped(t)
    wrappers.apply_activation_checkpointing(model)
    model_state, state = s.get_state_dict(model, optimizer)
    s.set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=state)
    return list(model_state), plain(state)


CASES = {
    "checkpointed": checkpointed,
    "model": lambda t: plain(dict(kit(t)[0].get_model_state_dict(kit(t)[1]))),
    "data parallel": lambda t: list(kit(t)[0].get_model_state_dict(t.nn.DataParallel(kit(t)[1]))),
    "shared": lambda t: (
        list(kit(t)[0].get_model_state_dict(Shared(t))),
        (lambda m: kit(t)[0].get_optimizer_state_dict(m, t.optim.SGD(m.parameters(), lr=1.0)))(Shared(t)),
    ),
    "frozen": lambda t: (frozen(t), frozen(t, ignore_frozen_params=True)),
    "optimizer": lambda t: (lambda s, m, o: plain(s.get_optimizer_state_dict(m, o)))(*stepped(t)),
    "flat": lambda t: (lambda s, m, o: plain(s.get_optimizer_state_dict(
        m, o, options=s.StateDictOptions(flatten_optimizer_state_dict=True))))(*stepped(t)),
    "early": early,
    "taken": taken,
    "taken flat": lambda t: taken(t, flatten_optimizer_state_dict=True),
    "taken faster": lambda t: taken(t, faster),
    "two optimizers": lambda t: plain(two(t)),
    "both": lambda t: (lambda s, m, o: [list(x) for x in s.get_state_dict(m, o)])(*stepped(t)),
    "no optimizer": lambda t: (lambda s, m, o: s.get_state_dict(m, ())[1])(*stepped(t)),
    "not strict": lambda t: loaded(t, {"0.weight": t.ones(2, 2)}, strict=False),
    "missing": lambda t: said(lambda: loaded(t, {"0.weight": t.ones(2, 2)}), "Missing key.*0.bias"),
    "a part of it whole": lambda t: loaded(t, {"0.weight": t.ones(2, 2)}, full_state_dict=True),
    "a part and one more": lambda t: loaded(
        t, {"0.weight": t.ones(2, 2), "z": t.ones(1)}, full_state_dict=True, strict=False),
    "a part and one too many": lambda t: said(
        lambda: loaded(t, {"0.weight": t.ones(2, 2), "z": t.ones(1)}, full_state_dict=True), "Unexpected key.*\"z\""),
    "one too many": lambda t: said(
        lambda: loaded(t, {**kit(t)[1].state_dict(), "z": t.ones(1)}), "Unexpected key.*\"z\""),
    "rank 0 needs all": lambda t: said(
        lambda: loaded(t, {}, broadcast_from_rank0=True), "full_state_dict must be True when broadcast_from_rank0"),
    "no state": lambda t: said(
        lambda: (lambda s, m, o: s.set_optimizer_state_dict(m, o, {}))(*kit(t)), "optim state_dict is empty"),
    "no groups": lambda t: said(lambda: (lambda s, m, o: s.set_optimizer_state_dict(
        m, o, {"state": {}, "param_groups": []}))(*kit(t)), "different number of parameter groups"),
    "a parameter without state": lambda t: said(
        lambda: taken(t, lambda state: state["state"].pop("0.weight")),
        "Missing optimizer state for parameter '0.weight'"),
    "a stranger": lambda t: said(
        lambda: (lambda s, m, o: s.get_optimizer_state_dict(
            m, t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=1.0)))(*kit(t)), "0"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_state_dicts(name):
    agree(CASES[name])
