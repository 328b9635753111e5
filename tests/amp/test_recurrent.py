"""Recurrent networks under autocast: what is multiplied is of the lower precision, states stay as they came."""

import numpy as np
import pytest
import torch
from both import agree
from oracle import host

import torchlike

STATES = [None, "float32", "bfloat16"]
KINDS = ["LSTMCell", "GRUCell", "RNNCell", "GRU", "RNN"]  # PyTorch's LSTM knows no float16 on a CPU


def step(t, kind, state, low):
    """What a network gives under autocast, and the gradients of its weights, input and states."""
    module = getattr(t.nn, kind)(3, 4)
    with t.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(((t.arange(float(p.numel())) * 0.37 + i).sin() * 0.7).reshape(p.shape))
    x = (t.arange(6.0) * 0.61).cos().reshape(2, 3)
    h, c = [(t.arange(8.0) * k).sin().reshape(2, 4).to(getattr(t, state or "float32")) for k in (0.23, 0.43)]
    leaves = [s.requires_grad_() for s in (x, h, c)]
    x, h, c = [s if "Cell" in kind else s[None] for s in leaves]
    with t.autocast("cpu", dtype=getattr(t, low)):
        out = module(x, None if state is None else (h, c) if "LSTM" in kind else h)
    outs = list(out) if isinstance(out, tuple) else [out]
    sum((o.float() * (i + 1)).sum() for i, o in enumerate(outs)).backward()
    return outs + [p.grad for p in (*leaves, *module.parameters()) if p.grad is not None]


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_are_pytorchs_and_values_near_them(kind, state, low):
    """Near: up to a few roundings of the lower precision, which happen at other places."""
    ours, theirs = step(torchlike, kind, state, low), step(torch, kind, state, low)
    assert [str(a.dtype)[-8:] for a in ours] == [str(b.dtype)[-8:] for b in theirs]
    rounding = 2.0**-7 if "bfloat16" in (low, state) else 2.0**-10
    for a, b in zip(ours, theirs, strict=True):
        a, b = host(a).astype(np.float32), host(b).astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=0, atol=2 * rounding * max(1.0, np.abs(b).max()))


def test_products_take_the_lower_precision():
    """A row of the weight comes out rounded, an LSTM's state of the cell as it came."""

    def run(t):
        cell = t.nn.GRUCell(2, 2, bias=False)
        with t.no_grad():
            cell.weight_ih.copy_(t.arange(12.0).reshape(6, 2).sin())
            cell.weight_hh.zero_()
        x, h = t.eye(2).requires_grad_(), t.tensor([[1.0001, 2.0], [3.0, 4.0003]])
        lstm = t.nn.LSTMCell(2, 2, bias=False)
        with t.no_grad():
            lstm.weight_ih.zero_()
            lstm.weight_hh.zero_()
        with t.autocast("cpu"):
            y = cell(x, h)
            _, c = lstm(x, (h, h))
        y.sum().backward()
        return [f"{v:.2g}" for v in (*y.flatten().tolist(), *x.grad.flatten().tolist())], c, cell.weight_ih.grad.dtype

    agree(run)


@pytest.mark.parametrize("kind", ["GRUCell", "LSTMCell", "GRU"])
def test_without_autocast_states_are_of_the_inputs_dtype(kind):
    def run(t):
        h = t.ones(2, 4, dtype=t.bfloat16)
        x, h = (t.ones(2, 3), h) if "Cell" in kind else (t.ones(1, 2, 3), h[None])
        try:
            getattr(t.nn, kind)(3, 4)(x, (h, h) if "LSTM" in kind else h)
        except Exception as error:
            return type(error).__name__

    agree(run)


def test_a_state_in_float64_is_refused():
    def run(t):
        with t.autocast("cpu"):
            try:
                t.nn.GRUCell(3, 4)(t.ones(2, 3), t.ones(2, 4, dtype=t.float64))
            except Exception as error:
                return type(error).__name__

    agree(run)
