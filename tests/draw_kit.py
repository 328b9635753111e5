"""Draws of both libraries from one seed, compared: numbers, and the states that the generators are left in."""

import numpy as np
import torch
from oracle import host

import torchlike


def as_numbers(x):
    """A tensor of either library as an array that numpy can compare."""
    if isinstance(x, torch.Tensor | torchlike.Tensor):
        x = host(x.detach())
    return np.asarray(x, np.float64) if x.dtype.kind not in "biuc" and x.dtype.itemsize < 4 else np.asarray(x)


def state(t):
    return host(t.get_rng_state())


def same(draw, seed=3, ulps=0):
    """``draw(t)`` gives the same numbers, up to ``ulps`` roundings, and leaves the generators in the same state."""
    found = []
    for t in (torch, torchlike):
        t.manual_seed(seed)
        found.append((draw(t), state(t)))
    (expected, before), (got, after) = found
    compare(expected, got, ulps)
    if not ulps:  # a normal sample that is kept may differ by a rounding
        assert before.tobytes() == after.tobytes()
    kept = slice(5024, 5032)
    assert np.delete(before, kept).tobytes() == np.delete(after, kept).tobytes()


def compare(expected, got, ulps=0):
    if isinstance(expected, list | tuple):
        assert len(expected) == len(got)
        for a, b in zip(expected, got, strict=True):
            compare(a, b, ulps)
        return
    if not isinstance(expected, torch.Tensor):
        assert expected == got
        return
    assert str(expected.dtype) == str(got.dtype).replace("torchlike", "torch")
    assert tuple(expected.shape) == tuple(got.shape)
    assert expected.stride() == got.stride()
    a, b = as_numbers(expected), as_numbers(got)
    if not ulps:
        np.testing.assert_array_equal(b, a)
    else:
        np.testing.assert_array_max_ulp(np.asarray(a, a.dtype), np.asarray(b, a.dtype), ulps)


def close(draw):
    """:func:`same`, for numbers that are rounded otherwise on the way."""
    found = []
    for t in (torch, torchlike):
        t.manual_seed(5)
        found.append((as_numbers(draw(t)), state(t).tobytes()))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=2e-5, atol=1e-6)
    assert found[0][1] == found[1][1]
