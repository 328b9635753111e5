"""Modules called with other tensors, by ``functional_call``, that change between the calls of a compiled function."""

import pytest
from guard_kit import x2
from stale_kit import never_stale, of_state

import torchlike as torch
from torchlike import nn
from torchlike.func import functional_call, grad, stack_module_state, vmap


def _net():
    torch.manual_seed(1)
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(2, 1))
    tensors = {**dict(m.named_parameters()), **dict(m.named_buffers())}
    return [m, {name: t.detach().clone() for name, t in tensors.items()}]


def _called(x, s):
    out = functional_call(s[0], s[1], (x + torch.arange(6.0).view(3, 2),))
    return out, s[1]["1.running_mean"].clone(), s[0][1].running_mean.clone()


def _step(x, s):
    def loss(given, rest):
        return functional_call(s[0], (given, rest), (x + torch.arange(6.0).view(3, 2),)).pow(2).sum()

    rest = {name: t for name, t in s[1].items() if "running" in name or "num" in name}
    given = {name: t for name, t in s[1].items() if name not in rest}
    found = grad(loss)(given, rest)
    return {name: t - 0.1 * found[name] for name, t in given.items()}


def _without_bias(s):
    s[0][3].bias = None
    del s[1]["3.bias"]


def _replaced(s):
    s[0][2] = nn.Tanh()


CHANGES = [
    lambda s: s[0].eval(),
    lambda s: s[1]["3.weight"].mul_(2),
    lambda s: s[1].update({"0.bias": torch.ones(2)}),
    _replaced,
    _without_bias,
]


@pytest.mark.parametrize("f", [_called, _step])
def test_the_module_is_as_it_is_now(f):
    never_stale(of_state(_net, f, CHANGES))


def test_a_member_that_is_not_given():
    changes = [lambda m: m.bias.data.fill_(1.0), lambda m: setattr(m, "bias", None)]
    weight = torch.ones(2, 2)
    never_stale(of_state(lambda: nn.Linear(2, 2), lambda x, m: functional_call(m, {"weight": weight}, (x,)), changes))


def test_names_that_are_no_longer_tied():
    def tied():
        first, second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        second.weight = first.weight
        return nn.Sequential(first, second)

    def untie(s):
        s[1].weight = nn.Parameter(torch.ones(2, 2))

    given = {"0.weight": torch.eye(2) * 2}
    never_stale(of_state(tied, lambda x, s: functional_call(s, given, (x,)), [untie]))


def test_an_ensemble():
    def make():
        torch.manual_seed(1)
        models = [nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0)) for _ in range(3)]
        return [models[0], *stack_module_state(models)]

    def f(x, s):
        return vmap(lambda p, b: functional_call(s[0], (p, b), (x,)))(s[1], s[2])

    never_stale(of_state(make, f, [lambda s: s[0].eval(), lambda s: s[0].train()]))


@pytest.mark.parametrize("kind", [nn.ReLU, nn.Tanh])
def test_steps_with_functional_calls_are_one_program(kind):
    m = nn.Sequential(nn.Linear(2, 2), kind(), nn.Linear(2, 1))
    given = {name: t.detach().clone() for name, t in m.named_parameters()}

    @torch.compile(fullgraph=True)
    def step(given, x):
        found = grad(lambda given: functional_call(m, given, (x,)).pow(2).sum())(given)
        return {name: t - 0.1 * found[name] for name, t in given.items()}

    for _ in range(4):
        given = step(given, x2())
    assert step.count == 1 and step.eager is None
    assert dict(m.named_parameters())["0.weight"] is m[0].weight
