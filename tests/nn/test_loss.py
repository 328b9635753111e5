"""Losses and distances: values, gradients, reductions, targets of every kind, errors, modules."""

import warnings

import numpy as np
import pytest
import torch
from oracle import check, check_error, host

import torchlike
import torchlike.nn.functional as F

INF = float("inf")
RNG = np.random.RandomState(0)
X, Y = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4))
P, Q = RNG.uniform(0.05, 0.95, (3, 4)), RNG.uniform(0.05, 0.95, (3, 4))
W = RNG.uniform(0.1, 1, 4)
T = np.array([0, 3, 1])
SIGNS = np.where(RNG.standard_normal((3, 4)) > 0, 1.0, -1.0)
REDUCTIONS = ["none", "mean", "sum"]


def loss(name, *constants, **options):
    """``f(t, x)`` of a loss whose other tensors are constants."""

    def f(t, *xs):
        rest = [t.tensor(c) if isinstance(c, np.ndarray) else c for c in constants]
        kept = {k: t.tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        return getattr(t.nn.functional, name)(*xs, *rest, **kept)

    return f


def check_some(f, *arrays, reduction, gradgrad=True, **options):
    """:func:`check`, with the slow comparisons for one reduction only."""
    mean = reduction == "mean"
    check(f, *arrays, gradgrad=gradgrad and mean, jit=mean, **options)


# ----- classes -----


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, W])
def test_cross_entropy_with_indices(reduction, weight):
    check_some(loss("cross_entropy", T, weight, reduction=reduction), X, reduction=reduction)
    check_some(loss("cross_entropy", np.array([0, -100, 2]), weight, reduction=reduction), X, reduction=reduction)
    check(
        loss("cross_entropy", np.array([1, 0, 1]), weight, ignore_index=1, reduction=reduction),
        X,
        gradgrad=False,
    )
    check_some(loss("cross_entropy", T, weight, label_smoothing=0.2, reduction=reduction), X, reduction=reduction)
    check_some(
        loss("cross_entropy", np.array([0, -100, 2]), weight, label_smoothing=0.2, reduction=reduction),
        X,
        reduction=reduction,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_with_probabilities(reduction, smoothing):
    check_some(loss("cross_entropy", reduction=reduction, label_smoothing=smoothing), X, P, reduction=reduction)
    check_some(
        loss("cross_entropy", weight=W, reduction=reduction, label_smoothing=smoothing),
        X,
        P,
        reduction=reduction,
    )


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (2, 3, 2, 2), (2, 3, 1, 2, 2)])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_classes_of_other_shapes(name, shape):
    x = RNG.standard_normal(shape)
    target = RNG.randint(0, 3, shape[:1] + shape[2:] if len(shape) > 1 else ())
    for reduction in REDUCTIONS:
        check_some(loss(name, np.asarray(target), reduction=reduction), x, reduction=reduction)
    bytes_too = check_error if len(shape) > 2 else check
    bytes_too(loss(name, np.asarray(target).astype(np.uint8)), x)


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_classes_at_the_edges(name):
    for target in ([-100, -100, -100], [0, -100, -100]):
        for reduction in REDUCTIONS:
            check(loss(name, np.array(target), reduction=reduction), X, gradgrad=False, jit=False)
    check(loss(name, np.zeros(0, np.int64)), np.zeros((0, 3)), gradgrad=False)
    check(loss(name, np.zeros(0, np.int64), reduction="none"), np.zeros((0, 3)), gradgrad=False)
    edge = np.array([[1e4, 0.0, -1e4], [-INF, 0.0, 1.0], [0.0, 0.0, 0.0]])
    check(loss(name, np.array([0, 1, 2]), reduction="none"), edge, gradgrad=False)
    check(loss(name, np.array([2, 2, 0]), np.zeros(3)), edge[[0, 2, 2]], gradgrad=False)
    check(loss(name, T[:1]), X[:1], gradgrad=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_cross_entropy_dtypes(dtype):
    check(loss("cross_entropy", T), X.astype(dtype), gradgrad=False)
    check(loss("cross_entropy", T, label_smoothing=0.1), X.astype(dtype), gradgrad=False)
    check(loss("cross_entropy", P.astype(dtype)), X.astype(dtype), gradgrad=False)


@pytest.mark.parametrize("weight", [None, W, W.astype(np.float32)])
def test_cross_entropy_rounds_scores_before_they_meet_wider_probabilities(weight):
    scores, aims = (9 * RNG.standard_normal((64, 4))).astype(np.float32), RNG.uniform(0.05, 0.95, (64, 4))
    f = loss("cross_entropy", aims, weight=weight, reduction="none")
    theirs, ours = (f(t, t.tensor(scores)).numpy() for t in (torch, torchlike))
    assert ours.dtype == theirs.dtype == np.float64
    assert np.mean(ours == theirs) > 0.5  # the others by a last bit of the narrow ones


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weight", [None, W])
def test_nll_loss(reduction, weight):
    check_some(loss("nll_loss", T, weight, reduction=reduction), X, reduction=reduction)
    check_some(loss("nll_loss", np.array([0, 3, -100]), weight, reduction=reduction), X, reduction=reduction)


def test_linear_cross_entropy():
    check(lambda t, x, w, b: t.nn.functional.linear_cross_entropy(x, w, t.tensor(T), linear_bias=b),
          X, RNG.standard_normal((5, 4)), RNG.standard_normal(5))  # fmt: skip
    check(
        lambda t, x, w: t.nn.functional.linear_cross_entropy(
            x, w, t.tensor(np.zeros((3, 2), np.int64)), reduction="sum"
        ),
        X,
        RNG.standard_normal((5, 2, 4)),
    )


CLASS_ERRORS = [
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 5])), r"Target 5 is out of bounds\."),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, -1, 1])), r"Target -1 is out of bounds\."),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 5]), label_smoothing=0.1), "Target 5"),
    (lambda t, x: t.nn.functional.nll_loss(x, t.tensor([0, 4, 1])), r"Target 4 is out of bounds\."),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2]).int()), "Long or Byte, but got Int"),
    (
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1])),
        r"batch_size \(3\) to match target batch_size \(2\)",
    ),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([[0], [1], [2]])), "multi-target not supported"),
    (
        lambda t, x: t.nn.functional.cross_entropy(x[0], t.tensor([0, 1])),
        "must have size 1, but got target size: 2",
    ),
    (
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2]), t.ones(2).double()),
        "all 4 classes .*\\[2\\]",
    ),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2]), t.ones(4)), "Double but found Float"),
    (
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2]), reduction="foo"),
        "foo is not a valid value",
    ),
    (lambda t, x: t.nn.functional.cross_entropy(x, x, ignore_index=1), "ignore_index is not supported"),
    (lambda t, x: t.nn.functional.cross_entropy(x, t.ones(3, 4).long()), "floating point type .* got Long"),
    (
        lambda t, x: t.nn.functional.cross_entropy(x, t.tensor([0, 1, 2]), label_smoothing=2),
        "between 0.0 and 1.0. Got: 2",
    ),
    (lambda t, x: t.nn.functional.cross_entropy(x.long(), t.tensor([0, 1, 2])), "not implemented for 'Long'"),
    (lambda t, x: t.nn.functional.cross_entropy(x, [0, 1, 2]), "'target' .*must be Tensor, not list"),
    (lambda t, x: t.nn.functional.nll_loss(x[None, None], t.zeros(1, 3).long()), "spatial targets"),
    (
        lambda t, x: t.nn.functional.nll_loss(x[None], t.zeros(1, 3).long()),
        r"target size \[1, 4\], got \[1, 3\]",
    ),
    (lambda t, x: t.nn.functional.nll_loss(x[0, 0], t.tensor(0)), "1 or more dimensions"),
    (lambda t, x: t.nn.functional.linear_cross_entropy(x, x[:, :3], t.tensor([0, 1, 2])), "got 4 and 3"),
]


