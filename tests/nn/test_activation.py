"""Activations and dropout: values and derivatives at edges, dtypes, forms, errors, modules."""

import ml_dtypes
import numpy as np
import pytest
import torch
import torch.nn.functional as TF
from oracle import check, check_error, host

import torchlike
import torchlike.nn.functional as F

NAN, INF = float("nan"), float("inf")
# Kinks of every activation, zeros of both signs, NaN and infinities.
EDGES = np.array([-INF, -8.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 2.5, 3.0, 6.0, 21.0, INF, NAN])
MATRIX = np.random.RandomState(0).standard_normal((3, 4))
PLAIN = """
relu6 leaky_relu elu selu celu gelu silu mish softplus softsign softshrink hardshrink tanhshrink hardtanh
hardsigmoid hardswish logsigmoid rrelu relu tanh sigmoid
""".split()
WITH_NUMBERS = [
    ("leaky_relu", (0.3,)),
    ("leaky_relu", (-2,)),
    ("elu", (1.5,)),
    ("celu", (0.5,)),
    ("softplus", (2, 1)),
    ("softplus", (0.5, 2.0)),
    ("softshrink", (0.3,)),
    ("hardshrink", (1,)),
    ("hardtanh", (-3, 0.3)),
    ("threshold", (0.3, 7)),
    ("rrelu", (0.3, 0.5)),
]
INPLACE = "relu relu6 leaky_relu elu selu celu silu mish hardtanh hardsigmoid hardswish".split()


def call(t, name):
    return getattr(t.nn.functional, name)


@pytest.mark.parametrize("name", PLAIN)
def test_values_and_derivatives_at_the_edges(name):
    check(lambda t, x: call(t, name)(x), EDGES, gradgrad=False)
    second = name != "hardsigmoid"  # which PyTorch has not
    check(lambda t, x: call(t, name)(x), EDGES[np.isfinite(EDGES)], gradgrad=second)


@pytest.mark.parametrize("name", PLAIN)
def test_strides_follow(name):
    check(lambda t, x: call(t, name)(x.t()), MATRIX, gradgrad=False, jit=False)


@pytest.mark.parametrize("name, numbers", WITH_NUMBERS)
def test_numbers(name, numbers):
    check(lambda t, x: call(t, name)(x, *numbers), EDGES[1:-2])


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_floating_dtypes(name, dtype):
    check(lambda t, x: call(t, name)(x), MATRIX.astype(dtype), gradgrad=False, jit=False)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("array", [np.arange(-2, 3), np.arange(3) > 1, MATRIX + 1j], ids=["int", "bool", "complex"])
def test_other_dtypes_behave_or_fail_alike(name, array):
    try:
        call(torch, name)(torch.from_numpy(array))
    except Exception:
        check_error(lambda t, x: call(t, name)(x), array)
    else:
        check(lambda t, x: call(t, name)(x), array, grad=name != "silu", gradgrad=False, jit=False)


@pytest.mark.parametrize("name", INPLACE)
def test_in_place(name):
    def f(t, x):
        y = x * 1
        alias = y.view(-1)
        out = call(t, name)(y, inplace=True)
        assert out is y
        return y, alias

    check(f, MATRIX, gradgrad=False, jit=False)


@pytest.mark.parametrize(
    "name", ["relu_", "selu_", "celu_", "rrelu_", "threshold_", "leaky_relu_", "elu_", "hardtanh_"]
)
def test_trailing_underscore(name):
    extra = (0.1, 3.0) if name == "threshold_" else ()
    check(lambda t, x: call(t, name)(x * 1, *extra), MATRIX, gradgrad=False, jit=False)


def test_reversed_bounds_in_place_give_the_upper_one():
    x = np.array([-3.0, 0.5, 3.0])
    check(lambda t, x: t.nn.functional.hardtanh_(x * 1, 2.0, 1.0), x, gradgrad=False, jit=False)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate):
    check(lambda t, x: t.nn.functional.gelu(x, approximate=approximate), MATRIX)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("shape, dim", [((3, 4), 0), ((3, 4), -1), ((2, 3, 4), 1), ((), 0), ((0, 3), 1), ((3, 0), 1)])
