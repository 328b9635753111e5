"""Softmax of hidden and of empty rows, bags whose gradients are divided by frequencies, groups without elements."""

import pytest
from both import agree
from story_kit import said

INF = float("inf")
HIDE = [[True, False, False], [True, True, True]]
BAGS = {
    "sums": {"mode": "sum"},
    "means": {"mode": "mean"},
    "padded": {"mode": "mean", "padding_idx": 1},
    "weighed": {"mode": "sum", "padding_idx": 1, "per_sample_weights": [1.0, 2, 3, 4, 5]},
}


def graded(t, y, x):
    y.select(-1, 1).sum().backward()
    saved = sorted(k for k in dir(y.grad_fn) if k.startswith("_saved"))
    return y, x.grad, y.grad_fn.name(), saved


def scores(t):
    return t.arange(6.0).reshape(2, 3).requires_grad_()


CASES = {
    "a mask": lambda t: (lambda x: graded(t, t._masked_softmax(x, t.tensor(HIDE), 1), x))(scores(t)),
    "another dim": lambda t: t._masked_softmax(scores(t), t.tensor(HIDE), 0),
    "the last dim": lambda t: t._masked_softmax(scores(t).half(), t.tensor(HIDE)),
    "of positions": lambda t: t._masked_softmax(t.ones(2, 3, 4, 4), t.eye(4) > 0, 3, 0),
    "of keys": lambda t: t._masked_softmax(t.ones(2, 3, 4, 4), t.arange(8.0).reshape(2, 4) > 5, 3, 1),
    "untyped": lambda t: said(
        lambda: t._masked_softmax(t.ones(2, 3, 4, 4), t.eye(4) > 0), "Mask Type should be defined"
    ),
    "no mask": lambda t: said(lambda: t._masked_softmax(t.ones(2), t.ones(2)), "Mask should be a boolean tensor"),
    "other sizes": lambda t: said(lambda: t._masked_softmax(t.ones(2), t.ones(3) > 0), "shape should match input"),
    "not square": lambda t: said(
        lambda: t._masked_softmax(t.ones(2, 3, 4, 5), t.ones(4, 5) > 0, 3, 0), "should be .L, L."
    ),
    "not of keys": lambda t: said(
        lambda: t._masked_softmax(t.ones(2, 3, 4, 4), t.ones(3, 4) > 0, 3, 1), "should be .B, L."
    ),
    "its schemas": lambda t: [
        str(getattr(t.ops.aten, n).default._schema)
        for n in ("_masked_softmax", "_masked_softmax_backward", "_safe_softmax")
    ],
    "empty rows": lambda t: (lambda x: graded(t, t._safe_softmax(x, 1), x))(
        t.tensor([[1.0, 2], [-INF, -INF]], requires_grad=True)
    ),
    "empty scores": lambda t: (t._safe_softmax(t.tensor(-INF), 0), t._safe_softmax(t.ones(2, 0), 1)),
    "scores of NaN": lambda t: t._safe_softmax(t.tensor([float("nan"), -INF]), 0, dtype=t.float64),
    "no groups": lambda t: t.native_group_norm(t.ones(0, 6, 2), None, None, 0, 6, 2, 3, 1e-5),
    "empty groups": lambda t: t.native_group_norm(t.ones(2, 6, 0), None, None, 2, 6, 0, 3, 1e-5),
    "expanded triangles": lambda t: (
        t.ones(1, 3).expand(3, 3).tril_(),
        t.ones(3, 1).expand(3, 3).triu_(-1),
        t.ones(2, 1, 3).expand(2, 3, 3).tril_(1),
    ),
    "a triangle": lambda t: said(lambda: t.ones(1, 3).expand(3, 3).tril_(1.5), "argument 'diagonal'"),
    "sparse by frequency": lambda t: said(
        lambda: bag(t, mode="sum", sparse=True), "scale_grad_by_freq not supported with"
    ),
    "sparse and padded": lambda t: bag(t, mode="mean", sparse=True, padding_idx=1, scale_grad_by_freq=False)[
        0
    ].to_dense(),
}


def bag(t, per_sample_weights=None, scale_grad_by_freq=True, **how):
    weight = t.arange(6.0).reshape(3, 2).requires_grad_()
    if per_sample_weights is not None:
        how["per_sample_weights"] = t.tensor(per_sample_weights, requires_grad=True)
    y = t.nn.functional.embedding_bag(
        t.tensor([0, 1, 1, 0, 1]), weight, t.tensor([0, 2]), scale_grad_by_freq=scale_grad_by_freq, **how
    )
    y.square().sum().backward()
    factors = how.get("per_sample_weights")
    return weight.grad, y, None if factors is None else factors.grad


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_as_pytorch(case):
    agree(case)


@pytest.mark.parametrize("how", BAGS.values(), ids=BAGS)
def test_gradients_divided_by_frequencies(how):
    agree(lambda t: bag(t, **how))


def test_what_pytorch_divides_by():
    def case(t, indices):
        weight = t.ones(5, 1, requires_grad=True)
        bags = t.embedding_bag(weight, t.tensor(indices), t.tensor([0]), True, 0)
        bags[0].sum().backward()
        return weight.grad

    for indices in ([0, 0, 0, 1, 1, 1, 1, 2], [2, 2, 2, 2, 1, 0, 0], [3, 3, 1, 1, 1, 1, 1, 0], [0, 1, 2, 3, 3, 3]):
        agree(lambda t, indices=indices: case(t, indices))