@pytest.mark.parametrize("f, match", CLASS_ERRORS)
def test_class_errors(f, match):
    check_error(f, X, match=match)


# ----- between tensors of one shape -----

PAIRS = [
    ("mse_loss", X, Y, {}),
    ("l1_loss", X, Y, {}),
    ("smooth_l1_loss", X, Y, {}),
    ("smooth_l1_loss", X, Y, {"beta": 0.3}),
    ("smooth_l1_loss", X, Y, {"beta": 0.0}),
    ("huber_loss", X, Y, {}),
    ("huber_loss", X, Y, {"delta": 0.3}),
    ("binary_cross_entropy", P, Q, {}),
    ("binary_cross_entropy_with_logits", X, Q, {}),
    ("kl_div", X, Q, {}),
    ("kl_div", X, Y, {"log_target": True}),
    ("poisson_nll_loss", X, P * 5, {}),
    ("poisson_nll_loss", P, P * 5, {"log_input": False, "full": True}),
    ("multilabel_soft_margin_loss", X, Q, {}),
]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name, a, b, options", PAIRS)
def test_pairs(name, a, b, options, reduction):
    check_some(loss(name, reduction=reduction, **options), a, b, reduction=reduction)


def test_kinks_and_ties():
    d = np.array([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0])
    for name, options in [
        ("l1_loss", {}),
        ("smooth_l1_loss", {}),
        ("huber_loss", {}),
        ("smooth_l1_loss", {"beta": 0.5}),
    ]:
        second = name == "l1_loss"  # of the others PyTorch's second derivatives jump where ours do, but at other ends
        check(loss(name, np.zeros(8), reduction="none", **options), d, gradgrad=second)
    check(loss("binary_cross_entropy", reduction="none"), np.array([0.0, 0.0, 1.0, 1.0, 0.3]),
          np.array([0.0, 1.0, 0.0, 1.0, 0.4]), gradgrad=False)  # fmt: skip
    check(loss("binary_cross_entropy_with_logits", reduction="none"), np.array([0.0, 1.0, -800.0, 800.0]),
          np.array([0.3, 1.0, 0.0, 0.5]))  # fmt: skip
    check(loss("kl_div", np.array([0.0, 0.5, 1.0]), reduction="none"), np.array([0.0, 1.0, 2.0]))
    check(
        loss("hinge_embedding_loss", np.array([1.0, -1, -1, 0, 5]), reduction="none"),
        np.array([0.3, 1, 2, 0.3, 0.3]),
    )
    check(
        loss("margin_ranking_loss", np.array([1.0, -1.0, 1.0]), reduction="none"),
        np.array([0.0, 1.0, 2.0]),
        np.array([0.0, 1.0, 5.0]),
    )
    check(
        loss("poisson_nll_loss", np.array([0.0, 1.0, 5.0]), full=True, reduction="none"),
        np.array([0.0, 1.0, 2.0]),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights(name, reduction):
    check(
        lambda t, x, y, w: getattr(t.nn.functional, name)(x, y, weight=w, reduction=reduction),
        X,
        Y,
        P,
        gradgrad=False,
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_weights(reduction):
    check_some(loss("binary_cross_entropy", Q, W, reduction=reduction), P, reduction=reduction)
    check_some(
        loss("binary_cross_entropy_with_logits", Q, W, pos_weight=W, reduction=reduction),
        X,
        reduction=reduction,
    )


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss"])
def test_mixed_dtypes_and_broadcasting(name):
    same = name != "huber_loss"  # whose backward PyTorch refuses for two dtypes
    check(loss(name, P), X.astype(np.float32), grad=same, gradgrad=False, tol=1e3)
    check(loss(name, P[:, :1].astype(np.float32), reduction="none"), X, grad=same, gradgrad=False, tol=1e3)
    check(loss(name), X.astype(np.float16), P.astype(np.float16), gradgrad=False)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins_of_pairs(reduction):
    check_some(loss("margin_ranking_loss", SIGNS, margin=0.3, reduction=reduction), X, Y, reduction=reduction)
    check_some(loss("hinge_embedding_loss", SIGNS, margin=0.7, reduction=reduction), X, reduction=reduction)
    check_some(loss("soft_margin_loss", SIGNS, reduction=reduction), X, reduction=reduction)
    check_some(loss("cosine_embedding_loss", SIGNS[:, 0], margin=0.2, reduction=reduction), X, Y, reduction=reduction)
    check_some(loss("cosine_embedding_loss", np.array(1.0), reduction=reduction), X[0], Y[0], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("options", [{}, {"p": 1.0, "swap": True}, {"p": INF}, {"p": 3.0, "margin": 0.5, "swap": True}])
def test_triplets(reduction, options):
    second = options.get("p", 2.0) not in (INF, 1.0)
    check(loss("triplet_margin_loss", reduction=reduction, **options), X, Y, X + 0.3 * Y, gradgrad=second)
    if not options:
        check_some(
            loss("triplet_margin_with_distance_loss", reduction=reduction, swap=True),
            X,
            Y,
            X + 0.3 * Y,
            reduction=reduction,
        )
        check_some(loss("triplet_margin_loss"), X[0], Y[0], P[0], reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("var", [P, P[:, :1], P[:, 0], P[:1]], ids=["full", "last 1", "without", "first 1"])
def test_gaussian_nll(reduction, var):
    check_some(loss("gaussian_nll_loss", reduction=reduction), X, Y, var, reduction=reduction)
    check(loss("gaussian_nll_loss", full=True, eps=0.5, reduction=reduction), X, Y, var, gradgrad=False)


def test_triplets_of_complex_vectors():
    check(loss("triplet_margin_loss"), X + 1j * Y, Y + 0j, P + 0j, gradgrad=False)


def test_gaussian_nll_numbers():
    check(loss("gaussian_nll_loss", Y, 0.7), X)
    check(
        loss("gaussian_nll_loss", reduction="none"),
        np.array([0.0, 1.0, 2.0]),
        np.array([0.0, 1.0, 5.0]),
        np.array([0.0, 1, 2]),
    )


# ----- margins over classes -----


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(reduction, p):
    check(loss("multi_margin_loss", T, p=p, reduction=reduction), X, gradgrad=False)
    check(loss("multi_margin_loss", T, p=p, margin=0.4, weight=W, reduction=reduction), X, gradgrad=False)
    check(loss("multi_margin_loss", np.array(1), p=p, reduction=reduction), X[0], gradgrad=False, jit=False)
    check(loss("multi_margin_loss", np.array([1]), p=p, reduction=reduction), X[0], gradgrad=False)
    check(
        loss("multi_margin_loss", np.array([0, 1]), p=p, reduction=reduction),
        np.array([[1.0, 0, 2], [0.5, 0, -1]]),
        gradgrad=False,
    )


def test_multilabel_margins_of_many_pairs():
    x, targets = np.random.RandomState(4).randn(60, 300), np.random.RandomState(5).randint(-1, 300, (60, 300))
    check(loss("multilabel_margin_loss", targets), x, gradgrad=False)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(reduction):
    targets = np.array([[0, 2, -1, 1], [3, 3, 0, -1], [-1, 0, 0, 0]])
    check(loss("multilabel_margin_loss", targets, reduction=reduction), X, gradgrad=False)
    check(loss("multilabel_margin_loss", targets[0], reduction=reduction), X[0], gradgrad=False)
    check_some(loss("multilabel_soft_margin_loss", Q, W, reduction=reduction), X, reduction=reduction)
    check_some(loss("multilabel_soft_margin_loss", reduction=reduction), X[0], Q[0], reduction=reduction)


# ----- alignments -----

CTC = [
    (np.array([[1, 2], [1, 1]]), (6, 6), (2, 2)),
    (np.array([[1, 2], [1, 1]]), (6, 4), (2, 1)),
    (np.array([[1, 2], [1, 1]]), (6, 2), (2, 2)),  # too short for a repeated label: infinite
    (np.array([[1, 2], [1, 1]]), (6, 0), (0, 0)),
    (np.array([1, 2, 2]), (6, 5), (2, 1)),  # end to end
    (np.zeros((2, 0), np.int64), (6, 5), (0, 0)),
]


@pytest.mark.parametrize("targets, inputs, lengths", CTC)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc(targets, inputs, lengths, reduction):
    scores = RNG.standard_normal((6, 2, 4))
    for zero in (False, True):
        f = loss("ctc_loss", targets, inputs, lengths, reduction=reduction, zero_infinity=zero)
        check(lambda t, x, f=f: f(t, x.log_softmax(-1)), scores, gradgrad=False, jit=False)


def test_ctc_of_targets_that_name_the_blank():
    scores = RNG.standard_normal((6, 2, 4))
    targets = np.array([[1, 0, 2], [0, 0, 3]])  # PyTorch's gradient of these is not that of its loss
    f = loss("ctc_loss", targets, (6, 6), (3, 3), reduction="none")
    check(lambda t, x: f(t, x.log_softmax(-1)), scores, grad=False, jit=False)


def test_ctc_of_one_sequence_and_other_blanks():
    scores = RNG.standard_normal((6, 4))
    for reduction in REDUCTIONS:
        check(
            loss("ctc_loss", np.array([1, 2]), (6,), (2,), reduction=reduction),
            scores,
            gradgrad=False,
            jit=False,
        )
    check(
        loss("ctc_loss", np.array([[1, 2]]), np.array([5]), np.array([2]), 3),
        scores[:, None],
        gradgrad=False,
        jit=False,
    )


# ----- errors, warnings, modules -----

ERRORS = [
    (lambda t, x: t.nn.functional.mse_loss(x, x[:2]), r"size of tensor a \(3\) must match .* b \(2\)"),
    (lambda t, x: t.nn.functional.mse_loss(x.long(), x.long()), "not implemented for 'Long'"),
    (lambda t, x: t.nn.functional.mse_loss(x, x, weight=x[0]), "same size"),
    (lambda t, x: t.nn.functional.l1_loss(x.long(), x.long()), "could not infer output dtype"),
    (lambda t, x: t.nn.functional.smooth_l1_loss(x, x, beta=-1), "negative values for beta, got -1"),
    (lambda t, x: t.nn.HuberLoss(delta=1j), "delta must be a float or int"),
    (lambda t, x: t.nn.functional.huber_loss(x, x, delta=0), "non-positive values for delta, got 0"),
    (lambda t, x: t.nn.functional.binary_cross_entropy(x, x), "between 0 and 1"),
    (lambda t, x: t.nn.functional.binary_cross_entropy(x.sigmoid(), x + 9), "between 0 and 1"),
    (lambda t, x: t.nn.functional.binary_cross_entropy(x, x[:2]), r"target size \(\[2, 4\]\)"),
    (
        lambda t, x: t.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid().float()),
        "Found dtype Float but expected Double",
    ),
    (
        lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x[:2]),
        "must be the same as input size",
    ),
    (
        lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x.long(), x),
        "not implemented for 'Long'",
    ),
    (lambda t, x: t.nn.functional.kl_div(x.long(), x), "Integral inputs"),
    (lambda t, x: t.nn.functional.poisson_nll_loss(x, x, reduction="x"), "x is not a valid value"),
    (lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, x), "negative entry"),
    (lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, -1.0), "negative entry"),
    (lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, x.abs()[:2]), "incorrect size"),
    (lambda t, x: t.nn.functional.gaussian_nll_loss(x, x, x.abs(), reduction="x"), "x is not valid"),
    (lambda t, x: t.nn.functional.margin_ranking_loss(x, x, x[0]), "same dimension but got sizes"),
    (lambda t, x: t.nn.functional.cosine_embedding_loss(x, x, x), "multi-target not supported"),
    (
        lambda t, x: t.nn.functional.cosine_embedding_loss(x, x[0], x[:, 0]),
        "1D target tensor expects 2D input tensors",
    ),
    (lambda t, x: t.nn.functional.triplet_margin_loss(x, x[0], x[0]), "anchor 2D, positive 1D"),
    (lambda t, x: t.nn.functional.triplet_margin_loss(x, x, x, margin=-1), "greater than 0, got -1"),
    (lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1, 9])), "target is out of range"),
    (lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1, 2]), p=3), "only p == 1 and p == 2"),
    (
        lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1])),
        r"target size \[3\], but got \[2\]",
    ),
    (lambda t, x: t.nn.functional.multi_margin_loss(x, t.tensor([0, 1, 2]), weight=x), "one-dimensional"),
    (lambda t, x: t.nn.functional.multilabel_margin_loss(x, t.full((3, 4), 7)), "out of range"),
    (lambda t, x: t.nn.functional.multilabel_margin_loss(x, t.zeros(3).long()), r"target size: \[3\]"),
    (lambda t, x: t.nn.functional.multilabel_margin_loss(x, x), "expected scalar type Long"),
    (
        lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2).long(), (4,), (2,)),
        "at most 3, but got value 4",
    ),
    (
        lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2).long(), (3,), (3,)),
        "at least 3 at dimension 1",
    ),
    (lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2).long(), (3, 3), (2,)), "size batch_size"),
    (
        lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2).long(), (3,), (2,), blank=4),
        "label range",
    ),
    (
        lambda t, x: t.nn.functional.ctc_loss(x[0], t.ones(2).long(), (1,), (2,)),
        "Expected 3-dimensional tensor, but got",
    ),
    (lambda t, x: t.nn.functional.ctc_loss(x[None, None], t.ones(1, 2).long(), (1,), (2,)), "3-dim.* got 4-dim"),
    (lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.ones(1, 2, 1).long(), (3,), (2,)), "Expected 1 to 2 dim"),
    (lambda t, x: t.nn.functional.ctc_loss(x[:, None], t.tensor(1), (3,), (2,)), "but got 0-dimensional"),
    (lambda t, x: t.nn.functional.ctc_loss(x[:0, None], t.ones(1, 2).long(), (0,), (2,)), "must not be empty"),
]


