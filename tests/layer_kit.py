"""Layers of both libraries with the same parameters: outputs, gradients, buffers, text, and training and
evaluation."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from oracle import assert_same, flatten, host, to_ours, to_torch

import torchlike

MODULES = {"torch": torch.nn, "torchlike": torchlike.nn}


def tensors(arrays, make, grad=True):
    """Tensors of the arrays (floating ones require grad), also within tuples; other values as they are."""
    out = []
    for a in arrays:
        if isinstance(a, tuple):
            out.append(tuple(tensors(a, make, grad)))
        elif isinstance(a, np.ndarray):
            t = make(a)
            out.append(t.requires_grad_() if grad and a.dtype.kind == "f" else t)
        else:
            out.append(a)
    return out


def pair(make: Callable) -> tuple[Any, Any]:
    """The module of each library, ours with the parameters and buffers of PyTorch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = make(torch.nn), make(torchlike.nn)
    state = theirs.state_dict()
    assert list(state) == list(ours.state_dict())
    ours.load_state_dict({k: to_ours(v.numpy()) for k, v in state.items()})
    return ours, theirs


def layer(make: Callable, *arrays: Any, call: Callable | None = None, tol: float = 1.0, train: bool = True) -> None:
    """Compare ``make(nn)`` applied to the arrays: text, outputs, gradients of inputs and parameters, buffers
    after.

    Args:
        call: how to apply the module (default ``module(*inputs)``).
        train: whether in training or evaluation mode.
    """
    ours, theirs = pair(make)
    assert repr(ours) == repr(theirs)
    results = []
    for module, make_tensor in ((ours, to_ours), (theirs, to_torch)):
        module.train(train)
        inputs = tensors(arrays, make_tensor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = call(module, *inputs) if call else module(*inputs)
        results.append((flatten(out), flatten(inputs)))
    (outs, mine), (wanted, real) = results
    _compare_outputs(outs, wanted, tol)
    _backward(outs, to_ours)
    _backward(wanted, to_torch)
    for i, (a, b) in enumerate(zip(mine, real, strict=True)):
        if isinstance(b, torch.Tensor) and b.requires_grad:
            _compare_grads(a, b, f"gradient of input {i}", tol)
    for (name, a), (_, b) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert a.requires_grad == b.requires_grad
        _compare_grads(a, b, f"gradient of {name}", tol)
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert_same(a, b, f"buffer {name}", tol=tol)


def _compare_outputs(outs, wanted, tol):
    assert len(outs) == len(wanted)
    for i, (a, b) in enumerate(zip(outs, wanted, strict=True)):
        if b is None:
            assert a is None
            continue
        assert_same(a, b, f"result {i}", tol=10 * tol)
        assert a.requires_grad == b.requires_grad


def _backward(outs, make):
    rng = np.random.RandomState(1)
    chosen = [o for o in outs if o is not None and o.requires_grad]
    seeds = [make(rng.standard_normal(tuple(o.shape)).astype(host(o).dtype)) for o in chosen]
    library = torch if make is to_torch else torchlike
    if chosen:
        library.autograd.backward(chosen, seeds)


def _compare_grads(a, b, what, tol):
    assert (a.grad is None) == (b.grad is None), what
    if b.grad is not None:
        assert_same(a.grad, b.grad, what, tol=30 * tol)


def same_refusal(f: Callable, match: str = "") -> None:
    """``f(nn)`` raises the same type of exception in both libraries, ours with a message that fits
    ``match``."""
    errors = []
    for nn in (torchlike.nn, torch.nn):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                f(nn)
            except Exception as error:
                errors.append(error)
            else:
                raise AssertionError(f"{nn.__name__} does not refuse")
    ours, theirs = errors
    assert type(ours) is type(theirs), f"{ours!r}, PyTorch: {theirs!r}"
    assert re.search(match, str(ours), re.DOTALL), f"message {str(ours)!r} does not match {match!r}"
