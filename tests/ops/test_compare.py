"""Comparisons, logic and predicates of pairs: values at NaN and infinities, dtypes, forms, errors."""

import operator

import numpy as np
import pytest
import torch
from oracle import check_error, host
from pointwise_cases import BOOLS, BRAIN, COMPLEX, HALF, INF, INTS, MATRIX, NAN, forward, twice

import torchlike

POINTS = np.array([0.0, -0.0, 1.0, -1.0, 2.5, NAN, INF, -INF])
NAMES = ["eq", "ne", "lt", "le", "gt", "ge"]


def call(name):
    return lambda t, *a: getattr(t, name)(*a)


@pytest.mark.parametrize("name", NAMES)
def test_values(name):
    forward(call(name), *twice(POINTS))
    forward(call(name), *twice(INTS))
    forward(call(name), BOOLS, BOOLS[::-1].copy())
    forward(call(name), INTS, np.array(0.5))
    for x in (HALF, BRAIN):
        forward(lambda t, x: getattr(t, name)(x[:, None], x), x)
    forward(lambda t, x, y: getattr(t, name)(x.T, y), MATRIX, MATRIX[:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_numbers(name):
    for x in (
        POINTS,
        INTS,
        INTS.astype(np.int8),
        np.abs(INTS).astype(np.uint8),
        BOOLS,
        HALF,
        np.float32([0.1, 0.2]),
    ):
        for number in (1, 0.1, -1, 1000, True, 2.5):
            forward(lambda t, x, n=number: getattr(t, name)(x, n), x)


@pytest.mark.parametrize("op", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_operators(op):
    forward(lambda t, x, y: (op(x, y), op(x, 1), op(1.5, x)), *twice(POINTS))


def test_complex_equality():
    forward(lambda t, x, y: (x == y, x != y, x == 1), *twice(COMPLEX))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic(name):
    forward(call(name), *twice(POINTS))
    forward(call(name), *twice(COMPLEX))
    forward(call(name), BOOLS, INTS[:3])
    forward(lambda t, x, y: getattr(x.clone(), name + "_")(y), POINTS[:3], INTS[:3])


@pytest.mark.parametrize("name", NAMES)
def test_forms(name):
    forward(lambda t, x: getattr(x.clone(), name + "_")(0.5), MATRIX)
    forward(lambda t, x: getattr(t, name)(x, 0.5, out=t.empty(0, dtype=t.bool)), MATRIX)
    forward(lambda t, x: getattr(t, name)(x, x, out=t.empty(3, 4)), MATRIX)


def test_in_place_comparison_ends_the_history():
    for t in (torch, torchlike):
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y = (x * 2).eq_(2.0)
        y.sum().backward()
        assert y.tolist() == [1.0, 0.0] and x.grad.tolist() == [0.0, 0.0]


def test_results_do_not_require_grad():
    x = torchlike.ones(2, requires_grad=True)
    assert not (x > 0).requires_grad and (x > 0).grad_fn is None
    assert not torchlike.isclose(x, x).requires_grad


def test_isclose():
    a, b = twice(np.array([0.0, 1.0, 1.0 + 1e-7, 1.0 + 1e-3, NAN, INF, -INF]))
    for options in ({}, {"rtol": 1e-2}, {"atol": 0.5}, {"equal_nan": True}, {"rtol": 0, "atol": 0}):
        forward(lambda t, x, y, o=options: t.isclose(x, y, **o), a, b)
        forward(lambda t, x, y, o=options: t.allclose(x, y, **o), a, b)
    forward(lambda t, x, y: x.isclose(y, rtol=0.3), *twice(INTS))
    forward(lambda t, x, y: x.isclose(y), *twice(COMPLEX))
    forward(lambda t, x: x.isclose(x), BOOLS)
    for dtype in (np.uint8, np.uint16, np.int8, np.int64):  # differences outside of the dtype
        pair = np.array([1, 2, 100, 3], dtype), np.array([2, 1, np.iinfo(dtype).min, 3], dtype)
        for options in ({}, {"atol": 2.0}, {"rtol": 0.9, "atol": 0.0}, {"atol": 150.0}):
            forward(lambda t, x, y, o=options: t.isclose(x, y, **o), *pair)
    forward(lambda t, x: t.allclose(x[:0], x[:0]), MATRIX)


def test_equal():
    x = torchlike.tensor([1.0, 2.0])
    for t in (torch, torchlike):
        x = t.tensor([1.0, 2.0])
        assert t.equal(x, x.clone()) is True and x.equal(x + 1) is False
        assert t.equal(x, t.ones(3)) is False and t.equal(t.empty(0), t.empty(0)) is True
        assert t.equal(t.tensor([NAN]), t.tensor([NAN])) is False


def test_where_a_comparison_meets_large_integers():
    """int64 is compared as int64, not through floats."""
    x = torchlike.tensor([2**53, 2**53 + 1])
    assert host(x == 2**53 + 1).tolist() == [False, True]


REFUSED = [
    (lambda t, x: x < x, (COMPLEX,), "lt.*Complex"),
    (lambda t, x: t.ge(x, 1), (COMPLEX,), "ge.*Complex"),
    (lambda t, x: t.eq(1, x), (MATRIX,), "eq.*must be Tensor, not int"),
    (lambda t, x, y: x == y, (np.ones(2), np.ones(3)), r"tensor a \(2\).*tensor b \(3\)"),
    (lambda t, x, y: t.isclose(x, y), (MATRIX, MATRIX.astype(np.float32)), "isclose.*did not match"),
    (lambda t, x: t.isclose(x, x, rtol=-1.0), (MATRIX,), "rtol must be greater.*-1"),
    (lambda t, x, y: t.allclose(x, y), (MATRIX, MATRIX.astype(np.float32)), "allclose.*did not match"),
    (lambda t, x: t.logical_and(x, 1), (BOOLS,), "logical_and.*must be Tensor, not int"),
    (lambda t, x: t.equal(x, 1), (BOOLS,), "equal.*must be Tensor, not int"),
]


@pytest.mark.parametrize(("f", "arrays", "match"), REFUSED, ids=range(len(REFUSED)))
def test_refuses(f, arrays, match):
    check_error(f, *arrays, match=match)