def test_softmax(name, shape, dim):
    check(lambda t, x: call(t, name)(x, dim), np.random.RandomState(1).standard_normal(shape))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_masked_and_large_rows(name):
    rows = np.array([[-INF, 0.0, 1.0], [-INF, -INF, -INF], [1e4, 1e4 - 1, -1e4], [NAN, 0, 1], [INF, 0, 0]])
    check(lambda t, x: call(t, name)(x, 1), rows, gradgrad=False)
    check(lambda t, x: call(t, name)(x, 1), rows[[0, 2]])


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_casts_before(name):
    check(lambda t, x: call(t, name)(x, 1, dtype=t.float64), MATRIX.astype(np.float16))
    check(lambda t, x: getattr(t, name)(x, 1, t.float32), np.arange(6).reshape(2, 3))
    check(lambda t, x: getattr(x, name)(-1), MATRIX.astype(np.float16), gradgrad=False)


@pytest.mark.parametrize(
    "f, match",
    [
        (lambda t, x: t.nn.functional.softmax(x, 2), r"Dimension out of range .*\[-2, 1\].* got 2"),
        (lambda t, x: t.softmax(x.long(), 1), "not implemented for 'Long'"),
        (lambda t, x: t.softmax(x), "dim"),
        (lambda t, x: t.nn.functional.softmax(x, "a"), "must be int"),
        (lambda t, x: t.nn.functional.hardtanh(x, 1, -1), "min_val cannot be greater"),
        (lambda t, x: t.nn.functional.celu(x, 0), "alpha cannot be 0"),
        (lambda t, x: t.nn.functional.rrelu(x, 2, 1, True), "Lower bound .* got 2 and 1"),
        (lambda t, x: t.nn.functional.glu(x[:, :3]), "must be even, but dimension 1 is size 3"),
        (lambda t, x: t.nn.functional.glu(x[0, 0]), "does not support scalars"),
        (lambda t, x: t.nn.functional.prelu(x, t.ones(3).double()), "numbers = 3 and channel size = 4"),
        (lambda t, x: t.nn.functional.prelu(x.float(), t.ones(1).double()), "Float and Double"),
        (lambda t, x: t.nn.functional.gelu(x, approximate="x"), "none or tanh, not 'x'"),
        (lambda t, x: t.nn.functional.gelu(x, "tanh"), "positional"),
        (lambda t, x: t.nn.functional.softshrink(x, -1), "lambda must be in range"),
        (lambda t, x: t.nn.functional.leaky_relu(x, "a"), "must be Number, not str"),
        (lambda t, x: t.nn.Hardtanh(1, -1), "max_val must be greater"),
        (lambda t, x: t.nn.Softmax2d()(x), "3D or 4D, got 2D"),
    ],
)
def test_errors(f, match):
    check_error(f, MATRIX, match=match)


def test_softmax_without_dim_warns_and_chooses_as_pytorch():
    for shape in [(), (3,), (2, 3), (2, 3, 4), (2, 1, 3, 4)]:
        x = np.random.RandomState(0).standard_normal(shape)
        with pytest.warns(UserWarning, match="Implicit dimension choice for softmax"):
            got = F.softmax(torchlike.tensor(x))
        with pytest.warns(UserWarning):
            np.testing.assert_allclose(host(got), TF.softmax(torch.tensor(x)).numpy())


@pytest.mark.parametrize("shape, n", [((2, 3), 1), ((2, 3), 3), ((2, 3, 4), 3), ((5,), 1), ((), 1)])
def test_prelu(shape, n):
    x = np.random.RandomState(2).standard_normal(shape)
    x.reshape(-1)[:1] = 0
    check(lambda t, x, w: t.nn.functional.prelu(x, w), x, np.linspace(0.1, 0.5, n))


@pytest.mark.parametrize("shape, dim", [((3, 4), -1), ((4, 3), 0), ((2, 0), 1)])
def test_glu(shape, dim):
    check(lambda t, x: t.nn.functional.glu(x, dim), np.random.RandomState(2).standard_normal(shape))


