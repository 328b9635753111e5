"""``GradScaler``: what it scales, divides, skips, refuses and keeps, as in PyTorch."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import torch
from both import agree
from scaler_kit import INF, NAN, parameter, scaler_of, whole, with_gradients
from story_kit import said, story, warned

import torchlike

# -- what is scaled ----------------------------------------------------------------------------------------------------

OUTPUTS = {
    "tensor": lambda t: t.ones(2),
    "half": lambda t: t.ones(2, dtype=t.float16),
    "half number": lambda t: t.tensor(1.0, dtype=t.bfloat16),
    "double": lambda t: t.ones(2, dtype=t.float64),
    "integer": lambda t: t.tensor([3]),
    "complex": lambda t: t.tensor([1 + 2j]),
    "list": lambda t: [t.ones(1), (t.ones(2), [t.ones(1)])],
    "empty": lambda t: [],
    "nothing": lambda t: None,
    "number": lambda t: 3.0,
    "list with a number": lambda t: [t.ones(1), 2],
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs(name):
    agree(lambda t: said(lambda: scaler_of(t).scale(OUTPUTS[name](t)), "outputs must be a Tensor or an iterable"))


@story
def test_generators_are_scaled_as_they_are_taken(t):
    scaler = scaler_of(t)
    made = scaler.scale(x for x in [t.ones(1), t.ones(2) * 3])
    begun = scaler._scale is not None
    return begun, type(made).__name__, list(made), scaler._scale, list(scaler.scale({"a": t.ones(1)}.values()))


@story
def test_gradients_flow_through_it(t):
    x = t.tensor(3.0, requires_grad=True)
    y = scaler_of(t).scale(x * x)
    (grad,) = t.autograd.grad(y, x, create_graph=True)
    return y, y.grad_fn, grad, t.autograd.grad(grad, x)


# -- what is divided, and skipped --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "float16", "complex64"])
def test_gradients_of_each_dtype(dtype):
    def run(t):
        scaler, optimizer, (p,) = with_gradients(t, [8.0, 1 / 3], dtype=dtype)
        return said(lambda: scaler.unscale_(optimizer), "unscale FP16 gradients|not implemented for"), p.grad

    agree(run)


@pytest.mark.parametrize("bad", [INF, -INF, NAN, 3e38])
def test_a_step_with_numbers_that_are_not_finite(bad):
    def run(t):
        scaler, optimizer, params = with_gradients(t, [8.0, bad], [4.0])
        scaler.step(optimizer)
        left = [*params, *[p.grad for p in params], *scaler._found_inf_per_device(optimizer).values()]
        scaler.update()
        return left, scaler._scale, scaler._growth_tracker

    agree(run)


@story
def test_each_optimizer_decides_for_itself(t):
    scaler = scaler_of(t)
    params = parameter(t), parameter(t)
    optimizers = [t.optim.SGD([p], lr=0.5, momentum=0.5) for p in params]
    scaler.scale((params[0] * INF + params[1]).sum()).backward()
    for o in optimizers:
        scaler.step(o)
    scaler.update()
    return params, whole(scaler, *optimizers)


@story
def test_parameters_without_gradients_and_of_several_dtypes(t):
    scaler = scaler_of(t)
    params = parameter(t), parameter(t, dtype="bfloat16"), parameter(t), parameter(t, dtype="float64")
    optimizer = t.optim.SGD([{"params": params[:2]}, {"params": params[2:], "lr": 0.25}], lr=0.5)
    scaler.scale(params[0].sum() + params[1].sum() + params[3].sum()).backward()
    scaler.step(optimizer)
    return params, [p.grad for p in params]


@story
def test_gradients_that_share_memory(t):
    scaler, optimizer, (p, q, r, s) = with_gradients(t, [8.0, 4.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0])
    q.grad = p.grad
    rows = t.arange(4.0)
    r.grad, s.grad = rows[:2], rows[2:]
    scaler.unscale_(optimizer)
    return p.grad, q.grad, r.grad, s.grad, rows


@story
def test_gradients_in_other_memory_orders(t):
    scaler, optimizer, (p,) = with_gradients(t, [0.0] * 4)
    p = t.nn.Parameter(t.ones(2, 2))
    optimizer.param_groups[0]["params"] = [p]
    p.grad = t.arange(4.0).reshape(2, 2).t()
    scaler.unscale_(optimizer)
    seen = p.grad, p.grad.stride()
    p.grad = t.ones(1, 1).expand(2, 2)
    scaler.update()
    return seen, said(lambda: scaler.unscale_(optimizer), "unsupported operation.*single memory")


@story
def test_gradients_with_a_history(t):
    scaler = scaler_of(t)
    p = parameter(t)
    scaler.scale(p.pow(3).sum()).backward(create_graph=True)
    optimizer = t.optim.SGD([p], lr=0.5)
    scaler.unscale_(optimizer)
    return p.grad, t.autograd.grad(p.grad.sum(), p)


@story
def test_hooks_see_the_gradients_that_are_divided(t):
    scaler, optimizer, (p,) = with_gradients(t, [8.0, 4.0])
    seen = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(p.grad.clone()))
    scaler.step(optimizer)
    scaler.update()
    p.grad = t.tensor([INF, 1.0])
    scaler.step(optimizer)
    return seen


# -- the scale ---------------------------------------------------------------------------------------------------------


def test_a_thousand_steps_with_injected_infinities():
    rng = np.random.default_rng(0)
    bad = rng.random(1000) < 0.15
    numbers = rng.integers(-8, 8, (1000, 3)) / 8

    def run(t):
        scaler = scaler_of(t, 256.0, growth_factor=1.5, backoff_factor=1 / 3, growth_interval=4)
        p = parameter(t, 0.0, 1.0, 2.0)
        optimizer = t.optim.SGD([p], lr=0.125)
        scaler.scale(t.ones(()))
        trail = []
        for row, infinite in zip(numbers, bad, strict=True):
            scale = scaler.get_scale()
            p.grad = t.tensor(row, dtype=t.float32) * scale
            if infinite:
                p.grad[1] = INF
            scaler.step(optimizer)
            scaler.update()
            trail.append((scale, scaler._get_growth_tracker()))
        return trail, [round(x, 3) for x in p.tolist()]

    assert run(torchlike) == run(torch)


@pytest.mark.parametrize("value", [3.0, -1.0, 5, True, "a", None, 2j])
def test_a_new_scale(value):
    def run(t):
        scaler = scaler_of(t)
        scaler.scale(t.ones(1))
        return said(lambda: scaler.update(value), "^(No inf checks)?"), scaler._scale, scaler._growth_tracker

    agree(run)


TENSORS = {
    "float32": lambda t: t.tensor(7.0),
    "float64": lambda t: t.tensor(7.0, dtype=t.float64),
    "integer": lambda t: t.tensor(7),
    "two": lambda t: t.tensor([8.0, 9.0]),
    "one row": lambda t: t.tensor([8.0]),
    "requires grad": lambda t: t.tensor(7.0, requires_grad=True),
    "meta": lambda t: t.tensor(7.0, device="meta"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_new_scale_as_a_tensor(name):
    def run(t):
        scaler = scaler_of(t)
        scaler.scale(t.ones(1))
        kept, given = scaler._scale, TENSORS[name](t)
        told = said(lambda: scaler.update(given), "new_scale should be a float or a 1-element|output with shape")
        return told, kept, kept is scaler._scale, kept is given

    agree(run)


@story
def test_a_new_scale_begins_the_iteration_anew(t):
    scaler, optimizer, _ = with_gradients(t, [8.0])
    scaler.unscale_(optimizer)
    scaler.update(2.0)
    scaler.unscale_(optimizer)
    return whole(scaler, optimizer), len(scaler._per_optimizer_states)


# -- wrong calls -------------------------------------------------------------------------------------------------------

EARLY = {
    "unscale_": lambda scaler, optimizer: scaler.unscale_(optimizer),
    "step": lambda scaler, optimizer: scaler.step(optimizer),
    "update": lambda scaler, optimizer: scaler.update(),
    "update to": lambda scaler, optimizer: scaler.update(2.0),
    "closure": lambda scaler, optimizer: scaler.step(optimizer, closure=lambda: 1),
}


@pytest.mark.parametrize("name", EARLY)
def test_before_anything_was_scaled(name):
    def run(t):
        p = parameter(t)
        scaler, optimizer = scaler_of(t), t.optim.SGD([p], lr=0.5)
        return said(
            lambda: EARLY[name](scaler, optimizer), r"Attempted \w+ but _scale is None.*iteration\.|Closure use"
        ), p

    agree(run)


@pytest.mark.parametrize("calls", ["unscale_ unscale_", "unscale_ step unscale_", "step step", "step unscale_",
                                   "update", "unscale_ step update step", "unscale_ update step update"])  # fmt: skip
def test_calls_in_this_order(calls):
    def run(t):
        scaler, optimizer, params = with_gradients(t, [8.0, 4.0])

        def call(name):
            told = r"unscale_\(\) \w+ \w+ \w+ .*|step\(\) has .*|No inf checks were recorded[ \w]*"
            return said(lambda: getattr(scaler, name)(*[optimizer] * (name != "update")), told)

        return [call(name) for name in calls.split()], params, params[0].grad, whole(scaler)

    agree(run)


@story
def test_no_gradients(t):
    scaler, (p,) = scaler_of(t), [parameter(t)]
    scaler.scale(t.ones(1))
    optimizer = t.optim.SGD([p], lr=0.5)
    told = "No inf checks were recorded[ \\w]*"
    return said(lambda: scaler.step(optimizer), told), said(lambda: scaler.update(), told)


@story
def test_a_closure(t):
    scaler, optimizer, params = with_gradients(t, [8.0])
    keyword = said(lambda: scaler.step(optimizer, closure=lambda: 1), "Closure use is not currently supported")
    return keyword, scaler.step(optimizer, lambda: 7), params


@story
def test_objects_that_are_no_optimizer(t):
    scaler = scaler_of(t)
    scaler.scale(t.ones(1))
    return [said(lambda f=f: f("x"), "param_groups") for f in (scaler.step, scaler.unscale_)]


@pytest.mark.parametrize("options", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}, {"growth_factor": 0.5},
                                     {"growth_factor": 0.5, "enabled": False}, {"growth_interval": 0}])  # fmt: skip
def test_factors(options):
    told = r"The \w+ factor must be . 1\.0\."
    agree(lambda t: said(lambda: scaler_of(t, **options).state_dict(), told))


@pytest.mark.parametrize("values", [[8.0, 2.0], [60000.0, 60000.0], [8.0, INF]])
@pytest.mark.parametrize("indices", [[0, 2], [0, 0]])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_sparse_gradients(dtype, indices, values):
    """In float16 what stands for one element is summed first, which may overflow."""

    def run(t):
        scaler, p = scaler_of(t), t.nn.Parameter(t.ones(3, dtype=getattr(t, dtype)))
        p.grad = t.sparse_coo_tensor([indices], t.tensor(values, dtype=getattr(t, dtype)), (3,))
        optimizer = t.optim.SGD([p], lr=0.5)
        scaler.scale(t.ones(1))
        refused = said(lambda: scaler.unscale_(optimizer), "Attempting to unscale FP16 gradients")
        if dtype == "float16":
            found = scaler._unscale_grads_(optimizer, t.tensor(0.25), t.tensor(0.0), True)
            return refused, [*found.values()], p.grad.to_dense(), p.grad.is_coalesced()
        grad = p.grad.to_dense()
        scaler.step(optimizer)
        scaler.update()
        return refused, grad, p, scaler.get_scale()

    agree(run)


def test_none_for_a_state():
    agree(lambda t: said(lambda: scaler_of(t).load_state_dict(None), "TypeError|NoneType"))


# -- disabled, absent, deprecated --------------------------------------------------------------------------------------


@story
def test_disabled(t):
    scaler, p = scaler_of(t, enabled=False), parameter(t)
    optimizer = t.optim.SGD([p], lr=0.5)
    scaled = scaler.scale((p * INF).sum())
    scaled.backward()
    scaler.unscale_(optimizer)
    left = (
        scaler.step(optimizer),
        scaler.step(optimizer, closure=lambda: 7),
        scaler.update(),
        scaler.load_state_dict({}),
    )
    return scaled, p, left, scaler.state_dict(), scaler.get_scale(), scaler._get_growth_tracker(), scaler.is_enabled()


@story
def test_a_disabled_scaler_has_no_factors(t):
    scaler = scaler_of(t, enabled=False)
    return [said(getattr(scaler, f"get_{name}"), "") for name in ("growth_factor", "backoff_factor", "growth_interval")]


@pytest.mark.skipif(torchlike.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("make", [lambda t: t.amp.GradScaler(), lambda t: t.amp.GradScaler("cuda", enabled=False),
                                  lambda t: t.cuda.amp.GradScaler(), lambda t: t.cpu.amp.GradScaler(8.0),
                                  lambda t: t.amp.GradScaler("xla")])  # fmt: skip
def test_what_a_new_one_warns_of(make):
    def run(t):
        told = warned(lambda: make(t))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler = make(t)
        return told, scaler.is_enabled(), scaler.state_dict(), isinstance(scaler, t.amp.GradScaler)

    agree(run)


@story
def test_where_it_is_found(t):
    from_module = t.amp.grad_scaler.GradScaler is t.amp.GradScaler
    return from_module, [(s.name, s.value) for s in t.amp.grad_scaler.OptState], "GradScaler" in t.amp.__all__


# -- kept and loaded ---------------------------------------------------------------------------------------------------


@story
def test_getters_and_setters(t):
    scaler = scaler_of(t)
    scaler.set_growth_factor(1.5)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(1)
    scaler.scale(t.ones(1))
    p = parameter(t)
    optimizer = t.optim.SGD([p], lr=0.5)
    found = []
    for bad in (False, True):
        p.grad = t.tensor([INF if bad else 1.0, 1.0])
        scaler.step(optimizer)
        scaler.update()
        found.append((scaler.get_scale(), scaler._get_growth_tracker()))
    return found, scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()


@story
def test_state_dict_and_back(t):
    scaler, optimizer, _ = with_gradients(t, [8.0], growth_interval=7)
    scaler.step(optimizer)
    scaler.update()
    kept = scaler.state_dict()
    fresh, used = scaler_of(t, 2.0), scaler_of(t, 2.0)
    used.scale(t.ones(1))
    scale = used._scale
    for other in (fresh, used):
        other.load_state_dict(kept)
    refused = said(lambda: fresh.load_state_dict({}), "The source state dict is empty")
    return (
        kept,
        fresh.state_dict(),
        fresh._scale,
        fresh.scale(t.ones(1)),
        used.state_dict(),
        used._scale is scale,
        refused,
    )


@story
def test_copies(t):
    scaler, optimizer, _ = with_gradients(t, [8.0])
    scaler.unscale_(optimizer)
    told = [
        said(lambda f=f: f(scaler), "A GradScaler instance may only be pickled") for f in (pickle.dumps, copy.deepcopy)
    ]
    scaler.step(optimizer)
    scaler.update()
    made = [
        pickle.loads(pickle.dumps(scaler)),
        copy.deepcopy(scaler),
        pickle.loads(pickle.dumps(scaler_of(t, enabled=False))),
    ]
    return (
        told,
        [m.state_dict() for m in made],
        [m.is_enabled() for m in made],
        made[0].scale(t.ones(1)),
        made[0]._growth_tracker,
    )
