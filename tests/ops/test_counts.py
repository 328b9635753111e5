"""histogram, histogramdd, hash_tensor and segment_reduce against PyTorch."""

import math

import pytest
from both import agree, agree_error
from story_kit import story

import torchlike


def points(t):
    return t.tensor([1.0, 2, 2, 3, 0, 5]), t.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [2.0, 1.0]])


@story
def test_histogram(t):
    x, _ = points(t)
    h = t.histogram
    return (
        h(x), h(x, 4), h(x, 4, range=(0.0, 4.0)), h(x, t.tensor([0.0, 2.0, 5.0])), h(x, 4, density=True),
        x.histogram(3),
        h(x, 4, weight=x), h(t.ones(3), 2), h(t.ones(0), 2), h(x, 2, range=(2.0, 2.0)), h(x.reshape(2, 3).double(), 5),
        h(t.tensor([1.0, float("nan")]), 2, range=(0.0, 2.0)), type(h(x, 2)).__name__, h(x, 2).bin_edges,
        h(x, 2, out=(t.empty(0), t.empty(0))), type(h(x, 2, out=(t.empty(0), t.empty(0)))).__name__,
    )  # fmt: skip


@story
def test_histogramdd(t):
    _, y = points(t)
    h = t.histogramdd
    return (
        h(y, [2, 3]), h(y, 2), h(y, (t.tensor([0.0, 1.0, 2.0]), t.tensor([0.0, 2.0]))), h(y.reshape(2, 2, 2), 2),
        h(y, [2, 3], density=True, weight=t.tensor([1.0, 2.0, 3.0, 4.0])), h(y, [2, 2], range=[0.0, 1.0, 0.0, 2.0]),
        type(h(y, 2)).__name__, type(h(y, 2).bin_edges).__name__, h(t.ones(0, 2), 2).hist,
        h(t.ones(3, 0), []), h(t.ones(0, 0), 2),
    )  # fmt: skip


@story
def test_hash_tensor(t):
    x, _ = points(t)
    kinds = [
        x,
        x.double(),
        x.int(),
        x.half(),
        x > 1,
        t.tensor([-1, 5], dtype=t.int8),
        t.tensor([250, 3], dtype=t.uint8),
    ]
    dims = [
        t.hash_tensor(x.reshape(2, 3), dim=1, keepdim=True),
        x.hash_tensor(dim=[]),
        t.hash_tensor(x.reshape(2, 3), 0),
    ]
    return [str(t.hash_tensor(k).tolist()) for k in kinds], [str(d.tolist()) for d in dims], str(dims[0].dtype)


SPECIAL = [
    [1.0, math.nan, 3.0, 4.0, 5.0, 5.0, 0.0, -0.0], [math.nan, math.nan, 0.0, 1.0, 2.0, 2.0, math.inf, 0.0],
    [0.0, 0.0, math.nan, 2.0, -0.0, 3.0, -math.inf, 2.0], [2.0, 0.0, 0.0, 3.0, math.nan, 0.0, 1.0, math.nan],
]  # fmt: skip


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_of_zeros_and_nan(reduce):
    def run(t):
        found = []
        for initial in (None, 2, math.nan):
            d = t.tensor(SPECIAL, dtype=t.float64, requires_grad=True)
            lengths = t.tensor([[1, 2, 3, 0]] * 4)
            out = t.segment_reduce(d, reduce, lengths=lengths, axis=1, unsafe=True, initial=initial)
            found += [out, *t.autograd.grad(out, d, t.full_like(out, 1.5))]
        return found

    agree(run)


def test_ties_of_segments_share_negative_gradients_too():
    x = torchlike.tensor([1.0, 1.0, 2.0], requires_grad=True)
    torchlike.segment_reduce(x, "min", lengths=torchlike.tensor([3])).backward(torchlike.tensor([-2.0]))
    assert x.grad.tolist() == [-1, -1, 0]


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segment_reduce(reduce):
    def run(t):
        d = t.tensor([1.0, 2.0, 3.0, 2.0, 5.0], dtype=t.float64, requires_grad=True)
        s = t.segment_reduce
        many = s(t.stack([d, d]), reduce, lengths=t.tensor([[2, 0, 3], [1, 3, 1]]), axis=1, initial=2)
        zeros = s(t.tensor([2.0, 2.0, 0.0, 3.0], dtype=t.float64) * d[:4], reduce, lengths=t.tensor([2, 2]))
        return (
            s(d, reduce, lengths=t.tensor([2, 0, 3])), s(d, reduce, offsets=t.tensor([0, 2, 2, 5])), many,
            s(d, reduce, lengths=t.tensor([2, 0, 3]), initial=4), s(d, reduce, lengths=t.tensor([2, 1]), unsafe=True),
            s(t.ones(3, 2), reduce, lengths=t.tensor([1, 2])), s(t.ones(0), reduce, lengths=t.tensor([0])),
            t.autograd.grad((many * many).sum(), d), t.autograd.grad(zeros.sum(), d),
        )  # fmt: skip

    agree(run)


