"""Fractional pooling, adaptive softmax, conv_tbc, gradients of convolutions and other rare parts of torch.nn."""

import copy

import pytest
import torch.nn.grad  # noqa: F401  (PyTorch imports it for nobody)
from both import agree, agree_error
from story_kit import said, story, warned

import torchlike


def ramp(t, *shape, dtype=None):
    """Values that do not repeat and are in no order."""
    n = t.Size(shape).numel()
    return (((t.arange(n) * 37) % (2 * n + 1)).to(dtype or t.float64) / 7 - 2).reshape(shape)


# -- fractional max pooling --------------------------------------------------------------------------

SAMPLES = {2: [[[0.3, 0.8], [0.1, 0.6]], [[0.9, 0.0], [0.5, 0.99]]], 3: [[[0.3, 0.8, 0.1], [0.9, 0.2, 0.6]]] * 2}
SIZES = {2: (7, 6), 3: (5, 6, 7)}
FRACTIONAL = [
    (2, 2, (3, 2)), (2, (3, 2), 3), (2, 2, 1), (2, 1, (7, 6)), (2, (7, 6), 1), (3, 2, (2, 3, 4)), (3, (1, 3, 2), 2),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n, kernel, out", FRACTIONAL)
def test_fractional_max_pool(n, kernel, out, dtype):
    def run(t):
        pool = getattr(t.nn.functional, f"fractional_max_pool{n}d")
        kind = getattr(t, dtype)
        s = t.tensor(SAMPLES[n], dtype=kind)
        x = ramp(t, 2, 2, *SIZES[n], dtype=kind).requires_grad_()
        y, i = pool(x, kernel, output_size=out, return_indices=True, _random_samples=s)
        (y * y).sum().backward()
        one = pool(x.detach()[0], kernel, output_size=out, _random_samples=s[:1])
        return y, i, x.grad, y.grad_fn, y.grad_fn._saved_output_size, one

    agree(run)


@story
def test_fractional_layers(t):
    s = t.tensor(SAMPLES[2])
    x = ramp(t, 2, 2, *SIZES[2], dtype=t.float32)
    out = []
    for args in ({"output_size": 3}, {"output_ratio": 0.5}, {"output_ratio": (0.5, 0.4), "return_indices": True}):
        m = t.nn.FractionalMaxPool2d(2, _random_samples=s, **args)
        out += [m(x), repr(m), list(m.state_dict()), m.kernel_size, m.output_size, m.output_ratio]
    drawn = t.nn.FractionalMaxPool3d(2, output_ratio=0.5)
    shapes = drawn(ramp(t, 2, 3, 4, 5, 6)).shape, drawn(ramp(t, 3, 4, 5, 6)).shape
    return out, shapes, repr(copy.deepcopy(drawn)), t.nn.FractionalMaxPool2d(2, output_size=2)(x[:0]).shape


@story
def test_fractional_ties(t):
    s = t.tensor(SAMPLES[2])[:1, :1]
    bad = [t.full((1, 1, 4, 4), v) for v in (float("nan"), float("-inf"), 0.0)]
    mixed = t.tensor([[[[1.0, float("nan"), 3, 3], [2, 2, 3, 3], [0, 0, 1, 1], [0, 5, 1, float("nan")]]]])
    pool = t.nn.functional.fractional_max_pool2d_with_indices
    return [pool(x, 2, output_size=2, _random_samples=s) for x in (*bad, mixed)]


def test_fractional_pooling_draws_anew_and_compiles():
    m = torchlike.nn.FractionalMaxPool2d(2, output_size=4)
    x = ramp(torchlike, 1, 4, 16, 16)
    torchlike.manual_seed(0)
    first, second = m(x).tolist(), m(x).tolist()
    torchlike.manual_seed(0)
    assert first != second and m(x).tolist() == first
    f = torchlike.compile(lambda x: m(x), fullgraph=True)
    assert f(x).shape == (1, 4, 4, 4) and f(x).tolist() != f(x).tolist()


def pool2(t, **kwargs):
    x = kwargs.pop("x", None)
    kwargs.setdefault("kernel_size", 2)
    return t.nn.functional.fractional_max_pool2d(ramp(t, 1, 2, 6, 6) if x is None else x, **kwargs)


POOLING_ERRORS = {
    "nothing": (lambda t: t.nn.FractionalMaxPool2d(2), "either an output size, or a pooling ratio"),
    "both": (lambda t: t.nn.FractionalMaxPool3d(2, output_size=3, output_ratio=0.5), "only one of output_size and"),
    "ratio": (lambda t: t.nn.FractionalMaxPool2d(2, output_ratio=1.5), r"between 0 and 1 \(got 1.5\)"),
    "ratios": (lambda t: t.nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 1.5)), r"got \(0.5, 0.5, 1.5\)"),
    "function": (lambda t: pool2(t), "either an output_size or an output_ratio"),
    "a float": (lambda t: pool2(t, output_ratio=0.5), "float"),
    "kernel": (lambda t: pool2(t, kernel_size=5, output_size=3), "pool height 5 too large relative to input height 6"),
    "output": (lambda t: pool2(t, output_size=(3, 7)), "pool width 2 too large relative to input width 6"),
    "samples": (lambda t: pool2(t, output_size=3, _random_samples=t.rand(1, 1, 2).double()), "equals to input channel"),
    "samples' size": (lambda t: pool2(t, output_size=3, _random_samples=t.rand(1, 2, 3).double()), "to 2; got 3"),
    "samples' rank": (lambda t: pool2(t, output_size=3, _random_samples=t.rand(2, 2).double()), "have 3 dimensions"),
    "samples' type": (lambda t: pool2(t, output_size=3, _random_samples=t.rand(1, 2, 2)), "same dtype as input"),
    "empty": (lambda t: pool2(t, output_size=3, x=t.ones(1, 2, 0, 6)), "non-zero size for non-batch dimensions"),
    "rank": (lambda t: pool2(t, output_size=3, x=t.ones(6, 6)), "out of range"),
    "three": (lambda t: pool2(t, kernel_size=(2, 2, 2), output_size=3), "either be a single Int or tuple of Ints"),
}  # fmt: skip


