"""Small normal draws, whose samples are made ahead: PyTorch's numbers and state, whatever else is drawn in between."""

import random

import numpy as np
import pytest
import torch

import torchlike

SIZES = (3, 16, 17, 32, 37, 100, 300, 1152, 2047, 2048, 2064, 5000)
DRAWS = {
    "randn": lambda t, n: t.randn(n),
    "again": lambda t, n: t.stack([t.randn(n) for _ in range(4)]),
    "half": lambda t, n: t.randn(n, dtype=t.bfloat16).float(),
    "scaled": lambda t, n: t.empty(n).normal_(1.0, 0.5),
    "never negative zero": lambda t, n: 1 / (t.randn(n) * 0 + 1e-30),
    "rand": lambda t, n: t.rand(n),
    "randint": lambda t, n: t.randint(0, 9, (n,)),
    "randperm": lambda t, n: t.randperm(n),
    "doubles": lambda t, n: t.empty(n, dtype=t.float64).uniform_(),
    "dropout": lambda t, n: t.nn.functional.dropout(t.ones(n)),
    "state": lambda t, n: t.get_rng_state(),
    "forked": lambda t, n: _forked(t, n),
    "restored": lambda t, n: _restored(t, n),
}


def _forked(t, n):
    with t.random.fork_rng(devices=[]):
        inside = t.randn(n)
    return t.stack([inside, t.randn(n)])


def _restored(t, n):
    first, state = t.randn(16), t.get_rng_state()
    second = t.randn(n)
    t.set_rng_state(state)
    assert (t.randn(n) == second).all()
    return first


@pytest.mark.parametrize("seed", range(4))
def test_draws_in_any_order_are_pytorchs(seed):
    chosen = random.Random(seed)
    torch.manual_seed(seed), torchlike.manual_seed(seed)
    for _ in range(60):
        name, n = chosen.choice([*DRAWS, "randn", "randn"]), chosen.choice(SIZES)
        theirs, ours = (DRAWS[name](t, n).numpy() for t in (torch, torchlike))
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{name} {n}")


def test_a_seed_forgets_what_was_made_ahead():
    for _ in range(2):
        torchlike.manual_seed(5), torch.manual_seed(5)
        assert torchlike.randn(32).tolist() == torch.randn(32).tolist()


def test_a_filled_tensor_counts_a_change_and_keeps_its_aliases():
    x = torchlike.zeros(4, 8)
    alias, version = x.detach(), x._version
    assert x.normal_() is x
    assert x._version == version + 1
    assert alias.tolist() == x.tolist()


def test_a_leaf_is_not_filled_where_changes_are_recorded():
    x = torchlike.zeros(32, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x.normal_()
    with torchlike.no_grad():
        x.normal_()
    assert x.requires_grad and x.is_leaf and x.abs().sum() > 0


def test_what_autograd_saved_notices_the_change():
    x = torchlike.ones(32)
    w = torchlike.ones(32, requires_grad=True)
    y = (w * x).sum()
    x.normal_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_compared_samples_are_not_taken_for_results():
    torchlike.manual_seed(0), torch.manual_seed(0)
    ours, theirs = (t.empty(40).bernoulli_(t.full((40,), 0.3)) for t in (torchlike, torch))
    assert ours.tolist() == theirs.tolist()


def test_modes_see_draws():
    from torchlike.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torchlike.zeros(32)
    with Mode():
        torchlike.randn(32), x.normal_()
    assert seen == ["aten.randn.default", "aten.normal_.default"]
