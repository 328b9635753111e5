"""Conversions to floats of eight bits give PyTorch's number for every half number, and what is too large."""

import numpy as np
import pytest
import torch
from story_kit import story

import torchlike

NAMES = "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu".split()
PATTERNS = np.arange(2**16, dtype=np.uint16).view(np.int16)


def bits(t, x):
    """The bits of floats of eight bits, of which one stands for all NaNs."""
    return np.where(x.to(t.float32).isnan().numpy(), 127, x.view(t.uint8).numpy())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_every_number_of_sixteen_bits(name, source):
    patterns = PATTERNS
    if source == "bfloat16":
        patterns = np.where(patterns & 0x7F80, patterns, 0)  # XLA takes what is below 2**-126 for 0

    def made(t, x):
        return bits(t, t.tensor(x).view(getattr(t, source)).to(getattr(t, name)))

    for part in (patterns, patterns[-40:], patterns[15500:15540]):  # compiled; computed by numpy
        np.testing.assert_array_equal(made(torchlike, part), made(torch, part))


@story
def test_each_way_to_convert(t):
    inf, results = float("inf"), []
    x = t.tensor([1e4, -1e9, inf, -inf, 460.0, 465.0, -500.0, -1e-9, 0.0, 2.0**-18, 1000.0])
    for dtype in [getattr(t, n) for n in NAMES]:
        given = [
            x.to(dtype), x.type(dtype), x.double().to(dtype), t.zeros(11, dtype=dtype).copy_(x),
            t.tensor([1e4, -1e9, inf, 500.0], dtype=dtype), t.as_tensor(x.numpy(), dtype=dtype), t.ones(2, dtype=dtype),
            t.tensor([1000, -1000, 10**9, 0]).to(dtype), t.tensor([True, False]).to(dtype), t.zeros(2, dtype=dtype),
            x.to(t.float8_e5m2).to(dtype),
        ]  # fmt: skip
        results += [y.to(t.float32).nan_to_num(7.0) for y in given]
    return results


@pytest.mark.parametrize("name", [n for n in NAMES if n != "float8_e5m2"])
def test_no_infinity_is_filled_in(name):
    for t in (torch, torchlike):
        with pytest.raises(RuntimeError, match="without overflow"):
            t.full((2,), float("inf"), dtype=getattr(t, name))