ERRORS = [
    (lambda t, x: t.histogram(x.int(), 2), "histogramdd"),
    (lambda t, x: t.histogram(x, x[:0]), "bins tensor should have at least 1 element, but got 0"),
    (lambda t, x: t.histogram(x, 0), "bins must be > 0, but got 0 for dimension 0"),
    (lambda t, x: t.histogram(x, 2, range=(3.0, 1.0)), "min should not exceed max, but got min 3 max 1"),
    (lambda t, x: t.histogram(x, 2, range=(3.0,)), "range should have 2 elements, but got 1"),
    (lambda t, x: t.histogram(x, 2, weight=t.ones(2)), "should have the same shape as the input tensor"),
    (lambda t, x: t.histogram(x, 2, weight=x.double()), r"got input\(float\), and weight\(double\)"),
    (lambda t, x: t.histogram(x, t.ones(2, 2)), "should have one dimension, but got 2 dimensions"),
    (lambda t, x: t.histogram(x, t.ones(3).double()), "bins for dimension 0 with dtype double"),
    (lambda t, x: t.histogram(x / 0, 2), "range .* is not finite"),
    (lambda t, x: t.histogramdd(x, 2), "at least 2 dimensions"),
    (lambda t, x: t.histogramdd(x.reshape(3, 2), [2]), "size of bins must be equal to the innermost dimension"),
    (lambda t, x: t.histogramdd(x.reshape(3, 2), [2, 2], range=[0.0, 1.0]), "range should have 4 elements, but got 2"),
    (lambda t, x: t.hash_tensor(x, mode=1), "Unknown hash_tensor mode: 1"),
    (lambda t, x: t.hash_tensor(x[:0]), "Expected reduction dim to be specified"),
    (lambda t, x: t.hash_tensor(t.ones(0, 3), dim=0), "Expected reduction dim 0 to have non-zero size"),
    (lambda t, x: t.hash_tensor(x + 0j), "xor_sum_cpu"),
    (lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([2])), "Expected all rows of lengths along axis"),
    (lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([-1, 7])), "negative value"),
    (lambda t, x: t.segment_reduce(x, "foo", lengths=t.tensor([6])), "reduce argument must be .* got foo"),
    (lambda t, x: t.segment_reduce(x, "max"), "Either lengths or offsets must be defined"),
    (lambda t, x: t.segment_reduce(x, "max", indices=t.tensor([0])), "indices based reduction is not supported yet"),
    (lambda t, x: t.segment_reduce(x.int(), "max", lengths=t.tensor([6])), "_segment_reduce_cpu"),
    (lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([6.0])), "_segment_reduce_lengths_cpu_kernel1"),
    (lambda t, x: t.segment_reduce(x, "max", lengths=t.tensor([6]), axis=1), "Dimension out of range"),
]


@pytest.mark.parametrize("n", range(len(ERRORS)))
def test_errors(n):
    f, match = ERRORS[n]
    agree_error(lambda t: f(t, points(t)[0]), match)


def test_a_histogram_has_no_gradient():
    x = torchlike.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for aten::histogram is not implemented"):
        torchlike.histogram(x, 2).hist.sum().backward()


