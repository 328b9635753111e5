"""Optimizers that skip steps themselves, and the operators behind ``GradScaler``, as in PyTorch."""

import pytest
import torch
from both import agree, plain
from scaler_kit import INF, NAN, parameter, scaler_of, whole, with_gradients
from story_kit import said, story, warned

import torchlike

# -- optimizers that look for themselves -------------------------------------------------------------------------------


def looking(t, supports=True):
    class Looking(t.optim.Optimizer):
        _step_supports_amp_scaling = supports

        def __init__(self, params):
            super().__init__(params, {})
            self.seen = []

        def step(self, *args, **kwargs):
            names = "grad_scale", "found_inf"
            grads = [p.grad.clone() if p.grad is not None else None for g in self.param_groups for p in g["params"]]
            self.seen.append([args, kwargs, [getattr(self, n, "absent") for n in names], grads])
            return "result"

    return Looking


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("number", [8.0, INF])
@pytest.mark.parametrize("supports", [True, False])
def test_an_optimizer_of_ones_own(supports, number, first):
    def run(t):
        scaler, optimizer, (p,) = with_gradients(t, [number, 4.0], make=looking(t, supports))
        if first:
            scaler.unscale_(optimizer)
        result = scaler.step(optimizer, 3, x=4)
        return result, optimizer.seen, p.grad, hasattr(optimizer, "found_inf"), scaler.update(), scaler._scale

    agree(run)


@pytest.mark.parametrize("set_before", [2.0, 3])
@pytest.mark.parametrize("first", [True, False])
def test_what_others_have_scaled_by(first, set_before):
    def run(t):
        scaler, optimizer, _ = with_gradients(t, [8.0], make=looking(t))
        if first:
            scaler.unscale_(optimizer)
        optimizer.grad_scale = set_before
        scaler.step(optimizer)
        return optimizer.seen, hasattr(optimizer, "grad_scale")

    agree(run)


@story
def test_an_optimizer_that_is_no_optimizer_s(t):
    p = parameter(t)

    class Own:
        param_groups = [{"params": [p]}]
        steps = 0

        def step(self):
            self.steps += 1

    scaler, own = scaler_of(t), Own()
    for bad in (1.0, INF):
        p.grad = None
        scaler.scale((p * bad).sum()).backward()
        scaler.step(own)
        scaler.update()
    return own.steps, p.grad, whole(scaler)


@story
def test_an_optimizer_that_takes_the_scaler(t):
    class Taking(looking(t)):
        def step(self, grad_scaler=None):
            self.seen.append(grad_scaler is not None)

    scaler, optimizer, (p,) = with_gradients(t, [8.0], make=Taking)
    told = warned(lambda: scaler.step(optimizer))
    return told, optimizer.seen, p.grad, said(scaler.update, "No inf checks[ \\w]*")


@story
def test_an_optimizer_that_fails(t):
    class Failing(looking(t)):
        def step(self):
            raise KeyError("x")

    scaler, optimizer, (p,) = with_gradients(t, [8.0], make=Failing)
    return said(lambda: scaler.step(optimizer)), said(lambda: scaler.step(optimizer)), p.grad