def test_gumbel_softmax():
    x = torchlike.zeros(2000, 3, requires_grad=True)
    hard = F.gumbel_softmax(x, tau=0.5, hard=True)
    assert set(host(hard).ravel()) <= {0.0, 1.0} and (host(hard).sum(-1) == 1).all()
    np.testing.assert_allclose(host(hard).mean(0), 1 / 3, atol=0.05)
    (hard[:, 0].sum()).backward()
    assert np.abs(host(x.grad)).sum() > 0
    soft = F.gumbel_softmax(x, tau=2.0)
    np.testing.assert_allclose(host(soft).sum(-1), 1, rtol=1e-5)


def test_rrelu_draws_slopes_in_training():
    x = torchlike.full((5000,), -1.0, requires_grad=True)
    y = F.rrelu(x, 0.2, 0.4, training=True)
    slopes = -host(y)
    assert 0.2 <= slopes.min() and slopes.max() <= 0.4 and abs(slopes.mean() - 0.3) < 0.005
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), slopes)
    assert type(y.grad_fn).__name__ == "RreluWithNoiseBackward0"


def test_node_names():
    x = {t: t.ones(2, 4).requires_grad_() for t in (torch, torchlike)}
    for name in [n for n in PLAIN if n not in ("softsign", "tanhshrink")] + ["glu"]:
        names = [type(call(t, name)(v).grad_fn).__name__ for t, v in x.items()]
        assert names[0] == names[1], name
    for name in ("softmax", "log_softmax"):
        assert (
            type(getattr(torchlike, name)(x[torchlike], 1).grad_fn).__name__
            == {
                "softmax": "SoftmaxBackward0",
                "log_softmax": "LogSoftmaxBackward0",
            }[name]
        )


# ----- dropout -----


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_mean(p):
    x = torchlike.ones(20000, requires_grad=True)
    y = F.dropout(x, p)
    values, counts = np.unique(host(y), return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / (1 - p)], rtol=1e-6)
    assert abs(counts[0] / 20000 - p) < 4 * (p * (1 - p) / 20000) ** 0.5
    y.sum().backward()
    np.testing.assert_array_equal(host(x.grad), host(y))


def test_dropout_passes_the_input_through():
    x = torchlike.ones(3)
    assert F.dropout(x, 0.5, training=False) is x and F.dropout(x, 0.0) is x
    assert torchlike.nn.Dropout(0.5).eval()(x) is x


def test_dropout_of_everything():
    check(lambda t, x: t.nn.functional.dropout(x, 1.0), np.array([1.0, -2.0, INF, NAN]))
    check(lambda t, x: t.nn.functional.alpha_dropout(x, 1.0, True), MATRIX)
    check(lambda t, x: t.nn.functional.dropout(x) * 2, np.zeros((0, 2)), stride=False)


@pytest.mark.parametrize("name", ["dropout", "dropout2d", "alpha_dropout", "feature_alpha_dropout"])
def test_dropout_of_nothing_draws_nothing(name):
    for t in (torch, torchlike):
        x, f = t.zeros(0, 2, 3, 4, requires_grad=True), getattr(t.nn.functional, name)
        before = t.get_rng_state()
        assert f(x, 0.5, True) is x and t.equal(t.get_rng_state(), before)


def test_dropout_in_place():
    x = torchlike.ones(1000, requires_grad=True)
    y = x * 1
    alias = y.view(10, 100)
    assert F.dropout(y, 0.5, inplace=True) is y
    np.testing.assert_array_equal(host(alias).ravel(), host(y))
    y.sum().backward()
    np.testing.assert_array_equal(host(x.grad), host(y))


@pytest.mark.parametrize(
    "name, n", [("dropout1d", 1), ("dropout2d", 2), ("dropout3d", 3), ("feature_alpha_dropout", 2)]
)
def test_whole_channels_are_dropped(name, n):
    shape = (64, 32) + (2,) * n
    y = host(getattr(F, name)(torchlike.ones(shape), 0.4, True)).reshape(64 * 32, -1)
    assert (y == y[:, :1]).all()
    assert abs((y[:, 0] == y[:, 0].min()).mean() - 0.4) < 0.05