@story
def test_operators_below_the_layers(t):
    x = t.arange(12.0, dtype=t.float64).reshape(2, 6).sin()
    w, mean, var = t.linspace(0.5, 2.0, 6, dtype=t.float64), t.zeros(6).double(), t.ones(6).double()
    first = t.native_batch_norm(x, w, w, mean, var, True, 0.1, 1e-3)
    second = t._native_batch_norm_legit(x, w, w, True, 0.1, 1e-3)
    mask, i = t.tensor([[True, False], [True, True]]), [t.tensor([[0], [9]]), t.tensor([[1, 7]])]
    soft = t.softmax(x, 1)
    return (
        first, second, mean, var, t.native_layer_norm(x, [6], w, None, 1e-3),
        t.native_group_norm(x, w, w, 2, 6, 1, 3, 1e-3),
        t._softmax_backward_data(x, soft, 1, t.float64), t._softmax(x, 1, False), t._safe_softmax(x, 1),
        t._unsafe_masked_index(x, mask, i, 7.0),
        t._unsafe_masked_index_put_accumulate(x, mask, i, t.ones(2, 2).double()),
        t._chunk_cat([x, x[:, :5]], 1, 4), t._chunk_cat([x, x[:1]], 0, 3), t.nuclear_norm(x),
        t.nuclear_norm(x[None], (1, 2), True),
        t.frobenius_norm(x, (0, 1)), t.frobenius_norm(x, 1, True), t._is_all_true(mask), t._is_any_true(mask),
        t.ops.aten._upsample_bilinear2d_aa(x.reshape(1, 1, 3, 4), [2, 2], False),
        t.ops.aten._upsample_bilinear2d_aa.vec(x.reshape(1, 1, 3, 4), None, True, [0.7, 0.9]),
        t.ops.aten.native_dropout_backward(x, x > 0, 2.0),
    )  # fmt: skip


BELOW = [
    (lambda t, x: t._chunk_cat([], 0, 2), "non-empty"),
    (lambda t, x: t._chunk_cat([x], 0, 0), "positive num_chunks"),
    (lambda t, x: t._chunk_cat([x, x.double()], 0, 1), "same dtype"),
    (lambda t, x: t._chunk_cat([x[:0]], 0, 1), "non-empty tensor"),
    (lambda t, x: t._chunk_cat([x.reshape(2, 3), x.reshape(3, 2)], 1, 1), "same sizes"),
    (lambda t, x: t.nuclear_norm(x), "2 dimensions"),
    (lambda t, x: t.frobenius_norm(x.reshape(1, 2, 3), (0, 1, 2)), "Expected at most 2 dimensions, but got 3"),
]


@pytest.mark.parametrize("n", range(len(BELOW)))
def test_errors_below_the_layers(n):
    f, match = BELOW[n]
    agree_error(lambda t: f(t, points(t)[0]), match)


@story
def test_complex_gradients_of_a_transposed_convolution(t):
    x = (t.arange(8.0, dtype=t.float64).sin() + 1j * t.arange(8.0).double().cos()).reshape(1, 2, 4).requires_grad_()
    w = (t.arange(12.0, dtype=t.float64).cos() + 2j * t.arange(12.0).double().sin()).reshape(2, 3, 2).requires_grad_()
    out = t.nn.functional.conv_transpose1d(x, w)
    return t.autograd.grad((out * out.detach()).sum().real, [x, w])


@story
def test_gradients_of_an_empty_product(t):
    a, b = t.ones(2, 3, 0, requires_grad=True), t.ones(0, 4, requires_grad=True)
    return t.autograd.grad((a @ b).sum(), [a, b])


@story
def test_histc_rounds_each_step(t):
    x = (t.arange(200.0).sin() * 8).bfloat16()
    return t.histc(x, 100), t.histc(x, 30, -5, 5), t.histc(x.half(), 100), t.histc(x.double(), 37)


@story
def test_losses_by_the_number_of_their_reduction(t):
    x, y = t.tensor([[0.5, -1.0, 2.0], [0.1, 0.3, -0.7]]), t.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    return (
        [t.kl_div(x, y, r) for r in (0, 1, 2)], t.kl_div(x, y), t.kl_div(x, y, log_target=True),
        [t.binary_cross_entropy_with_logits(x, y, None, y, r) for r in (0, 1, 2)],
        [t.poisson_nll_loss(x, y, True, False, 1e-8, r) for r in (0, 1, 2)],
        t.native_channel_shuffle(t.arange(8.0).reshape(1, 4, 2), 2),
    )  # fmt: skip


def test_a_reduction_is_a_number():
    agree_error(lambda t: t.kl_div(t.ones(2), t.ones(2), "mean"), "'reduction'.* must be int, not str")


@story
def test_losses_without_a_reduction(t):
    """None of torch's own reduces by default, as their Python signatures have it."""
    x, y = t.tensor([[0.5, -1.0, 2.0], [0.1, 0.3, -0.7]]), t.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    log = x.reshape(2, 1, 3).log_softmax(2)
    return (
        t.kl_div(x, y), t.binary_cross_entropy_with_logits(x, y), t.hinge_embedding_loss(x, y.sign()),
        t.cosine_embedding_loss(x, y, t.ones(2)), t.margin_ranking_loss(x, x, y), t.triplet_margin_loss(x, x, y),
        t.ctc_loss(log, t.tensor([[1]]), t.tensor([2]), t.tensor([1])),
    )  # fmt: skip
