"""Distances and similarities of vectors."""

import math

import jax
import numpy as np
import pytest
import torch
from oracle import check, check_error

import torchlike
from torchlike.interop import to_jax

INF = float("inf")
RNG = np.random.RandomState(0)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))


def run(name, **options):
    return lambda t, *xs: getattr(t.nn.functional, name)(*xs, **options)


def test_cosine_similarity():
    check(run("cosine_similarity"), X, Y)
    check(run("cosine_similarity", dim=0), X, Y[0])
    check(run("cosine_similarity", dim=-1), X[0], Y[:2])
    check(run("cosine_similarity", dim=0), X.astype(np.float32), Y, gradgrad=False, tol=1e3)
    check(
        run("cosine_similarity"),
        np.array([[0.0, 0], [1, 2], [1e-9, 0]]),
        np.array([[1.0, 2], [0, 0], [3, 4]]),
        gradgrad=False,
    )
    check(run("cosine_similarity", dim=0), np.array(2.0), np.array(-3.0), gradgrad=False)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances(p):
    slope = p > 0  # PyTorch has no gradient of the 0-norm, torchlike zeros
    check(
        run("pairwise_distance", p=p, eps=0.0),
        np.array([[0.0, 0], [1, 2]]),
        np.array([[0.0, 0], [1, 0]]),
        grad=slope,
        gradgrad=False,
    )
    check(run("pairwise_distance", p=p, keepdim=True), X, Y[0], grad=slope, gradgrad=p in (2.0, 3.0), jit=False)
    check(run("pdist", p=p), X, gradgrad=False)


def test_distances_of_other_dtypes():
    check(run("pairwise_distance"), np.array([0, 3, 1]), np.array([1, 1, 1]))
    check(run("pairwise_distance"), X.astype(np.float32), Y, gradgrad=False, tol=1e3)
    check(run("pairwise_distance"), X + 1j * Y, Y - 2j * X, gradgrad=False)


@pytest.mark.parametrize(
    "f, match",
    [
        (lambda t, x: t.nn.functional.cosine_similarity(x.long(), x.long()), "common dtype is Long"),
        (lambda t, x: t.nn.functional.cosine_similarity(x, x, dim=2), "out of range"),
        (lambda t, x: t.nn.functional.pairwise_distance(x, x[:2]), "must match"),
        (lambda t, x: t.nn.functional.pdist(x[0]), "2D tensors, got: 1D"),
    ],
)
def test_errors(f, match):
    check_error(f, X, match=match)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, math.inf])
def test_jax_differentiates_many_rows_as_few(p):
    x, y, w = (np.random.RandomState(i).randn(*shape) for i, shape in enumerate([(200, 60), (131, 60), (200, 131)]))
    found = jax.grad(lambda *a: (to_jax(lambda u, v: torchlike.cdist(u, v, p))(*a) * w).sum(), (0, 1))(x, y)
    a, b = torch.tensor(x, requires_grad=True), torch.tensor(y, requires_grad=True)
    (torch.cdist(a, b, p) * torch.tensor(w)).sum().backward()
    for ours, theirs in zip(found, (a, b), strict=True):
        np.testing.assert_allclose(ours, theirs.grad, rtol=1e-9, atol=1e-9)