@pytest.mark.parametrize("name, n", [("dropout1d", 1), ("dropout3d", 3)])
def test_channels_without_a_batch(name, n):
    y = host(getattr(F, name)(torchlike.ones((500,) + (2,) * n), 0.5)).reshape(500, -1)
    assert (y == y[:, :1]).all() and 150 < (y[:, 0] == 0).sum() < 350


def test_alpha_dropout_keeps_mean_and_variance():
    x = torchlike.randn(200000, requires_grad=True)
    y = F.alpha_dropout(x, 0.3, True)
    assert abs(host(y).mean()) < 0.02 and abs(host(y).std() - 1) < 0.02
    values = np.unique(host(F.alpha_dropout(torchlike.zeros(1000), 0.3, True)))
    reference = np.unique(TF.alpha_dropout(torch.zeros(1000), 0.3, True).numpy())
    np.testing.assert_allclose(values, reference, rtol=1e-5)
    assert type(y.grad_fn).__name__ == "AddBackward0"


def test_native_dropout():
    x = torchlike.ones(1000, requires_grad=True)
    y, mask = torchlike.native_dropout(x, 0.5, True)
    assert mask.dtype is torchlike.bool
    np.testing.assert_array_equal(host(y), host(mask) * 2.0)


@pytest.mark.parametrize(
    "f, match",
    [
        (lambda t, x: t.nn.functional.dropout(x, 1.5), "between 0 and 1, but got 1.5"),
        (lambda t, x: t.nn.functional.dropout2d(x, -0.1), "between 0 and 1"),
        (lambda t, x: t.nn.Dropout(2), "between 0 and 1, but got 2"),
        (lambda t, x: t.dropout(x, 1.5, True), "between 0 and 1"),
        (lambda t, x: t.nn.functional.dropout(x.long()), "Long"),
        (lambda t, x: t.nn.functional.dropout(x + 0j), "ComplexDouble"),
        (lambda t, x: t.nn.functional.dropout1d(x[0], 0.5), "received a 1D input"),
        (lambda t, x: t.nn.functional.dropout2d(x[0], 0.5), "at least 2 dimensions"),
        (lambda t, x: t.nn.functional.feature_alpha_dropout(x[0], 0.5, True), "at least 2 dimensions"),
    ],
)
def test_dropout_errors(f, match):
    check_error(f, MATRIX, match=match)


@pytest.mark.parametrize("name, shape", [("dropout2d", (2, 3)), ("dropout2d", (2, 3, 4)), ("dropout3d", (2, 3))])
def test_unusual_shapes_warn(name, shape):
    with pytest.warns(UserWarning, match=f"{name}: Received a {len(shape)}-?D input"):
        getattr(F, name)(torchlike.ones(shape))


MODULES = """
ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign Softshrink Hardshrink Tanhshrink Hardtanh
Hardsigmoid Hardswish PReLU RReLU GLU LogSigmoid Softmax Softmin LogSoftmax Softmax2d Threshold Sigmoid Tanh
Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout
""".split()


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    arguments = {"Threshold": (0.1, 20), "Softmax": (1,), "Softmin": (1,), "LogSoftmax": (1,)}.get(name, ())
    ours, theirs = getattr(torchlike.nn, name)(*arguments).eval(), getattr(torch.nn, name)(*arguments).eval()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    public = [{k: v for k, v in vars(m).items() if k[0] != "_"} for m in (ours, theirs)]
    assert public[0] == public[1]
    shape = (2, 4, 3) if name == "Dropout1d" else (2, 4, 3, 2)
    x = np.random.RandomState(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(
        host(ours(torchlike.tensor(x))), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["ReLU", "LeakyReLU", "ELU", "Hardtanh", "RReLU", "Mish", "Hardswish"])
def test_inplace_modules_say_so(name):
    assert repr(getattr(torchlike.nn, name)(inplace=True)) == repr(getattr(torch.nn, name)(inplace=True))


def test_out():
    for name in ("gelu", "softplus", "softshrink", "hardshrink", "logsigmoid"):
        check(
            lambda t, x, name=name: call(t, name)(x, out=t.empty(0, dtype=t.float64)),
            MATRIX,
            grad=False,
            jit=False,
        )
