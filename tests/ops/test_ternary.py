"""Selection, clamping, interpolation and fused products: ties, NaN bounds, promotion, forms, errors."""

import numpy as np
import pytest
import torch
from both import agree
from oracle import check, check_error
from pointwise_cases import BOOLS, BRAIN, COMPLEX, EDGES, HALF, INF, INTS, MATRIX, NAN, forward, twice

import torchlike

POINTS = np.array([0.0, -0.0, 0.5, 1.0, -1.0, 2.5, NAN, INF, -INF])
MASK = MATRIX > 0.3


def test_where():
    check(lambda t, c, x, y: t.where(c, x, y), MASK, MATRIX, MATRIX[0])
    check(lambda t, c, x: t.where(c, x, 0.0), MASK[0], MATRIX)
    check(lambda t, c, x: x.where(c, 2), MASK, MATRIX)
    check(lambda t, x: t.where(x > 0, x.exp(), x), MATRIX)
    check(lambda t, c, x, y: t.where(c, x, y), MASK[0], COMPLEX[:4], COMPLEX[4:])


def test_where_promotes():
    pairs = [(1, 2), (1.0, 2), (True, 1), (1, 2j)]
    for a, b in pairs:
        forward(lambda t, c, a=a, b=b: t.where(c, a, b), MASK)
    for x in (INTS[:4], HALF[:4], BOOLS[[0, 1, 1, 0]], MATRIX):
        for y in (2, 0.5, True):
            forward(lambda t, c, x, y=y: (t.where(c, x, y), t.where(c, y, x)), MASK, x)
    forward(lambda t, c, x, y: t.where(c, x, y), MASK, INTS[:4], np.array(1.5))
    forward(lambda t, c, x: t.where(c, x, x), MASK.astype(np.uint8), MATRIX)


def test_where_hides_what_is_not_chosen():
    """A NaN in the branch not taken does not reach the gradient of the other."""
    x = torchlike.tensor([0.0, 4.0], requires_grad=True)
    torchlike.where(x > 0, x.log(), x * 2).sum().backward()
    assert x.grad.tolist()[1] == 0.25


BOUNDS = [(0, 1), (-0.5, None), (None, 0.5), (1, 0), (NAN, None), (None, NAN), (0.0, 0.0), (-INF, INF)]


@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_clamp(low, high):
    check(lambda t, x: t.clamp(x, low, high), POINTS)
    check(lambda t, x: x.clip(min=low, max=high), MATRIX.astype(np.float32))
    forward(lambda t, x: x.clone().clamp_(low, high), MATRIX)
    if low is None:
        check(lambda t, x: x.clamp_max(high), POINTS)
    elif high is None:
        check(lambda t, x: t.clamp_min(x, low), POINTS)


def test_clamp_by_tensors():
    x, low = twice(POINTS)
    high = low[::-1].copy()
    check(lambda t, x, a, b: t.clamp(x, a, b), x, low, high)
    check(lambda t, x, a: t.clamp(x, min=a), x, low)
    check(lambda t, x, a: t.clamp(x, max=a), x, low)
    check(lambda t, x, a: t.clamp_min(x, a), x, low)
    check(lambda t, x, a: t.clamp_max(x, a), x, low)
    check(lambda t, x, a: x.clamp(a[:, :1], a + 1), MATRIX, MATRIX[::-1] / 2)
    forward(lambda t, x, a: x.clamp(a[:, None], a + 1), MATRIX[:, 0], MATRIX[:, 1])
    forward(lambda t, x, a: x.clamp(0, a), MATRIX, np.array(1.0))


def test_clamp_promotes():
    for x in (INTS, INTS.astype(np.int8), HALF, BRAIN):
        forward(lambda t, x: (x.clamp(0, 2), x.clamp(0.5), t.clamp(x, max=1.5), x.clamp_min(0.5)), x)
    forward(lambda t, x: (x.clamp(0, 1), x.clamp_max(1), x.clamp_min(x), x.clamp(max=x)), BOOLS)
    forward(lambda t, x, a: x.clamp(a), INTS, np.array([0.5]))


def test_gradient_at_a_bound_is_one():
    x = torchlike.tensor([0.0, 1.0, 2.0], requires_grad=True)
    x.clamp(0, 1).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


def test_lerp():
    for w in (0.0, 0.25, 0.5, 1.0, 1.5):
        check(lambda t, x, y, w=w: t.lerp(x, y, w), MATRIX, MATRIX[0] * 3)
        forward(lambda t, x, w=w: t.lerp(x, x.flip(0) if hasattr(x, "flip") else x, w), HALF)
    check(lambda t, x, y, w: t.lerp(x, y, w), MATRIX, MATRIX[0] * 3, np.linspace(-1, 2, 4))
    check(lambda t, x, y, w: x.lerp(y, w), COMPLEX[1:4], COMPLEX[4:7], COMPLEX[3:6])
    forward(lambda t, x, y: x.clone().lerp_(y, 0.3), MATRIX, MATRIX[::-1].copy())
    for weight, kind in ((0.3, "float64"), (0.3, "bfloat16"), (True, "bool"), (2, "int64")):  # without dimensions
        forward(lambda t, x, w=weight, k=kind: t.lerp(x, x + 1, t.tensor(w, dtype=getattr(t, k))), HALF)
        forward(lambda t, x, w=weight, k=kind: t.lerp(x[0], x[1], t.tensor(w, dtype=getattr(t, k))), HALF)
    forward(lambda t, x: t.lerp(x, x + 1, t.tensor(0.3 + 1j)), MATRIX.astype(np.float32))