@pytest.mark.parametrize("case", POOLING_ERRORS)
def test_pooling_errors(case):
    agree_error(*POOLING_ERRORS[case])


# -- convolutions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pad", [0, 1, 3])
def test_conv_tbc(pad):
    def run(t):
        x, w, b = (ramp(t, *s).requires_grad_() for s in ((4, 2, 3), (2, 3, 5), (5,)))
        y = t.nn.functional.conv_tbc(x, w, b, pad)
        (y * y).sum().backward()
        return y, y.grad_fn, y.grad_fn._saved_pad, x.grad, w.grad, b.grad, t.conv_tbc(x, w, b, pad=pad).shape

    agree(run)


TBC_ERRORS = {
    "Input must have 3 dims": [(4, 2), (2, 3, 2), (2,)],
    "Weight tensor must have 3 dims": [(4, 2, 3), (3, 2), (2,)],
    "is not == dim 1 in the weight tensor": [(4, 2, 3), (2, 4, 2), (2,)],
    "Bias size must equal dim 2": [(4, 2, 3), (2, 3, 2), (3,)],
    "Bias must be 1-D": [(4, 2, 3), (2, 3, 2), (1, 2)],
    "negative dimension -2": [(4, 2, 3), (7, 3, 2), (2,)],
}


@pytest.mark.parametrize("match", TBC_ERRORS)
def test_conv_tbc_errors(match):
    agree_error(lambda t: t.conv_tbc(*[t.ones(s) for s in TBC_ERRORS[match]]), match)


CONVOLUTIONS = [
    {}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"stride": 2, "padding": 1, "groups": 2}, {"groups": 4},
]  # fmt: skip


