"""Every learning rate scheduler, step by step: with torch and with torchlike."""

import copy
import itertools
import sys
import types
from functools import cache

import pytest
import torch
from agreement import agree
from story_kit import story, warned

import torchlike


def schedulers(T):
    return sys.modules[f"{T.__name__}.optim.lr_scheduler"]


@cache
def plain(T):
    """An optimizer that only has options."""

    class Plain(T.optim.Optimizer):
        def __init__(self, params, lr=0.1, **options):
            super().__init__(params, {"lr": lr, **options})

        def step(self, closure=None):
            return None if closure is None else closure()

    return Plain


def make(T, groups=2, **options):
    """An optimizer with ``groups`` groups of rates 0.1, 0.2..."""
    params = [{"params": T.nn.Parameter(T.zeros(1)), "lr": 0.1 * (i + 1)} for i in range(groups)]
    return plain(T)(params, **options)


def public(options):
    return {k: v for k, v in options.items() if k != "params"}


def trace(T, build, steps=12, resume=None, options=None, step=lambda s, t: s.step()):
    """The rates and the group options over some steps of a scheduler, and its state at the end."""
    optimizer = make(T, **(options or {}))
    if resume is not None:
        for group in optimizer.param_groups:
            group.update(initial_lr=group["lr"] * 3, max_lr=0.5, min_lr=0.01)
    scheduler = build(schedulers(T), optimizer, {} if resume is None else {"last_epoch": resume})
    seen = [(list(scheduler.get_last_lr()), [public(g) for g in optimizer.param_groups])]
    for t in range(steps):
        optimizer.step()
        try:
            step(scheduler, t)
        except (ZeroDivisionError, ValueError) as e:
            return seen, type(e).__name__, str(e)
        seen.append((list(scheduler.get_last_lr()), [public(g) for g in optimizer.param_groups]))
    return seen, scheduler.state_dict()


class Power:
    """A callable with state."""

    def __init__(self, base):
        self.base = base

    def __call__(self, epoch):
        return self.base**epoch


BUILD = {
    "LambdaLR": lambda S, o, k: S.LambdaLR(o, lambda e: 0.9**e, **k),
    "LambdaLR list": lambda S, o, k: S.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)], **k),
    "LambdaLR object": lambda S, o, k: S.LambdaLR(o, Power(0.5), **k),
    "MultiplicativeLR": lambda S, o, k: S.MultiplicativeLR(o, lambda e: 0.9, **k),
    "MultiplicativeLR list": lambda S, o, k: S.MultiplicativeLR(o, [lambda e: e / 10, Power(0.5)], **k),
    "StepLR": lambda S, o, k: S.StepLR(o, 3, **k),
    "StepLR gamma": lambda S, o, k: S.StepLR(o, 1, gamma=0.7, **k),
    "StepLR 0": lambda S, o, k: S.StepLR(o, 0, **k),
    "MultiStepLR": lambda S, o, k: S.MultiStepLR(o, [1, 5, 5, 8], **k),
    "MultiStepLR gamma": lambda S, o, k: S.MultiStepLR(o, (2, 0), gamma=0.3, **k),
    "ConstantLR": lambda S, o, k: S.ConstantLR(o, **k),
    "ConstantLR 0": lambda S, o, k: S.ConstantLR(o, 0.0, 2, **k),
    "ConstantLR none": lambda S, o, k: S.ConstantLR(o, 0.5, 0, **k),
    "LinearLR": lambda S, o, k: S.LinearLR(o, **k),
    "LinearLR down": lambda S, o, k: S.LinearLR(o, 1.0, 0.0, 4, **k),
    "LinearLR none": lambda S, o, k: S.LinearLR(o, total_iters=0, **k),
    "ExponentialLR": lambda S, o, k: S.ExponentialLR(o, 0.5, **k),
    "PolynomialLR": lambda S, o, k: S.PolynomialLR(o, **k),
    "PolynomialLR square": lambda S, o, k: S.PolynomialLR(o, 7, 2.0, **k),
    "PolynomialLR none": lambda S, o, k: S.PolynomialLR(o, 0, **k),
    "CosineAnnealingLR": lambda S, o, k: S.CosineAnnealingLR(o, 5, **k),
    "CosineAnnealingLR eta": lambda S, o, k: S.CosineAnnealingLR(o, 4, 0.05, **k),
    "CosineAnnealingLR 1": lambda S, o, k: S.CosineAnnealingLR(o, 1, **k),
    "CosineAnnealingLR 0": lambda S, o, k: S.CosineAnnealingLR(o, 0, **k),
    "CosineAnnealingWarmRestarts": lambda S, o, k: S.CosineAnnealingWarmRestarts(o, 3, **k),
    "CosineAnnealingWarmRestarts mult": lambda S, o, k: S.CosineAnnealingWarmRestarts(o, 2, 2, 0.01, **k),
    "OneCycleLR": lambda S, o, k: S.OneCycleLR(o, 1.0, 10, **k),
    "OneCycleLR linear": lambda S, o, k: S.OneCycleLR(o, [1.0, 2.0], 13, anneal_strategy="linear", **k),
    "OneCycleLR three": lambda S, o, k: S.OneCycleLR(o, 1.0, epochs=4, steps_per_epoch=3, three_phase=True, **k),
    "OneCycleLR fixed": lambda S, o, k: S.OneCycleLR(o, 1.0, 20, pct_start=0.1, cycle_momentum=False, **k),
    "CyclicLR": lambda S, o, k: S.CyclicLR(o, 0.1, 1.0, 3, **k),
    "CyclicLR 2": lambda S, o, k: S.CyclicLR(o, [0.1, 0.2], [1.0, 2.0], 2, 3, mode="triangular2", **k),
    "CyclicLR exp": lambda S, o, k: S.CyclicLR(o, 0.1, 1.0, 2, mode="exp_range", gamma=0.9, **k),
    "CyclicLR scale": lambda S, o, k: S.CyclicLR(o, 0.1, 1.0, 2, scale_fn=Power(0.5), **k),
    "CyclicLR scale steps": lambda S, o, k: S.CyclicLR(
        o, 0.1, 1.0, 2, scale_fn=Power(0.9), scale_mode="iterations", **k
    ),
    "CyclicLR fixed": lambda S, o, k: S.CyclicLR(o, 0.1, 1.0, 3, cycle_momentum=False, **k),
}
MOMENTA = {"momentum": {"momentum": 0.9}, "betas": {"betas": (0.9, 0.999)}}