def test_the_gradient_of_a_weight_without_dimensions_has_its_dtype():
    def grads(t):
        x, w = t.ones(3, requires_grad=True), t.tensor(0.25, dtype=t.float64, requires_grad=True)
        t.lerp(x, t.zeros(3), w).sum().backward()
        return [(g.tolist(), str(g.dtype)) for g in (x.grad, w.grad)]

    agree(grads)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_fused(name):
    for value in (1, 0.5, -2):
        check(
            lambda t, x, y, z, v=value: getattr(t, name)(x, y, z, value=v),
            MATRIX,
            MATRIX[0] + 3,
            np.abs(MATRIX) + 1,
        )
        forward(lambda t, x, v=value: getattr(t, name)(x, x, x + 2, value=v), HALF)
        forward(lambda t, x, v=value: getattr(x.clone(), name + "_")(x + 1, x.abs() + 1, value=v), MATRIX)
    check(lambda t, x, y, z: getattr(t, name)(x, y, z, value=1 + 2j), COMPLEX[1:4], COMPLEX[4:7], COMPLEX[3:6])
    check(lambda t, x, y, z: getattr(t, name)(x, y, z), POINTS, EDGES[:9], EDGES[3:12], gradgrad=False)


def test_addcmul_of_integers():
    forward(lambda t, x: (t.addcmul(x, x, x, value=2), t.addcmul(x, x, x, value=1.5)), INTS)
    forward(lambda t, x, y: t.addcmul(x, x, y), INTS, INTS.astype(np.float32))


@pytest.mark.parametrize("name", ["where", "clamp", "lerp", "addcmul"])
def test_strides_follow(name):
    calls = {
        "where": lambda t, x: t.where(x.T > 0, x.T, x.T),
        "clamp": lambda t, x: x.T.clamp(0, 1),
        "lerp": lambda t, x: t.lerp(x.T, x.T, 0.5),
        "addcmul": lambda t, x: t.addcmul(x.T, x.T, x.T),
    }
    forward(calls[name], MATRIX)
    forward(lambda t, x: calls[name](t, x[1:0]), MATRIX)


def test_nodes():
    found = []
    for t in (torch, torchlike):
        x = t.tensor([0.5], requires_grad=True)
        results = (
            x.clamp(0, 1),
            x.clamp(x, x),
            x.clamp_min(0),
            x.clamp_max(x),
            t.where(x > 0, x, 0.0),
            t.lerp(x, x, 0.5),
            t.lerp(x, x, x),
            t.addcmul(x, x, x),
            t.addcdiv(x, x, x),
        )
        found.append([r.grad_fn.name() for r in results])
    assert found[0] == found[1]


REFUSED = [
    (lambda t, x: t.clamp(x), (MATRIX,), "At least one of 'min' or 'max'"),
    (lambda t, x: t.clamp(x, 0, 1), (COMPLEX,), "clamp.*complex"),
    (lambda t, x: t.clamp(x, False), (BOOLS,), "clamp.*Bool"),
    (lambda t, x: x.clamp_(0.5), (INTS,), "Float can't be cast"),
    (lambda t, x: t.where(x, x, x), (MATRIX,), "condition.*boolean.*Double"),
    (lambda t, x: t.where(x, x, x), (INTS,), "condition.*boolean.*Long"),
    (lambda t, c, x: t.where(c, x, x), (MASK, np.ones(3)), r"must match.*\(3\)"),
    (lambda t, x, y: t.lerp(x, y, 0.5), (MATRIX, MATRIX.astype(np.float32)), "dtype.*end"),
    (lambda t, x: t.lerp(x, x, 0.5), (INTS,), "lerp.*Long"),
    (lambda t, x: t.addcdiv(x, x, x), (INTS,), "Integer division with addcdiv"),
    (lambda t, x: x.clamp_min(False), (BOOLS,), "clamp_min.*Bool"),
    (lambda t, x: x.clamp(x, x), (BOOLS,), "clamp.*Bool"),
    (lambda t, x: t.addcmul(x, 1.0, x), (MATRIX,), "addcmul.*must be Tensor, not float"),
]


@pytest.mark.parametrize(("f", "arrays", "match"), REFUSED, ids=range(len(REFUSED)))
def test_refuses(f, arrays, match):
    check_error(f, *arrays, match=match)
