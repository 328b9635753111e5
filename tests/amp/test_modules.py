"""Modules under autocast: outputs and gradients are PyTorch's, up to the rounding of the lower precision."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from layer_kit import pair
from oracle import host

import torchlike

RANDOM = np.random.RandomState(0)


def a(*shape):
    return RANDOM.randn(*shape).astype(np.float32)


MODULES = {
    "Linear": (lambda nn: nn.Linear(3, 4), a(2, 3)),
    "Conv2d": (lambda nn: nn.Conv2d(3, 4, 2), a(2, 3, 6, 6)),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(3, 4, 2), a(2, 3, 6, 6)),
    "LSTM": (lambda nn: nn.LSTM(3, 4, 2), a(5, 2, 3)),
    "GRU": (lambda nn: nn.GRU(3, 4), a(5, 2, 3)),
    "GRU with a state": (lambda nn: nn.GRU(3, 4), a(5, 2, 3), a(1, 2, 4)),
    "RNN": (lambda nn: nn.RNN(3, 4), a(5, 2, 3)),
    "LSTMCell": (lambda nn: nn.LSTMCell(3, 4), a(2, 3)),
    "GRUCell": (lambda nn: nn.GRUCell(3, 4), a(2, 3)),
    "MultiheadAttention": (lambda nn: nn.MultiheadAttention(4, 2), a(5, 2, 4), a(5, 2, 4), a(5, 2, 4)),
    "TransformerEncoderLayer": (lambda nn: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), a(5, 2, 4)),
    "LayerNorm": (lambda nn: nn.LayerNorm(4), a(3, 4)),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(4), a(3, 4)),
    "PReLU": (lambda nn: nn.PReLU(), a(3, 4)),
    "Embedding": (lambda nn: nn.Embedding(4, 3), np.array([1, 2])),
    "MaxPool3d": (lambda nn: nn.MaxPool3d(2), a(2, 3, 4, 4, 4)),
    "HuberLoss": (lambda nn: nn.HuberLoss(), a(3, 4), a(3, 4)),
    "perceptron": (lambda nn: nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2)), a(4, 3)),
}


def run(t, module, arrays, kind, low):
    """(outputs, gradients of inputs and parameters)."""
    tensors = [t.from_numpy(x.copy()) for x in arrays]
    inputs = [x.to(getattr(t, kind)).requires_grad_() if x.is_floating_point() else x for x in tensors]
    with warnings.catch_warnings(), t.autocast("cpu", dtype=getattr(t, low)):
        warnings.simplefilter("ignore")
        outputs = list(flat(module(*inputs)))
    weights = [t.linspace(-1.0, 1.3, x.numel()).sin().reshape(x.shape) for x in outputs]
    sum((x.float() * w).sum() for x, w in zip(outputs, weights, strict=True)).backward()
    return outputs, [x.grad for x in (*inputs, *module.parameters())]


def flat(out):
    for x in out if isinstance(out, tuple) else (out,):
        yield from flat(x) if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("kind, low", [("float32", "bfloat16"), ("bfloat16", "bfloat16"), ("float32", "float16")])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name, kind, low):
    make, *arrays = MODULES[name]
    ours, theirs = pair(make)
    try:
        expected = run(torch, theirs, arrays, kind, low)
    except RuntimeError as error:
        assert "could not create a primitive" in str(error)  # an LSTM in float16, which this CPU may lack
        return
    for found, wanted in zip(run(torchlike, ours, arrays, kind, low), expected, strict=True):
        assert [str(x and x.dtype) if x is None else str(x.dtype) for x in found] == [
            str(x) if x is None else str(x.dtype).replace("torch.", "torch.") for x in wanted
        ]
        for x, y in zip(found, wanted, strict=True):
            if y is not None:
                close(host(x.detach().double()), y.detach().double().numpy())


def close(found, wanted):
    """Equal up to a few roundings in bfloat16 of the largest."""
    assert np.abs(found - wanted).max() <= 0.03 * np.abs(wanted).max() + 1e-3