@pytest.mark.parametrize("kwargs", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions(n, kwargs):
    def run(t):
        x = ramp(t, 2, 4, *[6] * n).requires_grad_()
        w = ramp(t, 4, 4 // kwargs.get("groups", 1), *[2] * n).requires_grad_()
        y = getattr(t.nn.functional, f"conv{n}d")(x, w, **kwargs)
        g = ramp(t, *y.shape).requires_grad_()
        of_input = getattr(t.nn.grad, f"conv{n}d_input")(x.shape, w, g, **kwargs)
        of_weight = getattr(t.nn.grad, f"conv{n}d_weight")(x, w.shape, g, **kwargs)
        plain = t.autograd.grad(y, (x, w), g, retain_graph=True)
        same = [t.allclose(a, b) for a, b in zip(plain, (of_input, of_weight), strict=True)]
        return of_input, of_weight, same, t.autograd.grad(of_input.sum() + of_weight.sum(), (x, w, g))

    agree(run)


GRAD_ERRORS = {
    "None": (lambda t: t.nn.grad.conv2d_input(None, t.ones(3, 2, 2, 2), t.ones(1, 3, 4, 4)), "must be tuple of ints"),
    "rank": (lambda t: t.nn.grad.conv1d_input([2, 9], t.ones(3, 2, 2), t.ones(1, 3, 4)), "Expected 3-dimensional"),
    "size": (lambda t: t.nn.grad.conv2d_input([1, 2, 5, 5], t.ones(3, 2, 2, 2), t.ones(1, 3, 9, 9)), r"\[2\] == 4 but"),
    "of weight": (lambda t: t.nn.grad.conv2d_weight(t.ones(1, 2, 5, 5), (3, 2, 2, 2), t.ones(1, 3, 9, 9)), "== 4 but"),
}  # fmt: skip


@pytest.mark.parametrize("case", GRAD_ERRORS)
def test_errors_of_gradients(case):
    agree_error(*GRAD_ERRORS[case])


# -- losses ------------------------------------------------------------------------------------------


def adaptive(t, **kwargs):
    m = t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0, dtype=t.float64, **kwargs)
    with t.no_grad():
        for p in m.parameters():
            p.copy_(ramp(t, *p.shape) / 10)
    return m


@pytest.mark.parametrize("targets", [[0, 4, 5, 9, 10, 19], [1, 2], [12, 19, 3], 7, 2])
def test_adaptive_softmax(targets):
    def run(t):
        m = adaptive(t, head_bias=True)
        y = t.tensor(targets)
        x = ramp(t, *y.shape, 8).requires_grad_()
        output, loss = m(x, y)
        loss.backward()
        rows = x.detach().reshape(-1, 8)
        return (
            output, loss, x.grad, [(n, p.grad) for n, p in m.named_parameters()], repr(m), list(m.state_dict()),
            m.log_prob(rows), m.predict(rows), m.cutoffs, m.shortlist_size, m.head_size, type(m(x, y)).__name__,
        )  # fmt: skip

    agree(run)


SOFTMAX_ERRORS = {
    "twice": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 5]), "unique, positive integers sorted"),
    "order": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 5]), "unique, positive integers sorted"),
    "large": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 20]), "between 1 and n_classes-1"),
    "zero": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [0, 5]), "between 1 and n_classes-1"),
    "float": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5.5]), "unique, positive integers"),
    "none": (lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(8, 20, []), "of length larger than 0"),
    "range": (lambda t: adaptive(t)(ramp(t, 2, 8), t.tensor([1, 20])), r"in \[0, 19\], but values in range \[1, 20\]"),
    "below": (lambda t: adaptive(t)(ramp(t, 2, 8), t.tensor([1, -1])), r"values in range \[-1, 1\] were found"),
    "batch": (lambda t: adaptive(t)(ramp(t, 3, 8), t.tensor([1, 2])), "same size in the batch dimension"),
    "targets": (lambda t: adaptive(t)(ramp(t, 3, 8), t.ones(3, 8).long()), "multi-target not supported"),
    "one": (lambda t: adaptive(t)(ramp(t, 3, 8), t.tensor(6)), "0D target tensor expects 1D input tensors"),
    "features": (lambda t: adaptive(t)(ramp(t, 2, 7), t.tensor([1, 2])), "mat1 and mat2 shapes cannot be multiplied"),
}  # fmt: skip


