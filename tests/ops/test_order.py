"""Sorts of so many elements that each is one number with its place, against PyTorch."""

import jax
import numpy as np
import pytest
import torch
from oracle import check, host, to_ours, to_torch

import torchlike
from torchlike.interop import to_jax

rng = np.random.RandomState(0)
MANY = np.round(rng.randn(140, 120) * 3, 1)  # with ties
MANY[:, 5:60:9] = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.0, -0.0]
DISTINCT = rng.permutation(16800).reshape(140, 120).astype(np.float32)
DTYPES = "float32 float16 bfloat16 float64 int32 int16 int8 uint8 int64 bool".split()


def ordered(t, x, dim, descending, dtype):
    x = x if "f" in dtype else x.nan_to_num(0, 9, -9)
    x = x.abs() if dtype == "uint8" else x
    x = x > 2 if dtype == "bool" else x.to(getattr(t, dtype))
    return t.sort(x, dim=dim, descending=descending, stable=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_stable_order(dtype, dim, descending):
    ours = ordered(torchlike, to_ours(MANY), dim, descending, dtype)
    theirs = ordered(torch, to_torch(MANY), dim, descending, dtype)
    for a, b in zip(map(host, ours), map(host, theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.astype(float), b.astype(float))
        known = a == a
        np.testing.assert_array_equal(np.signbit(a.astype(float))[known], np.signbit(b.astype(float))[known])


CASES = """t.sort(x, 0) | t.sort(x, 1, descending=True) | t.msort(x) | t.argsort(x, 0) | t.median(x, 0) | t.median(x)
t.nanmedian(x, 1) | t.kthvalue(x, 7, 0) | t.mode(x, 1) | t.topk(x, 60) | t.topk(x, 30, 0, False)
t.quantile(x, 0.3, dim=1) | t.quantile(x, 0.7)""".replace("\n", " | ").split(" | ")  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_sorts(case):
    check(eval(f"lambda t, x: {case}"), DISTINCT, stride=False, tol=10)


def test_jax_differentiates_the_values():
    weights = rng.randn(140, 120).astype(np.float32)
    found = jax.grad(lambda x: (to_jax(lambda y: torchlike.sort(y, 0).values)(x) * weights).sum())(DISTINCT)
    x = to_torch(DISTINCT).requires_grad_()
    (torch.sort(x, 0).values * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(found, x.grad)
