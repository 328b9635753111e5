"""Every learning rate scheduler, step by step, and the Optimizer base class: with torch and with torchlike."""

import copy
import pickle
import sys
import warnings
from functools import cache

import pytest
import torch
from agreement import agree

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
    with pytest.warns(UserWarning, match=r"`lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        early(torchlike)
    with pytest.warns(UserWarning, match="has been overridden"):
        overridden(torchlike)


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


# -- Optimizer -------------------------------------------------------------------------------------------------
@cache
def counting(T):
    """An optimizer with state and a step that moves."""

    class Counting(T.optim.Optimizer):
        def __init__(self, params, lr=0.5, mom=0.0):
            super().__init__(params, {"lr": lr, "mom": mom})

        def step(self, closure=None):
            loss = None if closure is None else closure()
            with T.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            state = self.state[p]
                            state["step"] = state.get("step", 0) + 1
                            state["mean"] = p.grad * 2
                            p.add_(p.grad, alpha=-group["lr"])
            return loss

    return Counting


def param(T, n=2):
    return T.nn.Parameter(T.zeros(n))


def groups(optimizer):
    return [{k: len(v) if k == "params" else v for k, v in g.items()} for g in optimizer.param_groups]


PARAMS = {
    "empty": lambda T: [],
    "tensor": lambda T: param(T),
    "number": lambda T: 3,
    "string": lambda T: "ab",
    "ints": lambda T: [1],
    "None": lambda T: [None],
    "generator": lambda T: (p for p in [param(T), param(T)]),
    "set": lambda T: {param(T)},
    "groups": lambda T: [{"params": param(T), "lr": 3}, {"params": [param(T), param(T)]}],
    "group extra": lambda T: [{"params": [param(T)], "foo": 1}],
    "group generator": lambda T: [{"params": (p for p in [param(T)])}],
    "group set": lambda T: [{"params": {param(T)}}],
    "group without params": lambda T: [{"lr": 1}],
    "one dict": lambda T: {"params": param(T)},
    "computed": lambda T: [param(T) * 2],
    "twice": lambda T: [param(T)] * 2,
    "twice across": lambda T: [{"params": p} for p in [param(T)] * 2],
    "no grad": lambda T: [T.zeros(1)],
    "named": lambda T: [("a", param(T)), ("b", param(T))],
    "named group": lambda T: [{"params": [("a", param(T))]}],
    "named parameters": lambda T: T.nn.ParameterDict({"w": param(T)}).named_parameters(),
    "half named": lambda T: [("a", param(T)), param(T)],
    "half named last": lambda T: [param(T), ("a", param(T))],
    "named then not": lambda T: [{"params": [("a", param(T))]}, {"params": [param(T)]}],
    "not named then": lambda T: [{"params": [param(T)]}, {"params": [("a", param(T))]}],
}


@pytest.mark.parametrize("name", PARAMS)
def test_optimizer_params(name):
    agree(lambda T: (lambda o: (groups(o), repr(o), o.defaults))(counting(T)(PARAMS[name](T))))


def test_required_options():
    def code(T, group):
        required = sys.modules[f"{T.__name__}.optim.optimizer"].required
        return repr(required), groups(T.optim.Optimizer([{"params": param(T), **group}], {"lr": required}))

    agree(lambda T: code(T, {}))
    agree(lambda T: code(T, {"lr": 3}))


def test_add_param_group():
    def added(T, make_group):
        o = counting(T)([param(T)])
        try:
            o.add_param_group(make_group(T, o))
        finally:
            seen.append(groups(o))
        return seen.pop(), repr(o)

    seen = []
    agree(lambda T: added(T, lambda T, o: {"params": param(T), "lr": 5}))
    agree(lambda T: added(T, lambda T, o: {"params": [param(T)]}))
    agree(lambda T: added(T, lambda T, o: 3))
    agree(lambda T: added(T, lambda T, o: [param(T)]))
    agree(lambda T: added(T, lambda T, o: {"params": o.param_groups[0]["params"]}))
    agree(lambda T: added(T, lambda T, o: {"params": [("a", param(T))]}))
    agree(lambda T: added(T, lambda T, o: {"params": [param(T), 3]}))


def test_a_failed_group_is_left_alone():
    o, p = counting(torchlike)([param(torchlike)]), param(torchlike)
    group = {"params": (p, 3)}
    with pytest.raises(TypeError, match="optimizer can only optimize Tensors, but one of the params is int"):
        o.add_param_group(group)
    assert group == {"params": (p, 3)} and len(o.param_groups) == 1


def stepped(T, **options):
    p, q = param(T), param(T, 3)
    o = counting(T)([p, q], **options)
    p.grad = T.ones(2)
    o.step()
    return o


def test_optimizer_state():
    def code(T):
        o = stepped(T)
        fresh = counting(T)([param(T), param(T, 3)], lr=9)
        result = fresh.load_state_dict(o.state_dict())
        return type(o.state), o.state_dict(), result, fresh.state_dict(), o.step(lambda: 5), o.param_groups[0]["params"]

    agree(code)


def loaded(T, change, **options):
    state = stepped(T).state_dict()
    o = counting(T)([param(T), param(T, 3)], **options)
    return o.load_state_dict(change(T, state)), o.state_dict(), groups(o)


CHANGES = {
    "same": lambda T, s: s,
    "empty": lambda T, s: {},
    "no state": lambda T, s: {"param_groups": s["param_groups"]},
    "number": lambda T, s: 3,
    "groups": lambda T, s: {**s, "param_groups": s["param_groups"] * 2},
    "size": lambda T, s: {**s, "param_groups": [{"params": [0]}]},
    "unknown keys": lambda T, s: {**s, "state": {**s["state"], 7: {"x": 1}, "k": 4}},
    "more options": lambda T, s: {**s, "param_groups": [{**s["param_groups"][0], "new": 1}]},
    "containers": lambda T, s: {
        **s,
        "state": {0: {"a": [T.ones(2).double()], "b": {"c": T.ones(2).half()}, "t": (1, T.ones(1))}},
    },
    "steps": lambda T, s: {**s, "state": {0: {"step": T.tensor(3.0).double(), "n": T.tensor(3), "z": None}}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_load_optimizer(name):
    agree(lambda T: loaded(T, CHANGES[name]))


def test_load_casts_to_the_parameter():
    def code(T):
        state = stepped(T).state_dict()
        state["state"][0].update(step=T.tensor(3.0).double(), count=T.tensor(3))
        o = counting(T)([param(T).data.half().requires_grad_(), param(T, 3)])
        o.load_state_dict(state)
        return o.state_dict()

    agree(code)


def test_load_with_names():
    def code(T, old, new):
        def named(names):
            return counting(T)([(n, param(T)) for n in names] if names else [param(T), param(T)])

        o = named(new)
        o.load_state_dict(named(old).state_dict())
        return groups(o), o.state_dict(), repr(o)

    for old in ("ab", ""):
        for new in ("xy", ""):
            agree(lambda T, old=old, new=new: code(T, old, new))


def hook_log(T):
    seen, module = [], sys.modules[f"{T.__name__}.optim.optimizer"]

    def log(name):
        return lambda *args: seen.append((name, len(args), [len(a) for a in args if isinstance(a, (tuple, dict))]))

    o = stepped(T)
    for when in (
        "step_pre",
        "step_post",
        "state_dict_pre",
        "state_dict_post",
        "load_state_dict_pre",
        "load_state_dict_post",
    ):
        getattr(o, f"register_{when}_hook")(log(when))
    o.register_state_dict_pre_hook(log("first"), prepend=True)
    with module.register_optimizer_step_pre_hook(log("global pre")):
        with module.register_optimizer_step_post_hook(log("global post")):
            result = o.step(lambda: 1), o.step(closure=lambda: 2)
    o.step()
    o.load_state_dict(o.state_dict())
    return seen, result


def with_hook(T, register, hook, act):
    o = stepped(T)
    with getattr(o, register)(hook):
        return act(o)


def test_optimizer_hooks():
    agree(hook_log)
    agree(
        lambda T: with_hook(
            T, "register_step_pre_hook", lambda o, a, k: ((o, lambda: 77), {}), lambda o: o.step(lambda: 1)
        )
    )
    agree(lambda T: with_hook(T, "register_step_post_hook", lambda o, a, k: 3, lambda o: o.step(lambda: 1)))
    agree(lambda T: with_hook(T, "register_state_dict_post_hook", lambda o, s: {"q": 1}, lambda o: o.state_dict()))
    agree(
        lambda T: with_hook(
            T, "register_load_state_dict_pre_hook", lambda o, s: o.state_dict(), lambda o: o.load_state_dict({})
        )
    )
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3"):
        with_hook(torchlike, "register_step_pre_hook", lambda o, a, k: 3, lambda o: o.step())


def test_hooks_run_once_where_a_step_calls_the_one_it_overrides():
    class Inner(counting(torchlike)):
        def step(self, closure=None):
            return super().step(closure)

    calls = []
    stepped(torchlike)
    o = Inner([param(torchlike)])
    o.register_step_pre_hook(lambda *a: calls.append(1))
    assert o.step(lambda: 4) == 4 and len(calls) == 1


@pytest.mark.parametrize("set_to_none", [True, False])
def test_optimizer_zero_grad(set_to_none):
    def code(T):
        o = stepped(T)
        p = o.param_groups[0]["params"][0]
        grad = p.grad
        o.zero_grad(set_to_none)
        return p.grad, p.grad is grad

    agree(code)


def test_optimizer_copies():
    def code(T):
        o = stepped(T)
        again = copy.deepcopy(o)
        again.step()
        return groups(again), list(o.__getstate__()), again.state_dict(), o.state_dict()

    agree(code)
    agree(lambda T: T.optim.Optimizer([param(T)], {}).step(), message=False)
    agree(lambda T: T.optim.Optimizer([param(T)]))


def test_pickled_optimizer():
    o = Pickled([param(torchlike)], {"lr": 1.0})
    o.param_groups[0]["params"][0].grad = torchlike.ones(2)
    again = pickle.loads(pickle.dumps(o))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again.step() == "stepped" and repr(again) == repr(o)


class Pickled(torchlike.optim.Optimizer):
    def step(self, closure=None):
        return "stepped"
