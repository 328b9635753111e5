"""Convolutions, functions and layers, against PyTorch."""

import contextlib
import math
import warnings

import numpy as np
import pytest
from layer_kit import layer, same_refusal
from oracle import check, check_error
from story_kit import said, story

import torchlike

rng = np.random.RandomState(0)


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def conv(n, **options):
    return lambda t, x, w, *b: getattr(t.nn.functional, f"conv{n}d")(x, w, *b, **options)


def transposed(n, **options):
    return lambda t, x, w, *b: getattr(t.nn.functional, f"conv_transpose{n}d")(x, w, *b, **options)


IMAGE, KERNEL = r(2, 4, 7, 6), r(6, 4, 3, 2)

FORWARD = {
    "plain": (conv(2), IMAGE, KERNEL, r(6)),
    "no bias": (conv(2), IMAGE, KERNEL),
    "stride": (conv(2, stride=(2, 3)), IMAGE, KERNEL, r(6)),
    "padding": (conv(2, padding=(2, 1)), IMAGE, KERNEL),
    "dilation": (conv(2, dilation=(2, 1)), IMAGE, KERNEL),
    "everything": (conv(2, stride=2, padding=1, dilation=2, groups=2), IMAGE, r(6, 2, 3, 2), r(6)),
    "depthwise": (conv(2, groups=4), IMAGE, r(8, 1, 3, 3), r(8)),
    "many groups": (conv(2, groups=10, stride=2), r(2, 20, 5, 4), r(30, 2, 3, 2), r(30)),
    "t many groups": (transposed(2, groups=10, stride=2), r(2, 20, 3, 2), r(20, 3, 3, 2), r(30)),
    "t depthwise": (transposed(2, groups=4, stride=2, output_padding=1), IMAGE, r(4, 1, 3, 2)),
    "t dilation": (transposed(2, dilation=3, output_padding=(2, 1)), IMAGE, r(4, 2, 3, 2)),
    "lists": (conv(2, stride=[2], padding=[1, 0], dilation=[1]), IMAGE, KERNEL),
    "same": (conv(2, padding="same"), IMAGE, KERNEL),
    "same, dilated": (conv(2, padding="same", dilation=(2, 3)), IMAGE, KERNEL),
    "valid": (conv(2, padding="valid", stride=2), IMAGE, KERNEL),
    "unbatched": (conv(2), r(4, 7, 6), KERNEL, r(6)),
    "empty batch": (conv(2), r(0, 4, 7, 6), KERNEL, r(6)),
    "whole image": (conv(2), IMAGE, r(3, 4, 7, 6)),
    "1d": (conv(1, stride=2, padding=1), r(2, 3, 9), r(5, 3, 4), r(5)),
    "1d same": (conv(1, padding="same"), r(2, 3, 9), r(5, 3, 4), r(5)),
    "1d unbatched": (conv(1), r(3, 9), r(5, 3, 4)),
    "3d": (conv(3, padding=(1, 0, 1), stride=(1, 2, 1)), r(1, 2, 4, 5, 3), r(3, 2, 2, 3, 2), r(3)),
    "t plain": (transposed(2), IMAGE, r(4, 6, 3, 2), r(6)),
    "t stride": (transposed(2, stride=(2, 3), output_padding=(1, 2)), IMAGE, r(4, 6, 3, 2)),
    "t everything": (
        transposed(2, stride=2, padding=1, dilation=2, groups=2, output_padding=1), IMAGE, r(4, 3, 3, 2),
        r(6),
    ),
    "t padding": (transposed(2, padding=2), IMAGE, r(4, 6, 3, 3)),
    "t 1d": (transposed(1, stride=3), r(2, 3, 5), r(3, 4, 2), r(4)),
    "t unbatched": (transposed(1, stride=3), r(3, 5), r(3, 4, 2)),
    "t 3d": (transposed(3, stride=2), r(1, 2, 2, 3, 2), r(2, 3, 2, 2, 2), r(3)),
}  # fmt: skip