def named(build):
    return [name for name in BUILD if build in name]


@pytest.mark.parametrize("name", BUILD)
def test_steps(name):
    agree(lambda T: trace(T, BUILD[name], options=MOMENTA["momentum"]))


@pytest.mark.parametrize("resume", [0, 1, 4, 7])
@pytest.mark.parametrize("name", BUILD)
def test_resumed(name, resume):
    agree(lambda T: trace(T, BUILD[name], steps=4, resume=resume, options=MOMENTA["momentum"]))


@pytest.mark.parametrize("name", named("CyclicLR") + named("OneCycleLR"))
def test_beta1_cycles(name):
    agree(lambda T: trace(T, BUILD[name], options=MOMENTA["betas"]))


@pytest.mark.parametrize("name", BUILD)
def test_closed_form(name):
    def step(scheduler, t):
        scheduler.step([3, 1, 5, 5, 8, 2][t])

    agree(lambda T: trace(T, BUILD[name], steps=6, options=MOMENTA["momentum"], step=step))


def test_fractional_epochs():
    def code(T):
        s = schedulers(T).CosineAnnealingWarmRestarts(make(T), 3, 2)
        return [(s.step(e), s.T_cur, s.T_i, s.last_epoch, s.get_last_lr()) for e in (0.5, 1.7, 3, 4.2, 9, 20, 2)]

    agree(code)
    agree(lambda T: schedulers(T).CosineAnnealingWarmRestarts(make(T), 3, 2).step(-1))


