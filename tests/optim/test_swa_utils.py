"""``torch.optim.swa_utils``: averages of models, norms computed anew, and the schedule, as in PyTorch."""

import copy

import numpy as np
import pytest
import torch
from both import agree
from scaler_kit import counted_items, network
from story_kit import said, story

import torchlike


def swa(t):
    return t.optim.swa_utils


def model_of(t):
    return t.nn.Sequential(network(t), t.nn.BatchNorm1d(2))


def changes(t, model, n=3):
    """A model whose parameters and buffers change ``n`` times."""
    for i in range(n):
        model((t.arange(12.0) * (i + 1) % 5).reshape(4, 3))
        with t.no_grad():
            for p in model.parameters():
                p.add_(i + 0.25)
        yield model


WAYS = {
    "the mean": lambda t: {},
    "with buffers": lambda t: {"use_buffers": True},
    "a mean": lambda t: {"avg_fn": swa(t).get_swa_avg_fn(), "use_buffers": True},
    "means": lambda t: {"multi_avg_fn": swa(t).get_swa_multi_avg_fn()},
    "exponential": lambda t: {"avg_fn": swa(t).get_ema_avg_fn(0.9), "use_buffers": True},
    "exponentials": lambda t: {"multi_avg_fn": swa(t).get_ema_multi_avg_fn(0.25), "use_buffers": True},
    "one's own": lambda t: {"avg_fn": lambda a, b, n: a + (b - a) / (n + 2), "use_buffers": True},
    "one's own for all": lambda t: {"multi_avg_fn": lambda a, b, n: [x.add_(y * n) for x, y in zip(a, b, strict=True)]},
}


@pytest.mark.parametrize("name", WAYS)
def test_averages(name):
    def run(t):
        model = model_of(t)
        averages = swa(t).AveragedModel(model, **WAYS[name](t))
        seen = []
        for changed in changes(t, model):
            averages.update_parameters(changed)
            seen.append({k: v.double().round(decimals=4) + 0.0 for k, v in averages.state_dict().items()})
        out = averages(t.ones(2, 3)).shape, averages.n_averaged, [p.requires_grad for p in averages.parameters()]
        return seen, out, list(averages.state_dict())

    agree(run)


