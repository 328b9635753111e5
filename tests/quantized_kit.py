"""Quantized tensors of both libraries, and how they are compared: integers, what they stand for, and the text."""

import numpy as np
import pytest

FILTER = pytest.mark.filterwarnings(
    "ignore:torch.quantize_per_tensor, torch.quantize_per_channel",
    "ignore:torch.ao",
    "ignore:TypedStorage",
    "ignore:Please use quant_min",
    "ignore:must run observer",
)
KINDS = ("quint8", "qint8", "qint32")


def numbers(t, *shape, seed=0, spread=3.0):
    """Normal numbers of float32, every fourth half way between two steps of 0.1."""
    drawn = np.random.default_rng(seed).normal(0, spread, shape).astype(np.float32)
    drawn.reshape(-1)[::4] = (np.round(drawn.reshape(-1)[::4] * 10) + np.float32(0.5)) * np.float32(0.1)
    return t.from_numpy(drawn)


def Q(t, kind="quint8", shape=(2, 3), scale=0.1, zero_point=50, seed=0):
    """A tensor with one scale."""
    return t.quantize_per_tensor(numbers(t, *shape, seed=seed), scale, zero_point, getattr(t, kind))


def C(t, kind="qint8", shape=(2, 3), axis=0, floats=False):
    """A tensor whose places along ``axis`` have scales of their own."""
    n = shape[axis]
    zeros = t.arange(n).float() + 0.3 if floats else t.arange(n)
    return t.quantize_per_channel(numbers(t, *shape), 0.05 * (t.arange(n) + 1.0), zeros, axis, getattr(t, kind))


def told(x):
    """All that is compared of a result."""
    if isinstance(x, tuple | list):
        return [told(v) for v in x]
    if not getattr(x, "is_quantized", False):
        return x
    return x.int_repr(), x.stride(), x.dtype, x.is_contiguous(), repr(x)
