"""Hooks of saved tensors and checkpoints around a compiled function: they take what its node saves, from the start."""

import numpy as np
import pytest
import torch as pytorch
from recorded_kit import is_steady

import torchlike as torch
from torchlike import nn

CALLS = 3


def _function(lib):
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.BatchNorm1d(4), lib.nn.Tanh(), lib.nn.Linear(4, 2))
    return model.double()


def _run(lib, wrap, around):
    """Gradients and buffers of some calls under ``around(function, x)``."""
    model, seen = _function(lib), []
    run = wrap(model)
    for i in range(CALLS):
        x = lib.arange(12, dtype=lib.float64).reshape(3, 4).sin().add(i).requires_grad_()
        model.zero_grad()
        around(lib, run, x).pow(2).sum().backward()
        seen += [x.grad, *[p.grad for p in model.parameters()], *[b.clone() for b in model.buffers()]]
    return [t.tolist() for t in seen]


def _checkpointed(**options):
    return lambda lib, run, x: lib.utils.checkpoint.checkpoint(run, x, use_reentrant=False, **options)


def _on_cpu(lib, run, x):
    with lib.autograd.graph.save_on_cpu():
        return run(x)


def _as_numpy(lib, run, x):
    with lib.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True), lib.from_numpy):
        return run(x)


def _without_early_stop(lib, run, x):
    with lib.utils.checkpoint.set_checkpoint_early_stop(False):
        return lib.utils.checkpoint.checkpoint(run, x, use_reentrant=False)


def _twice(lib, run, x):
    return lib.utils.checkpoint.checkpoint(lambda x: run(run(x) @ lib.ones(2, 4).double()), x, use_reentrant=False)


AROUND = {
    "checkpoint": _checkpointed(),
    "checkpoint without early stop": _without_early_stop,
    "checkpoint, no random state": _checkpointed(preserve_rng_state=False),
    "two calls in one checkpoint": _twice,
    "save_on_cpu": _on_cpu,
    "hooks that leave the library": _as_numpy,
}


@pytest.mark.parametrize("name", AROUND)
def test_around_a_compiled_function(name):
    expected = _run(pytorch, lambda f: f, AROUND[name])
    for wrap in (lambda f: f, torch.compile):
        for got, want in zip(_run(torch, wrap, AROUND[name]), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_checkpoints_in_a_loop_use_one_program():
    model = torch.compile(nn.Linear(3, 3), fullgraph=True)

    def step():
        x = torch.ones(2, 3, requires_grad=True)
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum().backward()

    step()
    step()
    assert is_steady(step)


def test_every_call_packs_the_same_and_no_tracer():
    f = torch.compile(lambda a, b: (a * b).sin() * b)
    a, b, counts = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True), []
    for _ in range(CALLS):
        packed = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.tolist()) or t, lambda t: t):  # noqa: B023
            f(a, b).sum().backward()
        counts.append(len(packed))
    assert counts[0] > 0 and len(set(counts)) == 1


def test_what_hooks_give_back_is_what_backward_reads():
    f = torch.compile(torch.sin)
    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 0 + 0.25):
        y = f(x)
    y.sum().backward()
    assert (x.grad != 1).all()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = f(x)
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        y.sum().backward()


def _gradient(x):
    return torch.func.grad(lambda v: (v * v).sum())(x)


def _without_hooks(x):
    with torch.autograd.graph.disable_saved_tensors_hooks("none here"):
        return x * 2


@pytest.mark.parametrize(("f", "why"), [(_gradient, "saved tensor hooks"), (_without_hooks, "none here")])
@pytest.mark.parametrize("met", [False, True])
def test_what_takes_no_hooks_refuses_those_around(f, why, met):
    run, x = torch.compile(f), torch.ones(2)
    expected = f(x)
    if met:
        assert run(x).equal(expected)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match=why):
            f(x)
        with pytest.raises(RuntimeError, match=why):
            run(x)
    assert run(x).equal(expected)


def test_hooks_are_off_again_after_a_call_that_fails():
    def wrong(x):
        return x.view(7)

    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(RuntimeError, match="invalid for input of size 3"):
            torch.compile(wrong)(x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t * 2):
            y = x.exp()
    y.sum().backward()
    assert (x.grad == 2 * y.detach()).all()
    assert nn.Linear(2, 2)(torch.ones(2)).sum().backward() is None