FUSED = {
    "SGD": lambda t: lambda p: t.optim.SGD(p, lr=0.5, fused=True),
    "Adam": lambda t: lambda p: t.optim.Adam(p, lr=0.5, fused=True),
    "AdamW": lambda t: lambda p: t.optim.AdamW(p, lr=0.5, fused=True),
    "Adagrad": lambda t: lambda p: t.optim.Adagrad(p, lr=0.5, fused=True),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_steps(name):
    def run(t):
        scaler, optimizer, params = with_gradients(t, [8.0, 2.0], [4.0], make=FUSED[name](t))
        trail = []
        for bad in (False, True, False):
            for p in params:
                p.grad = t.full_like(p, 8.0)
            params[0].grad[1] = INF if bad else 2.0
            scaler.step(optimizer)
            trail.append([[p.clone() for p in params], [p.grad.clone() for p in params]])
            trail.append([v.clone() for s in optimizer.state.values() for v in s.values()])
            scaler.update()
        return trail, whole(scaler), optimizer._step_supports_amp_scaling

    agree(run)


@story
def test_scales_that_an_optimizer_does_not_take(t):
    _, optimizer, (p,) = with_gradients(t, [8.0])
    optimizer.grad_scale, optimizer.found_inf = t.tensor(4.0), t.tensor(0.0)
    return said(optimizer.step, "Expected grad_scale and found_inf to be None"), p


def test_momentum_begins_with_the_first_step_that_is_not_skipped():
    def run(t, **options):
        make = lambda p: t.optim.SGD(p, lr=0.5, momentum=0.5, dampening=0.25, **options)  # noqa: E731
        scaler, optimizer, (p,) = with_gradients(t, [8.0, INF], make=make)
        trail = []
        for number in (INF, 2.0, INF, 4.0, 1.0):
            p.grad = t.tensor([8.0, number])
            scaler.step(optimizer)
            scaler.update()
            trail.append(p.tolist())
        return trail, optimizer.state_dict()["state"][0]["momentum_buffer"].tolist()

    assert run(torchlike) == run(torch) == run(torchlike, fused=True)


# -- the operators -----------------------------------------------------------------------------------------------------

CHECKS = {
    "floats": lambda t: ([t.ones(2) * 8, t.tensor([INF])], t.zeros(1), t.tensor(0.25)),
    "dtypes": lambda t: (
        [t.ones(2), t.ones(2, dtype=t.float64), t.ones(2, dtype=t.float16)],
        t.zeros(()),
        t.tensor(0.1),
    ),
    "nothing": lambda t: ([], t.zeros(3), t.zeros(2)),
    "found before": lambda t: ((t.ones(2),), t.ones(()), t.tensor([0.25])),
    "requires grad": lambda t: ([t.ones(2, requires_grad=True)], t.zeros(()), t.tensor(0.25)),
    "found_inf of two": lambda t: ([t.ones(2)], t.zeros(2), t.tensor(0.25)),
    "inv_scale of two": lambda t: ([t.ones(2)], t.zeros(1), t.ones(2)),
    "found_inf in double": lambda t: ([t.ones(2)], t.zeros(1, dtype=t.float64), t.ones(1)),
    "inv_scale in double": lambda t: ([t.ones(2)], t.zeros(1), t.ones(1, dtype=t.float64)),
    "integers": lambda t: ([t.ones(2, dtype=t.int64)], t.zeros(1), t.ones(1)),
    "bools": lambda t: ([t.ones(2, dtype=t.bool)], t.zeros(1), t.ones(1)),
    "a tensor": lambda t: (t.ones(2), t.zeros(1), t.ones(1)),
    "None": lambda t: ([t.ones(2), None], t.zeros(1), t.ones(1)),
    "a number": lambda t: ([t.ones(2)], 0.0, t.ones(1)),
}
TOLD = (
    r"\w+ must be an? [\w-]+ tensor|not implemented for|expected Tensor|"
    r"argument '\w+' \(position \d\) must be [\w ]+, not"
)


@pytest.mark.parametrize("name", CHECKS)
def test_the_check_of_many_tensors(name):
    def run(t):
        given = CHECKS[name](t)
        return said(lambda: t._amp_foreach_non_finite_check_and_unscale_(*given), TOLD), given

    agree(run)


INT = {"dtype": "int32"}
UPDATES = {
    "grows": (4.0, 0, 0.0, 2.0, 0.5, 1),
    "not yet": (4.0, 0, 0.0, 2.0, 0.5, 2),
    "past": (4.0, 5, 0.0, 2.0, 0.5, 2),
    "shrinks": (4.0, 1, 1.0, 2.0, 1 / 3, 2),
    "would be infinite": (3e38, 1, 0.0, 2.0, 0.5, 2),
    "NaN": (4.0, 1, NAN, 2.0, 0.5, 2),
    "a part": (1.0, 1, 0.0, 1 / 3, 0.5, 2),
    "rows": ([4.0], [1], [[0.0]], 2.0, 0.5, 2),
    "two scales": ([4.0, 2.0], 1, 0.0, 2.0, 0.5, 2),
    "two counts": (4.0, [1, 2], 0.0, 2.0, 0.5, 2),
    "two flags": (4.0, 1, [0.0, 1.0], 2.0, 0.5, 2),
    "half an interval": (4.0, 1, 0.0, 2.0, 0.5, 2.5),
}


@pytest.mark.parametrize("name", UPDATES)
def test_the_update_of_a_scale(name):
    def run(t):
        scale, count, flag, *rest = UPDATES[name]
        given = t.tensor(scale), t.tensor(count, dtype=t.int32), t.tensor(flag)
        told = said(lambda: t._amp_update_scale_(*given, *rest) is given[0], TOLD)
        return told, given

    agree(run)


@story
def test_the_update_of_scales_in_other_dtypes(t):
    made = {"scale": t.tensor(4.0), "count": t.tensor(1, dtype=t.int32), "flag": t.tensor(0.0)}
    return [
        said(lambda n=n, d=d: t._amp_update_scale_(*{**made, n: made[n].to(d)}.values(), 2.0, 0.5, 2), TOLD)
        for n, d in (("scale", t.float64), ("count", t.int64), ("flag", t.float64))
    ]


@story
def test_as_aten(t):
    aten = t.ops.aten
    scale, count = t.tensor([4.0]), t.tensor([0], dtype=t.int32)
    grads = [t.ones(2) * 8]
    made = aten._amp_update_scale(scale, count, t.tensor([1.0]), 2.0, 0.5, 1)
    checked = aten._amp_foreach_non_finite_check_and_unscale(grads, t.zeros(()), t.tensor(0.5))
    names = "_amp_update_scale_", "_amp_foreach_non_finite_check_and_unscale_"
    schemas = [str(getattr(aten, n).default._schema) for n in names]
    return made, scale, checked, grads, schemas


@story
def test_dispatch_modes_see_them(t):
    from_here = __import__(f"{t.__name__}.utils._python_dispatch", fromlist=["TorchDispatchMode"])
    seen = []

    class Mode(from_here.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    scaler, optimizer, (p,) = with_gradients(t, [8.0, 2.0])
    with Mode():
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
    return [name for name in seen if "amp" in name or "dense" in name], p, scaler._growth_tracker


def test_all_gradients_are_one_call_and_one_read(monkeypatch):
    calls = []
    from torchlike._executor import fused

    replace, item = fused.replace, torchlike.Tensor.item
    monkeypatch.setattr(fused, "replace", lambda f, *rest: (calls.append(f.__name__), replace(f, *rest))[1])
    monkeypatch.setattr(torchlike.Tensor, "item", lambda t: (calls.append("read"), item(t))[1])
    scaler, optimizer, _ = with_gradients(torchlike, *[[8.0, float(i)] for i in range(20)])
    scaler.step(optimizer)
    assert calls == ["unscaled", "read", "update_all"]
    calls.clear()
    scaler.update()
    assert calls == [] and plain(scaler._growth_tracker)[2] == 1
