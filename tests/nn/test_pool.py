"""Pooling, against PyTorch."""

import numpy as np
import pytest
import torch
from both import agree, agree_error
from layer_kit import layer, same_refusal
from oracle import check, check_error

import torchlike

rng = np.random.RandomState(0)
NAN, INF = np.nan, np.inf


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def f(name, *args, **options):
    return lambda t, x: getattr(t.nn.functional, name)(x, *args, **options)


TIES = np.array([[[1, 1, 2, 2], [1, 1, 2, 2], [0, 0, 3, 3], [0, 0, 3, 3]]], np.float64)
HOLES = np.array([[[NAN, 1, NAN, -INF], [2, 2, -INF, -INF], [NAN, NAN, INF, INF], [0, 1, 2, -INF]]])
ALL_LOW = np.full((1, 4, 4), -INF)
MAX = {
    "2": (f("max_pool2d", 2), r(2, 3, 6, 8)),
    "2, odd size": (f("max_pool2d", 2), r(2, 3, 7, 9)),
    "ceil": (f("max_pool2d", 2, ceil_mode=True), r(2, 3, 7, 9)),
    "overlap": (f("max_pool2d", 3, 2, 1), r(2, 3, 7, 9)),
    "overlap, ceil": (f("max_pool2d", 3, 2, 1, 1, True), r(2, 3, 8, 9)),
    "dilation": (f("max_pool2d", 2, 1, 0, 2), r(2, 3, 7, 9)),
    "gaps": (f("max_pool2d", 2, 3), r(2, 3, 8, 9)),
    "apart, padded": (f("max_pool2d", 2, padding=1), r(2, 3, 6, 7)),
    "uneven": (f("max_pool2d", (3, 1), stride=(2, 2), padding=(1, 0)), r(2, 3, 8, 9)),
    "large": (f("max_pool2d", 7, 7), r(1, 2, 14, 16)),
    "large, padded": (f("max_pool2d", 7, 7, 3), r(1, 2, 14, 16)),
    "large, overlap": (f("max_pool2d", 7, 3, 3), r(1, 2, 14, 16)),
    "ties": (f("max_pool2d", 2), TIES),
    "ties, overlap": (f("max_pool2d", 3, 1, 1), TIES),
    "ties, large": (f("max_pool2d", 4, 1, 2, ceil_mode=True), TIES),
    "unbatched": (f("max_pool2d", 2), r(3, 6, 8)),
    "empty batch": (f("max_pool2d", 2), r(0, 3, 6, 8)),
    "empty adaptive": (f("adaptive_max_pool1d", 3), r(0, 2, 7)),
    "1d": (f("max_pool1d", 3, 2), r(2, 3, 9)),
    "1d long": (f("max_pool1d", 40, 10), r(2, 3, 90)),
    "3d": (f("max_pool3d", 2, padding=1), r(1, 2, 4, 5, 3)),
    "with positions": (f("max_pool2d", 2, return_indices=True), r(2, 3, 6, 8)),
    "1d with positions": (f("max_pool1d", 3, 2, 1, return_indices=True), r(2, 3, 9)),
    "3d with positions": (f("max_pool3d_with_indices", 2, 1), r(1, 2, 4, 5, 3)),
    "float32": (f("max_pool2d", 2), r(2, 3, 6, 8, dtype=np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("case", MAX)
def test_max(case):
    check(*MAX[case])


@pytest.mark.parametrize("size", [(2,), (3, 1, 1), (2, 1, 1), (4,), (3, 2, 1, 1, True)])
@pytest.mark.parametrize("values", [TIES, HOLES, ALL_LOW], ids=["ties", "nan", "-inf"])
def test_positions_of_maxima(values, size):
    """The first maximum of a window, its last NaN."""
    check(f("max_pool2d", *size, return_indices=True), values, gradgrad=False)


@pytest.mark.parametrize("values", [TIES, HOLES, ALL_LOW], ids=["ties", "nan", "-inf"])
@pytest.mark.parametrize("size", [(2,), (3, 3, 1)])
def test_gradients_of_wide_pictures(values, size):
    """They are found by comparison: to the bit, with zeros of both signs."""
    wide, found = np.tile(values, (1, 2, 10)), {}
    for t in (torch, torchlike):
        x = t.tensor(wide, requires_grad=True)
        y = t.nn.functional.max_pool2d(x, *size)
        seeds = t.tensor(np.resize([1.5, -0.0, -2.0, NAN, 0.0], y.shape))
        found[t] = np.array(t.autograd.grad(y, x, seeds)[0].tolist())
    np.testing.assert_array_equal(found[torchlike], found[torch])
    np.testing.assert_array_equal(np.signbit(found[torchlike]), np.signbit(found[torch]))


@pytest.mark.parametrize("values", [HOLES, ALL_LOW], ids=["nan", "-inf"])
def test_positions_in_large_windows(values):
    wide = np.tile(values, (1, 3, 3))
    check(f("max_pool2d", 6, return_indices=True), wide, gradgrad=False)
    check(f("max_pool2d", 6, 3, 3, return_indices=True), wide, gradgrad=False)


def test_integers():
    check(f("max_pool2d", 2, 1, 1, return_indices=True), rng.randint(-9, 9, (2, 5, 5)))
    check(f("avg_pool2d", 2), rng.randint(-9, 9, (1, 2, 5, 5)))


MEAN = {
    "2": (f("avg_pool2d", 2), r(2, 3, 6, 8)),
    "overlap": (f("avg_pool2d", 3, 2, 1), r(2, 3, 7, 9)),
    "ceil": (f("avg_pool2d", 3, 2, 1, ceil_mode=True), r(2, 3, 7, 8)),
    "ceil, without pad": (f("avg_pool2d", 3, 2, 1, ceil_mode=True, count_include_pad=False), r(2, 3, 7, 8)),
    "divisor": (f("avg_pool2d", 2, divisor_override=3), r(2, 3, 6, 8)),
    "whole": (f("avg_pool2d", (6, 8)), r(2, 3, 6, 8)),
    "long": (f("avg_pool1d", 20, 5), r(2, 3, 60)),
    "unbatched": (f("avg_pool2d", 2), r(3, 6, 8)),
    "1d": (f("avg_pool1d", 3, 2, 1), r(2, 3, 9)),
    "3d": (f("avg_pool3d", 2, 1, 1, count_include_pad=False), r(1, 2, 4, 5, 3)),
    "float16": (f("avg_pool2d", 3), r(2, 3, 6, 8, dtype=np.float16)),
    "inf": (f("avg_pool2d", 2), np.array([[[1, INF, 2, NAN], [0, 0, 1, 1.0]]])),
}  # fmt: skip


@pytest.mark.parametrize("case", MEAN)
def test_mean(case):
    check(*MEAN[case], gradgrad=case not in ("float16", "inf"))


ADAPTIVE = {
    "1": (f("adaptive_avg_pool2d", 1), r(2, 3, 5, 7)),
    "divides": (f("adaptive_avg_pool2d", (2, 4)), r(2, 3, 6, 8)),
    "does not": (f("adaptive_avg_pool2d", (3, 5)), r(2, 3, 7, 8)),
    "larger": (f("adaptive_avg_pool2d", 9), r(2, 3, 5, 7)),
    "None": (f("adaptive_avg_pool2d", (None, 2)), r(2, 3, 5, 7)),
    "1d": (f("adaptive_avg_pool1d", 3), r(2, 3, 8)),
    "3d": (f("adaptive_avg_pool3d", (2, 1, 3)), r(1, 2, 4, 5, 7)),
    "unbatched": (f("adaptive_avg_pool2d", 3), r(3, 5, 7)),
    "whole": (f("adaptive_avg_pool3d", 1), r(1, 2, 4, 5, 7)),
    "max": (f("adaptive_max_pool2d", (3, 5), return_indices=True), r(2, 3, 7, 8)),
    "max 1d": (f("adaptive_max_pool1d", 3), r(2, 3, 8)),
    "max 3d": (f("adaptive_max_pool3d", 2), r(1, 2, 4, 5, 3)),
    "max, ties": (f("adaptive_max_pool2d", 3, return_indices=True), TIES),
}  # fmt: skip


@pytest.mark.parametrize("case", ADAPTIVE)
def test_adaptive(case):
    check(*ADAPTIVE[case])


def test_adaptive_to_nothing():
    check(f("adaptive_avg_pool2d", (0, 2)), r(1, 3, 5, 7), grad=False)


def test_adaptive_max_of_unusual_values():
    check(f("adaptive_max_pool2d", 3, return_indices=True), HOLES, gradgrad=False)


def test_mean_into_a_given_tensor():
    def run(t, x):
        out = t.zeros(0, dtype=t.float64)
        return t.nn.functional.avg_pool2d(x, 2, out=out), out

    check(run, r(1, 2, 4, 4), grad=False)


LP = {
    "2": (f("lp_pool2d", 2, 2), r(2, 3, 6, 8)),
    "1": (f("lp_pool1d", 1, 2), np.abs(r(2, 3, 6)) + 0.1),
    "3": (f("lp_pool1d", 3.0, 2, 1), np.abs(r(2, 3, 6)) + 0.1),
    "3d": (f("lp_pool3d", 2, 2), r(1, 2, 4, 4, 4)),
    "ceil": (f("lp_pool2d", 2, 3, ceil_mode=True), r(2, 3, 7, 8)),
}  # fmt: skip


@pytest.mark.parametrize("case", LP)
def test_lp(case):
    check(*LP[case])


def test_lp_of_zeros_has_no_gradient():
    check(f("lp_pool1d", 2, 2), np.zeros((1, 1, 4)), gradgrad=False)


def test_fractional_windows_that_fill_the_input():
    agree(lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 1, 4, 4), 3, output_size=2))
    agree_error(
        lambda t: t.nn.functional.fractional_max_pool3d(t.ones(1, 1, 4, 4, 4), 3, output_size=2), "pool .* 3 too large"
    )


def test_nothing_is_pooled():
    def run(t):
        F, none = t.nn.functional, t.zeros(0, 2, 3, 3, requires_grad=True)
        at = t.zeros(0, 2, 3, 3, dtype=t.int64)
        x = t.ones(1, 2, 5, 5, requires_grad=True)
        sizes = ((0, 1), (1, 0), (0, 0))
        empty = [F.fractional_max_pool2d(x, 2, output_size=size) for size in sizes]
        out = F.max_unpool2d(none, at, 2)
        return [*empty, out, *t.autograd.grad(out.sum(), none), *t.autograd.grad(empty[0].sum(), x)]

    agree(run)


def test_unpool():
    def there_and_back(t, x, n=2, **options):
        F = t.nn.functional
        top, at = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
        return getattr(F, f"max_unpool{n}d")(top, at, 2, **options)

    check(there_and_back, r(2, 3, 6, 8))
    check(lambda t, x: there_and_back(t, x, output_size=(7, 9)), r(2, 3, 7, 9))
    check(lambda t, x: there_and_back(t, x, 1), r(2, 3, 6))
    check(lambda t, x: there_and_back(t, x, 3), r(1, 2, 4, 4, 4))


AT = np.zeros((1, 1, 2, 2), np.int64)
BAD = {
    "pad": (f("max_pool2d", 2, padding=2), r(1, 1, 4, 4), "or equal to half of kernel size"),
    "pad of holes": (f("max_pool2d", 3, padding=2, dilation=2), r(1, 1, 8, 8), "or equal to half of kernel size"),
    "kernel": (f("max_pool2d", 0), r(1, 1, 4, 4), "greater than zero"),
    "stride": (f("max_pool2d", 2, 0), r(1, 1, 4, 4), "stride should not be zero"),
    "dilation": (f("max_pool2d", 2, dilation=0), r(1, 1, 4, 4), "dilation should be greater than zero"),
    "too large": (f("max_pool2d", 5), r(1, 1, 4, 4), "Output size is too small"),
    "rank": (f("max_pool2d", 2), r(4, 4), "Expected 3D or 4D"),
    "tuple": (f("max_pool2d", (2, 2, 2)), r(1, 1, 4, 4), "kernel_size must either be a single int"),
    "no channels": (f("max_pool2d", 2), r(2, 0, 0, 4), "Expected 3D or 4D"),
    "text": (f("max_pool2d", "a"), r(1, 1, 4, 4), "must be tuple of ints, not str"),
    "bool": (f("max_pool2d", 2), np.zeros((1, 1, 4, 4), bool), "not implemented for 'Bool'"),
    "avg divisor": (f("avg_pool2d", 2, divisor_override=0), r(1, 1, 4, 4), "divisor must be not zero"),
    "avg dtype": (f("avg_pool2d", 2), np.zeros((1, 1, 4, 4), np.uint8), "not implemented for 'Byte'"),
    "avg rank": (f("avg_pool1d", 2), r(4), "Expected 2 to 3 dimensions"),
    "adaptive size": (f("adaptive_avg_pool2d", (2, 2, 2)), r(1, 1, 4, 4), "output_size must be 2"),
    "adaptive negative": (f("adaptive_avg_pool2d", (-1, 2)), r(1, 1, 4, 4), "greater than or equal to 0"),
    "adaptive empty": (f("adaptive_avg_pool2d", 2), r(1, 1, 0, 4), "dimension 2 being empty"),
    "adaptive dtype": (
        f("adaptive_avg_pool2d", 2), np.zeros((1, 1, 4, 4), np.int64), "not implemented for 'Long'",
    ),
    "unpool range": (
        lambda t, x, i: t.nn.functional.max_unpool2d(x, i, 2), r(1, 1, 2, 2), AT + 20,
        "invalid max index: 20",
    ),
    "unpool shape": (
        lambda t, x, i: t.nn.functional.max_unpool2d(x, i, 2), r(1, 1, 2, 3), AT, "Expected shape of indices",
    ),
    "unpool size": (
        lambda t, x, i: t.nn.functional.max_unpool2d(x, i, 2, output_size=(6, 6)), r(1, 1, 2, 2), AT,
        "between 2 and 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    g, *arrays, match = BAD[case]
    check_error(g, *arrays, match=match)


X1, X2, X3 = (r(2, 4, *[8, 6, 7][:n], dtype=np.float32) for n in (1, 2, 3))
LAYERS = {
    "MaxPool1d": (lambda nn: nn.MaxPool1d(3, 2, 1, 1, True), X1),
    "MaxPool2d": (lambda nn: nn.MaxPool2d((2, 3), ceil_mode=True), X2),
    "MaxPool3d": (lambda nn: nn.MaxPool3d(2, return_indices=True), X3),
    "AvgPool1d": (lambda nn: nn.AvgPool1d(3, 2), X1),
    "AvgPool2d": (lambda nn: nn.AvgPool2d(2, divisor_override=3), X2),
    "AvgPool3d": (lambda nn: nn.AvgPool3d((2, 2, 1), padding=(1, 0, 0), count_include_pad=False), X3),
    "AdaptiveAvgPool1d": (lambda nn: nn.AdaptiveAvgPool1d(3), X1),
    "AdaptiveAvgPool2d": (lambda nn: nn.AdaptiveAvgPool2d((None, 4)), X2),
    "AdaptiveAvgPool3d": (lambda nn: nn.AdaptiveAvgPool3d(2), X3),
    "AdaptiveMaxPool1d": (lambda nn: nn.AdaptiveMaxPool1d(3), X1),
    "AdaptiveMaxPool2d": (lambda nn: nn.AdaptiveMaxPool2d(2, return_indices=True), X2),
    "AdaptiveMaxPool3d": (lambda nn: nn.AdaptiveMaxPool3d((1, None, 2)), X3),
    "LPPool1d": (lambda nn: nn.LPPool1d(2, 3), X1),
    "LPPool2d": (lambda nn: nn.LPPool2d(2, (2, 3), stride=1), X2),
    "LPPool3d": (lambda nn: nn.LPPool3d(2, 2), X3),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layer(case):
    layer(*LAYERS[case])


def test_unpool_layer():
    layer(
        lambda nn: nn.ModuleList([nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)]), X2,
        call=lambda m, x: m[1](*m[0](x), output_size=(8, 6)),
    )  # fmt: skip


def test_missing_kernel_size():
    same_refusal(lambda nn: nn.MaxPool2d(), "kernel_size")