@pytest.mark.parametrize("f, match", ERRORS)
def test_errors(f, match):
    check_error(f, X, match=match)


def test_warnings():
    x, y = torchlike.tensor(X), torchlike.tensor(Y)
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(x, y[:, :1])
    with pytest.warns(UserWarning, match="size_average and reduce .* reduction='sum'"):
        F.mse_loss(x, y, size_average=False)
    with pytest.warns(UserWarning, match="'batchmean' divides"):
        F.kl_div(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.mse_loss(x, y), F.cross_entropy(x, y), F.kl_div(x, y, reduction="batchmean")


@pytest.mark.parametrize("flags", [
    {"size_average": False}, {"reduce": False}, {"size_average": True, "reduce": True}, {"size_average": 0},
    {"reduce": 0}, {"size_average": "", "reduce": 1},
])  # fmt: skip
def test_deprecated_flags(flags):
    check(loss("mse_loss", **flags), X, Y, gradgrad=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torchlike.nn.MSELoss(**flags).reduction == torch.nn.MSELoss(**flags).reduction


NODES = [
    *[(name, (a, b), options) for name, a, b, options in PAIRS],
    ("cross_entropy", (X, T), {}),
    ("cross_entropy", (X, P), {}),
    ("cross_entropy", (X, T), {"label_smoothing": 0.1}),
    ("nll_loss", (X, T), {}),
    ("hinge_embedding_loss", (X, SIGNS), {}),
    ("cosine_embedding_loss", (X, Y, SIGNS[:, 0]), {}),
    ("triplet_margin_loss", (X, Y, P), {}),
    ("multi_margin_loss", (X, T), {}),
    ("gaussian_nll_loss", (X, Y, P), {}),
]


@pytest.mark.parametrize("name, arrays, options", NODES)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_node_names(name, arrays, options, reduction):
    def node(t):
        x, *rest = [t.tensor(a) for a in arrays]
        out = getattr(t.nn.functional, name)(x.requires_grad_(), *rest, reduction=reduction, **options)
        return type(out.grad_fn).__name__

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert node(torchlike) == node(torch)


MODULES = {
    "MSELoss": (X, Y),
    "L1Loss": (X, Y),
    "SmoothL1Loss": (X, Y),
    "HuberLoss": (X, Y),
    "CrossEntropyLoss": (X, T),
    "NLLLoss": (X, T),
    "NLLLoss2d": (X, T),
    "BCELoss": (P, Q),
    "BCEWithLogitsLoss": (X, Q),
    "KLDivLoss": (X, Q),
    "CosineEmbeddingLoss": (X, Y, SIGNS[:, 0]),
    "MarginRankingLoss": (X, Y, SIGNS),
    "HingeEmbeddingLoss": (X, SIGNS),
    "TripletMarginLoss": (X, Y, P),
    "TripletMarginWithDistanceLoss": (X, Y, P),
    "SoftMarginLoss": (X, SIGNS),
    "MultiLabelMarginLoss": (X, np.zeros((3, 4), np.int64)),
    "MultiLabelSoftMarginLoss": (X, Q),
    "MultiMarginLoss": (X, T),
    "PoissonNLLLoss": (X, P),
    "GaussianNLLLoss": (X, Y, P),
    "CosineSimilarity": (X, Y),
    "PairwiseDistance": (X, Y),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = getattr(torchlike.nn, name)(), getattr(torch.nn, name)()
        got = ours(*map(torchlike.tensor, MODULES[name]))
        wanted = theirs(*map(torch.tensor, MODULES[name]))
    assert repr(ours) == repr(theirs) and list(ours.state_dict()) == list(theirs.state_dict())
    public = [{k: v for k, v in vars(m).items() if k[0] != "_"} for m in (ours, theirs)]
    assert public[0] == public[1]
    np.testing.assert_allclose(host(got), wanted.numpy(), rtol=1e-10)


def test_class_weights_are_buffers():
    for lib in (torch, torchlike):
        module = lib.nn.CrossEntropyLoss(weight=lib.ones(4))
        assert list(module.state_dict()) == ["weight"] and not list(module.parameters())
    assert list(torchlike.nn.BCEWithLogitsLoss(pos_weight=torchlike.ones(1)).state_dict()) == ["pos_weight"]


def test_ctc_refuses_labels_that_are_no_classes():
    """PyTorch reads what lies beside the scores."""
    scores, lengths = torchlike.zeros(6, 2, 4).log_softmax(-1), ([6, 6], [2, 1])
    padded = torchlike.nn.functional.ctc_loss(scores, torchlike.tensor([[1, 2], [3, -1]]), *lengths)
    assert padded == torchlike.nn.functional.ctc_loss(scores, torchlike.tensor([[1, 2], [3, 0]]), *lengths)
    for label in (4, -1):
        with pytest.raises(RuntimeError, match=rf"Expected targets to be labels in \[0, 4\), but got {label}"):
            torchlike.nn.functional.ctc_loss(scores, torchlike.tensor([[1, label], [3, 0]]), *lengths)


def test_ctc_module():
    scores = RNG.standard_normal((6, 2, 4))
    arguments = np.array([[1, 2], [1, 1]]), (6, 6), (2, 2)
    got = torchlike.nn.CTCLoss()(
        torchlike.tensor(scores).log_softmax(-1), torchlike.tensor(arguments[0]), *arguments[1:]
    )
    wanted = torch.nn.CTCLoss()(torch.tensor(scores).log_softmax(-1), torch.tensor(arguments[0]), *arguments[1:])
    np.testing.assert_allclose(host(got), wanted.numpy())
