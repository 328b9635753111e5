"""Modules whose parameters are swapped where they change: ``torch.__future__.set_swap_module_params_on_conversion``."""

import weakref

import pytest
import torch
from both import agree, agree_error

import torchlike


@pytest.fixture(autouse=True)
def swapping():
    for library in (torch, torchlike):
        library.__future__.set_swap_module_params_on_conversion(True)
    yield
    for library in (torch, torchlike):
        library.__future__.set_swap_module_params_on_conversion(False)


def layer(t, grad=False, **options):
    made = t.nn.Linear(2, 2, **options)
    if grad:
        made(t.ones(1, 2)).sum().backward()
    return made


def kinds(p):
    return str(p.dtype), str(p.device), type(p).__name__, p.requires_grad, p.is_leaf


def converted(t):
    made = layer(t, grad=True)
    weight, grad = made.weight, made.weight.grad
    weight.mark = 1
    made.to(t.float64)
    return made.weight is weight, weight.grad is grad, grad, kinds(weight), hasattr(weight, "mark")


def frozen(t):
    made = layer(t)
    weight = made.weight.requires_grad_(False)
    return made.double().weight is weight, kinds(weight)


def to_meta_and_back(t):
    made = layer(t)
    weight = made.weight
    there = made.to("meta").weight is weight, kinds(weight)
    return there, made.to_empty(device="cpu").weight is weight, kinds(weight)


def buffers(t):
    made = t.nn.BatchNorm1d(2)
    mean = made.running_mean
    return made.double().running_mean is mean, made.running_mean


def shared(t):
    made = t.nn.Sequential(layer(t), layer(t))
    made[1].weight = made[0].weight
    made.double()
    return made[0].weight is made[1].weight, kinds(made[0].weight)


def optimized(t):
    made = layer(t, grad=True)
    optimizer = t.optim.SGD(made.parameters(), lr=0.1)
    return optimizer.param_groups[0]["params"][0] is made.double().weight


def hooked(t):
    made = layer(t)
    made.weight.register_hook(lambda g: g * 2)
    made.double()(t.ones(1, 2).double()).sum().backward()
    return made.weight.grad


def loaded(assign):
    def run(t):
        made, other = layer(t, grad=True), layer(t).double()
        weight, grad, entries = made.weight, made.weight.grad, other.state_dict()
        made.load_state_dict(entries, assign=assign)
        same = t.allclose(made.weight.double(), other.weight)
        return made.weight is weight, weight.grad is grad, kinds(weight), weight is entries["weight"], same

    return run


CASES = [converted, frozen, to_meta_and_back, buffers, shared, optimized, hooked, loaded(False), loaded(True)]


@pytest.mark.parametrize("case", CASES, ids=["converted", "frozen", "meta", "buffers", "shared", "optimized", "hooked",
                                             "loaded", "assigned"])  # fmt: skip
def test_as_pytorch(case):
    def run(t):
        t.manual_seed(0)
        return case(t)

    agree(run)


def held_by_a_graph(t):
    made = layer(t)
    kept = made(t.ones(1, 2, requires_grad=True))
    return made.double(), kept


def held_weakly(t):
    made = layer(t)
    kept = weakref.ref(made.weight)
    return made.double(), kept


@pytest.mark.parametrize("held", [held_by_a_graph, held_weakly])
def test_held(held):
    agree_error(held, r"_apply\(\): Couldn't swap Linear.weight")


def test_a_failed_swap_changes_nothing():
    made = layer(torchlike, grad=True)
    grad, kept = made.weight.grad, weakref.ref(made.weight)
    with pytest.raises(RuntimeError, match="Couldn't swap"):
        made.double()
    assert made.weight.grad is grad and made.weight is kept() and made.weight.dtype == torchlike.float32


def test_a_failed_load_changes_nothing():
    made, weight = layer(torchlike), torchlike.nn.Linear(2, 2).weight
    values = made.weight.clone()
    with pytest.raises(RuntimeError, match="size mismatch for bias"):
        made.load_state_dict({"weight": weight, "bias": torchlike.ones(3)})
    assert torchlike.equal(made.weight, values)