# -- composed --------------------------------------------------------------------------------------------
COMPOSED = {
    "sequence": lambda S, o: S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.5)], [2]),
    "three": lambda S, o: S.SequentialLR(o, [S.LinearLR(o), S.ExponentialLR(o, 0.5), S.StepLR(o, 2)], [3, 6]),
    "warm-up": lambda S, o: S.SequentialLR(o, [S.LinearLR(o, 0.1, total_iters=4), S.CosineAnnealingLR(o, 6)], [4]),
    "restarts": lambda S, o: S.SequentialLR(o, [S.ExponentialLR(o, 0.9), S.CosineAnnealingWarmRestarts(o, 3)], [5]),
    "restarts first": lambda S, o: S.SequentialLR(o, [S.CosineAnnealingWarmRestarts(o, 3), S.LinearLR(o)], [4]),
    "lambda": lambda S, o: S.SequentialLR(o, [S.LambdaLR(o, Power(0.9)), S.MultiplicativeLR(o, Power(0.99))], [4]),
    "nested": lambda S, o: S.SequentialLR(
        o, [S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.5)], [2]), S.ExponentialLR(o, 0.9)], [5]
    ),
    "of a chain": lambda S, o: S.SequentialLR(
        o, [S.LinearLR(o), S.ChainedScheduler([S.ConstantLR(o), S.ExponentialLR(o, 0.5)])], [3]
    ),
    "milestone 0": lambda S, o: S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.5)], [0]),
    "one": lambda S, o: S.SequentialLR(o, [S.StepLR(o, 2)], []),
    "chain": lambda S, o: S.ChainedScheduler([S.ConstantLR(o), S.ExponentialLR(o, 0.5)]),
    "chain of three": lambda S, o: S.ChainedScheduler(
        [S.StepLR(o, 2), S.LinearLR(o), S.PolynomialLR(o, 9)], optimizer=o
    ),
    "chain of chains": lambda S, o: S.ChainedScheduler(
        [S.ChainedScheduler([S.ConstantLR(o)]), S.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name):
    # A ChainedScheduler has no first rate of its own to go to at a milestone.
    agree(lambda T: trace(T, lambda S, o, k: COMPOSED[name](S, o)), message=name != "of a chain")


@pytest.mark.parametrize("name", [n for n in COMPOSED if n != "of a chain"])
def test_composed_state(name):
    def code(T):
        S, first, second = schedulers(T), make(T), make(T)
        s, loaded = COMPOSED[name](S, first), COMPOSED[name](S, second)
        for _ in range(4):
            first.step()
            s.step()
        second.load_state_dict(first.state_dict())
        loaded.load_state_dict(s.state_dict())
        second.step()
        rates = []
        for scheduler in (s, loaded):
            for _ in range(4):
                scheduler.step()
            rates.append(scheduler.get_last_lr())
        return rates, loaded.state_dict()

    got = agree(code).value[1][0][1]
    assert got[0] == got[1]


# -- plateau -----------------------------------------------------------------------------------------------
METRICS = [5.0, 4.0, 4.0, 4.0, 4.2, 3.9999, float("nan"), float("inf"), 3.0, 3.0, 3.0, 3.0, 3.0, 2.0, -1.0, -1.0, -1.0]
PLATEAU = {
    "default": {},
    "eager": {"patience": 0},
    "max": {"mode": "max", "patience": 1},
    "max abs": {"mode": "max", "threshold_mode": "abs", "threshold": 0.5, "patience": 1},
    "abs": {"threshold_mode": "abs", "threshold": 0.5, "patience": 1, "factor": 0.5},
    "rel": {"threshold": 0.2, "patience": 1},
    "cooldown": {"patience": 0, "cooldown": 2},
    "min_lr": {"patience": 0, "min_lr": 0.03},
    "min_lrs": {"patience": 0, "min_lr": [0.03, 0.001]},
    "eps": {"patience": 0, "eps": 0.05},
}


@pytest.mark.parametrize("name", PLATEAU)
def test_plateau(name):
    def code(T):
        optimizer = make(T)
        s = schedulers(T).ReduceLROnPlateau(optimizer, **PLATEAU[name])
        seen = [s.state_dict()]
        for m in METRICS:
            s.step(T.tensor(m) if m == 4.0 else m)
            seen.append((s.get_last_lr(), s.best, s.num_bad_epochs, s.cooldown_counter, s.in_cooldown, s.last_epoch))
        again = schedulers(T).ReduceLROnPlateau(make(T))
        again.load_state_dict(s.state_dict())
        return seen, again.state_dict()

    agree(code)


def grown(T, **options):
    optimizer = make(T)
    s = schedulers(T).ReduceLROnPlateau(optimizer, patience=0, **options)
    optimizer.add_param_group({"params": T.nn.Parameter(T.zeros(1))})
    s.step(1.0)
    s.step(2.0)
    return s.min_lrs, [g["lr"] for g in optimizer.param_groups]


def test_plateau_of_a_grown_optimizer():
    agree(lambda T: grown(T))
    agree(lambda T: grown(T, min_lr=[0.05, 0.01]))
    agree(lambda T: schedulers(T).ReduceLROnPlateau(make(T)).step(1.0, 3))
    agree(lambda T: schedulers(T).ReduceLROnPlateau(make(T)).step("a"))
    agree(lambda T: schedulers(T).ReduceLROnPlateau(make(T)).get_lr(), message=False)


# -- errors and warnings -----------------------------------------------------------------------------------
BAD = {
    "no optimizer": lambda S, o, n: S.StepLR(3, 2),
    "no optimizer, plateau": lambda S, o, n: S.ReduceLROnPlateau(3),
    "no optimizer, cyclic": lambda S, o, n: S.CyclicLR(3, 0.1, 1),
    "no optimizer, one": lambda S, o, n: S.OneCycleLR(3, 1, 10),
    "one lambda": lambda S, o, n: S.LambdaLR(o, [lambda e: 1]),
    "one multiplicative lambda": lambda S, o, n: S.MultiplicativeLR(o, [lambda e: 1]),
    "constant above 1": lambda S, o, n: S.ConstantLR(o, factor=2),
    "constant below 0": lambda S, o, n: S.ConstantLR(o, factor=-1),
    "linear start": lambda S, o, n: S.LinearLR(o, start_factor=2),
    "linear start 0": lambda S, o, n: S.LinearLR(o, start_factor=0),
    "linear end": lambda S, o, n: S.LinearLR(o, end_factor=2),
    "linear end below": lambda S, o, n: S.LinearLR(o, end_factor=-1),
    "T_0": lambda S, o, n: S.CosineAnnealingWarmRestarts(o, 0),
    "T_0 float": lambda S, o, n: S.CosineAnnealingWarmRestarts(o, 1.5),
    "T_mult": lambda S, o, n: S.CosineAnnealingWarmRestarts(o, 2, 0),
    "eta_min": lambda S, o, n: S.CosineAnnealingWarmRestarts(o, 2, eta_min="a"),
    "plateau factor": lambda S, o, n: S.ReduceLROnPlateau(o, factor=1.0),
    "plateau min_lr": lambda S, o, n: S.ReduceLROnPlateau(o, min_lr=[1]),
    "plateau mode": lambda S, o, n: S.ReduceLROnPlateau(o, mode="x"),
    "plateau threshold_mode": lambda S, o, n: S.ReduceLROnPlateau(o, threshold_mode="x"),
    "cyclic mode": lambda S, o, n: S.CyclicLR(o, 0.1, 1, mode="x"),
    "cyclic momentum": lambda S, o, n: S.CyclicLR(o, 0.1, 1),
    "cyclic length": lambda S, o, n: S.CyclicLR(o, [0.1], 1),
    "one cycle": lambda S, o, n: S.OneCycleLR(o, 1),
    "one cycle 0": lambda S, o, n: S.OneCycleLR(o, 1, 0),
    "one cycle float": lambda S, o, n: S.OneCycleLR(o, 1, 10.5),
    "one cycle epochs": lambda S, o, n: S.OneCycleLR(o, 1, epochs=3),
    "one cycle epochs 0": lambda S, o, n: S.OneCycleLR(o, 1, epochs=0, steps_per_epoch=3),
    "one cycle steps": lambda S, o, n: S.OneCycleLR(o, 1, epochs=3, steps_per_epoch=-1),
    "one cycle pct": lambda S, o, n: S.OneCycleLR(o, 1, 10, pct_start=2),
    "one cycle anneal": lambda S, o, n: S.OneCycleLR(o, 1, 10, anneal_strategy="x"),
    "one cycle momentum": lambda S, o, n: S.OneCycleLR(o, 1, 10),
    "one cycle length": lambda S, o, n: S.OneCycleLR(n, [1, 2, 3], 10),
    "sequence short": lambda S, o, n: S.SequentialLR(o, [S.ConstantLR(o)], [1]),
    "sequence empty": lambda S, o, n: S.SequentialLR(o, [], []),
    "sequence other": lambda S, o, n: S.SequentialLR(o, [S.ConstantLR(o), S.ConstantLR(n)], [1]),
    "sequence number": lambda S, o, n: S.SequentialLR(o, [3, 4], [1]),
    "sequence plateau": lambda S, o, n: S.SequentialLR(o, [S.ReduceLROnPlateau(o), S.ConstantLR(o)], [1]),
    "sequence epoch": lambda S, o, n: S.SequentialLR(o, [S.ConstantLR(o)], []).step(3),
    "chain empty": lambda S, o, n: S.ChainedScheduler([]),
    "chain other": lambda S, o, n: S.ChainedScheduler([S.ConstantLR(o), S.ConstantLR(n)]),
    "chain plateau": lambda S, o, n: S.ChainedScheduler([S.ReduceLROnPlateau(o), S.ConstantLR(o)]),
    "chain number": lambda S, o, n: S.ChainedScheduler([3]),
    "verbose": lambda S, o, n: S.StepLR(o, 1, verbose=True),
}


@pytest.mark.parametrize("name", BAD)
def test_errors(name):
    agree(lambda T: BAD[name](schedulers(T), make(T), make(T, momentum=0.9)))


def test_errors_in_own_words():
    agree(lambda T: schedulers(T).LRScheduler(make(T)), message=False)
    agree(lambda T: schedulers(T).StepLR(make(T), 2, last_epoch=3), message=False)
    with pytest.raises(KeyError, match=r"param 'initial_lr' is not specified in param_groups\[0\]"):
        torchlike.optim.lr_scheduler.StepLR(make(torchlike), 2, last_epoch=3)


def test_order_of_steps():
    def early(T):
        optimizer = make(T)
        s, other = schedulers(T).StepLR(optimizer, 2), schedulers(T).StepLR(optimizer, 2)
        return s.step(), s.step(), other.step()

    def overridden(T):
        optimizer = make(T)
        s = schedulers(T).StepLR(optimizer, 2)
        optimizer.step = lambda: None
        s.step()

    def right(T):
        optimizer = make(T)
        s = schedulers(T).StepLR(optimizer, 2)
        optimizer.step()
        s.step()
        schedulers(T).StepLR(optimizer, 2).step()

    agree(early)
    agree(overridden)
    agree(right)
    with pytest.warns(UserWarning, match="#how-to-adjust-learning-rate"):
        early(torchlike)
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        early(torchlike)
    with pytest.warns(UserWarning, match="has been overridden"):
        overridden(torchlike)


@story
def test_steps_that_are_overridden(t):
    """Before the scheduler was made or after it, and called before the schedule or not."""

    def run(before, called):
        optimizer = make(t)
        plain = optimizer.step
        own = types.MethodType(lambda self: plain(), optimizer)
        if before:
            optimizer.step = own
        schedule = schedulers(t).StepLR(optimizer, 2)
        if not before:
            optimizer.step = own
        if called:
            optimizer.step()
        return warned(schedule.step, "Seems like|Detected call")

    return [run(*flags) for flags in itertools.product((True, False), repeat=2)]


def test_get_lr_outside_step_warns():
    for name in BUILD:
        agree(lambda T, name=name: BUILD[name](schedulers(T), make(T, momentum=0.9), {}).get_lr())
    with pytest.warns(UserWarning, match=r"please use `get_last_lr\(\)`"):
        torchlike.optim.lr_scheduler.StepLR(make(torchlike), 1).get_lr()
    optimizer = make(torchlike)
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        torchlike.optim.lr_scheduler.StepLR(optimizer, 1).step(4)


# -- state and tensors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", BUILD)
def test_state_dict(name):
    def code(T):
        optimizer, S = make(T, momentum=0.9), schedulers(T)
        s = BUILD[name](S, optimizer, {})
        for _ in range(2):
            optimizer.step()
            s.step()
        fresh = BUILD[name](S, make(T, momentum=0.9), {})
        fresh.load_state_dict(s.state_dict())
        return s.state_dict(), fresh.state_dict(), fresh.get_last_lr(), s.optimizer is optimizer

    agree(code)


def test_state_of_callables():
    def code(T):
        S = schedulers(T)
        s = S.LambdaLR(make(T), [Power(0.5), lambda e: 1.0])
        loaded = S.LambdaLR(make(T), [Power(0.9), lambda e: 1.0])
        loaded.load_state_dict(s.state_dict())
        cyclic = S.CyclicLR(make(T, momentum=0.9), 0.1, 1.0, scale_fn=Power(0.25))
        other = S.CyclicLR(make(T, momentum=0.9), 0.1, 1.0, scale_fn=Power(0.75))
        other.load_state_dict(cyclic.state_dict())
        return loaded.lr_lambdas[0].base, other.scale_fn(2), s.state_dict()["lr_lambdas"]

    agree(code)


def test_tensor_rates():
    def code(T):
        optimizer = plain(T)([T.nn.Parameter(T.zeros(1))], lr=T.tensor(0.5))
        s = schedulers(T).StepLR(optimizer, 1, gamma=0.5)
        lr = optimizer.param_groups[0]["lr"]
        first = s.get_last_lr()
        optimizer.step()
        s.step()
        kept = lr is optimizer.param_groups[0]["lr"]
        return first, s.get_last_lr(), kept, lr, s.base_lrs, optimizer.param_groups[0]["initial_lr"]

    agree(code)


def test_copies():
    s = torchlike.optim.lr_scheduler.CyclicLR(make(torchlike, momentum=0.9), 0.1, 1.0, 2)
    for again in (copy.deepcopy(s), copy.copy(s)):
        assert again.get_last_lr() == s.get_last_lr()


def test_names():
    for name in torch.optim.lr_scheduler.__all__:
        assert hasattr(torchlike.optim.lr_scheduler, name), name
    assert issubclass(torchlike.optim.lr_scheduler._LRScheduler, torchlike.optim.lr_scheduler.LRScheduler)