@pytest.mark.parametrize("case", SOFTMAX_ERRORS)
def test_errors_of_adaptive_softmax(case):
    agree_error(*SOFTMAX_ERRORS[case])


LOSSES = [
    {}, {"bias": True}, {"reduction": "none"}, {"out_features": (2,), "bias": True}, {"label_smoothing": 0.2},
    {"ignore_index": 2}, {"weight": [1.0, 2.0, 3.0, 4.0, 5.0]},
]  # fmt: skip


@pytest.mark.parametrize("kwargs", LOSSES, ids=str)
def test_linear_cross_entropy_loss(kwargs):
    def run(t):
        given = {**kwargs, "dtype": t.float64}
        if "weight" in given:
            given["weight"] = t.tensor(given["weight"], dtype=t.float64)
        m = t.nn.LinearCrossEntropyLoss(4, 5, **given)
        with t.no_grad():
            for p in m.parameters():
                p.copy_(ramp(t, *p.shape) / 5)
        y = t.tensor([1, 2, 3])
        y = y if not m.out_features else t.stack([y, y + 1], 1)
        loss = m(ramp(t, 3, 4), y)
        loss.sum().backward()
        return loss, [p.grad for p in m.parameters()], repr(m), m.state_dict(), m.__constants__

    agree(run)


@story
def test_options_of_linear_cross_entropy(t):
    make = t.nn.LinearCrossEntropyOptions
    methods = ["aspect_ratio", "aspect_ratio:2", "aspect_ratio:01"]
    wrong = [
        *({"chunking_method": f"aspect_ratio:{n}"} for n in ("", "0", "-1", "1.5", "2:3")),
        {"chunking_method": "x"},
        {"acc_policy": None},
        {"batch_chunk_size": -1},
        {"acc_dtype": t.int64},
    ]
    loss = t.nn.LinearCrossEntropyLoss(4, 5, options=make(acc_policy="accurate"))
    with t.no_grad():
        loss.linear.weight.copy_(ramp(t, 5, 4))
    return (
        repr(make(acc_dtype=t.float64)), [repr(make(chunking_method=m)) for m in methods], make() == make(),
        [said(lambda w=w: make(**w)) for w in wrong], repr(loss),
        loss(ramp(t, 3, 4, dtype=t.float32), t.tensor([1, 2, 3])),
        said(lambda: t.nn.LinearCrossEntropyLoss(4, 5, weight=t.ones(4))),
    )  # fmt: skip


@story
def test_factory_kwargs_and_containers(t):
    f = t.nn.factory_kwargs
    inner = {"factory_kwargs": {"device": "cpu"}}
    return (
        f(None), f({"device": "cpu"}), f({**inner, "dtype": t.float64}), said(lambda: f({"foo": 1})),
        said(lambda: f({**inner, "device": "cpu"})), warned(lambda: t.nn.Container(a=t.nn.ReLU())),
        repr(t.nn.Container(a=t.nn.ReLU(), b=t.nn.Linear(1, 1))),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64"])
def test_autocast(kind):
    def run(t):
        def ones(*shape):
            return t.ones(shape, dtype=getattr(t, kind))

        with t.autocast("cpu", dtype=t.bfloat16):
            found = (
                t.nn.functional.fractional_max_pool2d(ones(1, 4, 4), 2, output_size=2), t.norm_except_dim(ones(2, 2)),
                t.conv_tbc(ones(4, 2, 3), ones(2, 3, 2), ones(2)), t._weight_norm(ones(2, 2), ones(2, 1)),
                *t.geqrf(ones(2, 2)), *t._weight_norm_interface(ones(2, 2), ones(2, 1)),
            )  # fmt: skip
        return [x.dtype for x in found]

    agree(run)