@pytest.mark.parametrize("make", ["get_swa_multi_avg_fn", "get_ema_multi_avg_fn"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64"])
def test_lists_of_tensors(make, dtype):
    def run(t):
        f, kind = getattr(swa(t), make)(), getattr(t, dtype)
        averages, current = [t.ones(2, dtype=kind), t.ones(1)], [t.ones(2, dtype=kind) * 40, t.ones(1) * 3]
        told = [said(lambda n=n: f(averages, current, n), "^") for n in (t.tensor(1), 2)]
        return told, averages

    agree(run)


@story
def test_functions_for_one_tensor(t):
    found = []
    for f in (swa(t).get_swa_avg_fn(), swa(t).get_ema_avg_fn(), swa(t).get_ema_avg_fn(0.25)):
        for n in (1, t.tensor(2)):
            made = f(t.ones(2, requires_grad=True), t.ones(2) * 3, n)
            found += [made, made.requires_grad, f(t.ones(1, dtype=t.int64), t.ones(1, dtype=t.int64) * 4, n)]
    return found


@story
def test_wrong_decays_and_arguments(t):
    makers = swa(t).get_ema_avg_fn, swa(t).get_ema_multi_avg_fn
    told = [said(lambda f=f, d=d: f(d) and None, "Invalid decay.*") for f in makers for d in (-0.1, 1.1, 2, 0, 1)]
    both = {"avg_fn": lambda *a: a[0], "multi_avg_fn": lambda *a: None}
    told.append(said(lambda: swa(t).AveragedModel(t.nn.Linear(1, 1), **both)))
    told += [said(lambda f=f: f()([], [], 1), "list index out of range") for f in (makers[1],)]
    return told + [said(lambda: makers[1]()([t.ones(2)], [t.ones(3)], 1), "The size of tensor a.* dimension 0")]


@story
def test_other_models(t):
    averages = swa(t).AveragedModel(t.nn.Sequential(t.nn.Linear(2, 1), t.nn.BatchNorm1d(1)))
    wrong = t.nn.Linear(2, 1), t.nn.Sequential(t.nn.Linear(3, 1), t.nn.BatchNorm1d(1))
    told = [
        said(lambda m=m: averages.update_parameters(m), "zip\\(\\).*|The size of tensor a.* dimension 1") for m in wrong
    ]
    return told, averages.n_averaged


def test_a_failed_update_changes_nothing():
    averages = swa(torchlike).AveragedModel(model_of(torchlike))
    before = copy.deepcopy(averages.state_dict())
    with pytest.raises(ValueError, match="shorter"):
        averages.update_parameters(torchlike.nn.Linear(3, 4))
    assert all(torchlike.equal(v, before[k]) for k, v in averages.state_dict().items())


@story
def test_copies_and_loaded_averages(t):
    model = model_of(t)
    averages = swa(t).AveragedModel(model)
    for changed in changes(t, model, 2):
        averages.update_parameters(changed)
    other, copied = swa(t).AveragedModel(model), copy.deepcopy(averages)
    other.load_state_dict(averages.state_dict())
    for changed in changes(t, model, 1):
        other.update_parameters(changed)
        copied.update_parameters(changed)
    same = all(t.equal(a, b) for a, b in zip(other.parameters(), copied.parameters(), strict=True))
    return same, other.n_averaged, averages.n_averaged, str(averages)


def test_updates_are_one_call_that_reads_nothing(monkeypatch):
    model = model_of(torchlike)
    averages = swa(torchlike).AveragedModel(model, multi_avg_fn=swa(torchlike).get_ema_multi_avg_fn(0.5))
    reads = counted_items(monkeypatch, torchlike)
    for _ in range(3):
        averages.update_parameters(model)
    assert reads == [] and averages.n_averaged.item() == 3 and reads


def test_averages_in_a_program():
    def left(t, compile=lambda f: f):
        model = network(t)
        optimizer = t.optim.SGD(model.parameters(), lr=0.25)
        averages = swa(t).AveragedModel(model, multi_avg_fn=swa(t).get_ema_multi_avg_fn(0.75))

        def step(x):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
            averages.update_parameters(model)

        step = compile(step)
        for i in range(4):
            step(t.ones(4, 3) * i)
        return np.concatenate([p.detach().flatten().numpy() for p in averages.parameters()]), step

    ours, step = left(torchlike, lambda f: torchlike.compile(f, fullgraph=True))
    np.testing.assert_allclose(ours, left(torch)[0], rtol=1e-5, atol=1e-6)
    assert step.count == 1


# -- batch norms -------------------------------------------------------------------------------------------------------

LOADERS = {
    "tensors": lambda t, rows: rows,
    "pairs": lambda t, rows: [(x, 1) for x in rows],
    "lists": lambda t, rows: iter([[x] for x in rows]),
    "nothing": lambda t, rows: [],
}


@pytest.mark.parametrize("name", LOADERS)
def test_norms_anew(name):
    def run(t):
        norms = [t.nn.BatchNorm1d(3), t.nn.BatchNorm1d(3, momentum=0.25)]
        model = t.nn.Sequential(norms[0], t.nn.ReLU(), norms[1]).eval()
        norms[1].train()
        rows = [(t.arange(12.0) * k % 7).reshape(4, 3) for k in (1, 3)]
        swa(t).update_bn(LOADERS[name](t, rows), model, *[t.device("cpu")] * (name == "pairs"))
        state = {k: v.double().round(decimals=4) + 0.0 for k, v in model.state_dict().items()}
        return state, [n.momentum for n in norms], [m.training for m in model.modules()]

    agree(run)


@story
def test_no_norms(t):
    left = iter([1, 2])
    return swa(t).update_bn(left, t.nn.Linear(1, 1)), next(left)


def test_norms_are_put_back_after_an_error():
    norm = torchlike.nn.BatchNorm1d(3, momentum=0.25).eval()
    with pytest.raises(Exception, match="str"):
        swa(torchlike).update_bn(["rows"], norm)
    assert norm.momentum == 0.25 and not norm.training


# -- the schedule ------------------------------------------------------------------------------------------------------


def groups(t):
    first, second = [t.nn.Parameter(t.ones(1)) for _ in range(2)]
    return t.optim.SGD([{"params": [first], "lr": 0.5}, {"params": [second]}], lr=0.1)


SCHEDULES = [
    {"swa_lr": 0.05},
    {"swa_lr": 0.05, "anneal_strategy": "linear", "anneal_epochs": 3},
    {"swa_lr": [0.01, 0.02], "anneal_epochs": 2},
    {"swa_lr": (0.01, 0.02), "anneal_epochs": 1},
    {"swa_lr": 0.05, "anneal_epochs": 0},
    {"swa_lr": 0.05, "anneal_epochs": 0, "anneal_strategy": "linear"},
]


@pytest.mark.parametrize("options", SCHEDULES)
def test_rates(options):
    def run(t):
        optimizer = groups(t)
        schedule = swa(t).SWALR(optimizer, **options)
        trail = [[g["lr"] for g in optimizer.param_groups]]
        for _ in range(5):
            optimizer.step()
            schedule.step()
            trail.append(schedule.get_last_lr())
        return trail, schedule.state_dict(), [(g["swa_lr"], g["initial_lr"]) for g in optimizer.param_groups]

    agree(run)


@story
def test_rates_that_another_schedule_has_set(t):
    optimizer = groups(t)
    first, last = t.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), swa(t).SWALR(optimizer, 0.01, 2)
    trail = []
    for i in range(6):
        optimizer.step()
        (first if i < 3 else last).step()
        trail.append([g["lr"] for g in optimizer.param_groups])
    return trail


@story
def test_a_loaded_schedule(t):
    optimizers = groups(t), groups(t)
    schedules = swa(t).SWALR(optimizers[0], 0.05), swa(t).SWALR(optimizers[1], 0.07, anneal_strategy="linear")
    for _ in range(3):
        optimizers[0].step()
        schedules[0].step()
    schedules[1].load_state_dict(schedules[0].state_dict())
    optimizers[1].load_state_dict(optimizers[0].state_dict())
    for o, s in zip(optimizers, schedules, strict=True):
        o.step()
        s.step()
    return [s.get_last_lr() for s in schedules], schedules[1].state_dict()


@pytest.mark.parametrize("options", [{"anneal_strategy": "x"}, {"anneal_epochs": -1}, {"anneal_epochs": 1.5},
                                     {"swa_lr": [0.1]}, {"swa_lr": [0.1] * 3}, {"last_epoch": 2}])  # fmt: skip
def test_wrong_schedules(options):
    told = "anneal_\\w+ must be .*|swa_lr must have .*|param 'initial_lr' is not specified in param_groups.0."
    agree(lambda t: said(lambda: swa(t).SWALR(groups(t), **({"swa_lr": 0.1} | options)), told))