@pytest.mark.parametrize("case", FORWARD)
def test_convolution(case):
    f, *arrays = FORWARD[case]
    check(f, *arrays, stride=case != "t 1d")


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.int64])
def test_dtypes(dtype):
    check(conv(2), IMAGE.astype(dtype), KERNEL.astype(dtype), gradgrad=False, tol=5)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_integers(groups):
    x, w = rng.randint(-9, 9, (2, 4, 5, 3)), rng.randint(-9, 9, (4, 3, 3, 2))
    check(transposed(2, stride=(2, 1), padding=1, dilation=2, output_padding=1, groups=groups), x, w)


def test_unusual_values():
    x = IMAGE.copy()
    x[0, 0, 2, 2], x[1, 3, 4, 4] = np.nan, np.inf
    check(conv(2), x, KERNEL, grad=False)


def test_input_that_is_a_view():
    check(
        lambda t, x, w: t.nn.functional.conv2d(x.transpose(2, 3)[..., ::2], w),
        r(2, 4, 12, 7),
        KERNEL,
        stride=False,
    )


BAD = {
    "channels": (conv(2), IMAGE, r(6, 3, 3, 2), "expected input.* to have 3 channels, but got 4"),
    "groups": (conv(2, groups=3), IMAGE, KERNEL, "to have 12 channels"),
    "few outputs": (conv(2, groups=4), IMAGE, r(2, 1, 3, 3), "at least 4 at dimension 0"),
    "odd outputs": (conv(2, groups=2), IMAGE, r(3, 2, 3, 3), "divisible by 2 at dimension 0"),
    "rank": (conv(2), r(2, 2), KERNEL, r"Expected 3D \(unbatched\) or 4D \(batched\) input to conv2d"),
    "kernel": (
        conv(2), IMAGE, r(6, 4, 9, 2), r"padded input size per channel: \(7 x 6\). Kernel size: \(9 x 2\)",
    ),
    "dtype": (conv(2), IMAGE, KERNEL.astype("f"), "expected scalar type Double but found Float"),
    "bias dtype": (conv(2), IMAGE, KERNEL, r(6).astype("f"), "bias type.*should be the same"),
    "bias": (conv(2), IMAGE, KERNEL, r(5), "1-dimensional with 6 elements"),
    "stride": (conv(2, stride=0), IMAGE, KERNEL, "non-positive stride"),
    "strides": (conv(2, stride=(1, 1, 1)), IMAGE, KERNEL, "expected stride to be .* list of 2 values"),
    "padding": (conv(2, padding=-1), IMAGE, KERNEL, "negative padding"),
    "dilation": (conv(2, dilation=0), IMAGE, KERNEL, "dilation should be greater than zero"),
    "padding name": (conv(2, padding="some"), IMAGE, KERNEL, "Invalid padding string: 'some'"),
    "same, stride": (conv(2, padding="same", stride=2), IMAGE, KERNEL, "not supported for strided"),
    "output_padding": (
        transposed(2, output_padding=1), IMAGE, r(4, 6, 3, 2), "output padding must be smaller",
    ),
    "t channels": (transposed(2), IMAGE, r(3, 6, 3, 2), "Given transposed=1, .*to have 3 channels, but got 4"),
    "t bias": (transposed(2), IMAGE, r(4, 6, 3, 2), r(5), "Given transposed=1, weight .*with 6 elements"),
    "t padding": (transposed(2, padding=(1, 1, 0, 0)), IMAGE, r(4, 6, 3, 2), "expected padding to be .* 2 values"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    f, *arrays, match = BAD[case]
    check_error(f, *arrays, match=match)


X1, X2, X3 = (r(2, 4, *[6, 5, 7][:n], dtype=np.float32) for n in (1, 2, 3))
LAYERS = {
    "Conv1d": (lambda nn: nn.Conv1d(4, 6, 3, stride=2, padding=1), X1),
    "Conv2d": (lambda nn: nn.Conv2d(4, 6, (3, 2), padding=(1, 0), groups=2, bias=False), X2),
    "Conv3d": (lambda nn: nn.Conv3d(4, 2, 2, dilation=2), X3),
    "same": (lambda nn: nn.Conv2d(4, 6, 3, padding="same"), X2),
    "reflect": (lambda nn: nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"), X2),
    "replicate": (lambda nn: nn.Conv1d(4, 6, 3, padding=2, padding_mode="replicate"), X1),
    "circular": (lambda nn: nn.Conv2d(4, 6, (3, 4), padding="same", padding_mode="circular"), X2),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(4, 6, 3, stride=2, output_padding=1), X1),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, groups=2), X2),
    "ConvTranspose3d": (lambda nn: nn.ConvTranspose3d(4, 2, 2, stride=2, dilation=2), X3),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layer(case):
    layer(*LAYERS[case], tol=2)


def test_chosen_output_size():
    make = lambda nn: nn.ConvTranspose2d(4, 2, 3, stride=2)  # noqa: E731
    layer(make, X2, call=lambda m, x: m(x, output_size=[14, 12]), tol=2)
    layer(make, X2, call=lambda m, x: m(x, output_size=(2, 2, 13, 11)), tol=2)


BAD_LAYERS = {
    "in_channels": (lambda nn: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible"),
    "out_channels": (lambda nn: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible"),
    "groups": (lambda nn: nn.Conv2d(4, 3, 3, groups=0), "positive"),
    "padding": (lambda nn: nn.Conv2d(4, 3, 3, padding="some"), "Invalid padding string 'some'"),
    "stride": (lambda nn: nn.Conv2d(4, 3, 3, padding="same", stride=2), "strided"),
    "mode": (lambda nn: nn.Conv2d(4, 3, 3, padding_mode="some"), "padding_mode must be one of"),
    "t mode": (lambda nn: nn.ConvTranspose2d(4, 3, 3, padding_mode="reflect"), "zeros"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_layer_refuses(case):
    same_refusal(*BAD_LAYERS[case])


def test_output_size_refused():
    check_error(
        lambda t, x: t.nn.ConvTranspose2d(4, 2, 3, stride=2)(x, output_size=(90, 1)),
        X2,
        match="valid sizes range",
    )
    check_error(lambda t, x: t.nn.ConvTranspose2d(4, 2, 3)(x, output_size=(1,)), X2, match="must have 2 or 4 elements")


def test_parameters_start_as_in_pytorch():
    """Uniform in +-1 / sqrt(fan in), the fan of one output channel of one group."""
    m = torchlike.nn.Conv2d(8, 64, 3, groups=2)
    bound = 1 / np.sqrt(4 * 9)
    for p in m.parameters():
        values = p.detach().numpy()
        assert abs(values).max() <= bound and abs(values).max() > 0.8 * bound
        assert abs(values.mean()) < 0.1 and abs(values.std() - bound / np.sqrt(3)) < 0.02


def _nothing(t, shape, weight, bias=12, **options):
    """A convolution of what has no elements, with its gradients."""
    x, w, b = (t.ones(s, requires_grad=True) for s in (shape, weight, (bias,)))
    name = f"conv{'_transpose' if options.pop('transposed', False) else ''}{len(shape) - 2}d"
    y = getattr(t.nn.functional, name)(x, w, b, **options)
    y.backward(t.ones_like(y))
    return y.detach(), x.grad, w.grad, b.grad


@story
def test_no_channels_in_none_out(t):
    """PyTorch's result has no channels, whatever the weight says."""
    return (
        _nothing(t, (2, 0, 7), (12, 0, 3)), _nothing(t, (2, 0, 7, 7), (12, 0, 3, 3), stride=2, padding=1),
        _nothing(t, (2, 0, 4, 4, 4), (12, 0, 3, 3, 3)), _nothing(t, (0, 0, 7, 7), (12, 0, 3, 3)),
        _nothing(t, (2, 0, 7, 7), (12, 0, 3, 3), groups=3), _nothing(t, (2, 0, 0, 7), (12, 0, 3, 3), padding=2),
        _nothing(t, (0, 6, 0, 7), (12, 6, 3, 3), padding=2), _nothing(t, (0, 6, 5), (6, 12, 3), transposed=True),
        said(lambda: _nothing(t, (2, 0, 5), (0, 12, 3), transposed=True), "at least 1 at dimension 0"),
        said(lambda: _nothing(t, (2, 6, 0, 7), (12, 6, 3, 3), padding=2), "zero batch or zero channel inputs"),
        said(lambda: _nothing(t, (2, 6, 0), (6, 12, 3), transposed=True), "zero batch or zero channel inputs"),
        t.nn.Conv2d(0, 4, 2)(t.ones(2, 0, 3, 3)), t.nn.functional.conv2d(t.ones(0, 3, 3), t.ones(4, 0, 2, 2)),
        t.nn.functional.conv2d(t.ones(2, 0, 3, 3, device="meta"), t.ones(4, 0, 2, 2, device="meta")).shape,
    )  # fmt: skip


def _backend(t, n, shape=(2, 6), weight=None, *, device="cpu", dilation=1, transposed=False, groups=1, **rest):
    x = t.ones((*shape, *(5,) * n)[: n + 2], device=device)
    w = t.ones(weight or (6, 12 // groups, *(3,) * n) if transposed else (12, shape[1] // groups, *(3,) * n))
    given = {"stride": (1,) * n, "padding": (0,) * n, "dilation": (dilation,) * n, "output_padding": (0,) * n, **rest}
    bias = given.pop("bias", None)
    return t._C._select_conv_backend(x, w, bias, transposed=transposed, groups=groups, **given).name


@story
def test_kernel_that_pytorch_takes(t):
    """As a PyTorch without oneDNN and NNPACK answers."""
    mkldnn = t.backends.mkldnn.flags(enabled=False) if t.__name__ == "torch" else contextlib.nullcontext()
    nnpack = t.backends.nnpack.flags(enabled=False) if t.__name__ == "torch" else contextlib.nullcontext()
    with warnings.catch_warnings(), mkldnn, nnpack:
        warnings.simplefilter("ignore")
        forms = [{}, {"dilation": 2}, {"transposed": True}, {"transposed": True, "dilation": 2}, {"groups": 3}]
        found = [_backend(t, n, **form) for n in (1, 2, 3) for form in forms]
        empty = [_backend(t, n, shape) for n in (1, 2, 3) for shape in ((0, 6), (2, 0), (0, 0))]
        meta = [_backend(t, n, device="meta", **form) for n in (1, 2, 3) for form in forms]
        odd = ({"groups": -1}, {"stride": (0, 1)}, {"stride": (1, 1, 1)}, {"padding": (-1, 0)}, {"bias": t.ones(11)})
        wrong = [said(lambda o=o: _backend(t, 2, **o), "groups|stride|padding|bias to be 1-dim.* 12") for o in odd]
        wrong.append(said(lambda: _backend(t, 4), "unsupported ConvNd parameters"))
        mixed = _backend(t, 2, dilation=1, bias_sizes=[12]), _backend(t, 2, bias=t.ones(12))
    members = t._C._ConvBackend.__members__
    kinds = {name: int(kind) for name, kind in members.items() if "MpsT" not in name}  # PyTorch's has a comma
    return found, empty, meta, wrong, mixed, kinds, repr(members["Slow2d"]), str(members["Slow3d"])


@pytest.mark.parametrize("absent", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_double_backward(absent):
    @story
    def run(t):
        def numbers(*shape):
            return t.linspace(-2, 3, math.prod(shape), dtype=t.double).reshape(shape).cos()

        found = []
        for transposed, x, w, b, out in (
            (False, (2, 4, 5, 6), (4, 2, 3, 2), (4,), (2, 4, 3, 3)), (True, (2, 2, 3), (2, 3, 2), (6,), (2, 6, 5)),
        ):  # fmt: skip
            n = len(x) - 2
            wanted = [None if i in absent else numbers(*s) for i, s in enumerate((x, w, b))]
            static = (2,) * n, (1,) * n, (1, 2)[:n], transposed, (int(transposed),) * n, 2
            run = t.ops.aten._convolution_double_backward
            found.append(run(*wanted, numbers(*out), numbers(*w), numbers(*x), *static, [True] * 3))
        return found

    run()
