"""Normalisation, against PyTorch."""

import copy

import numpy as np
import pytest
import torch
from both import agree_error
from layer_kit import layer, pair, same_refusal
from oracle import assert_same, check, check_error, host, to_ours, to_torch
from story_kit import said, story

import torchlike

rng = np.random.RandomState(0)
NAN = np.nan


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def F(name, *args, **options):
    """The function with tensors first: x, then weight and bias by name."""

    def run(t, x, *parameters):
        named = dict(zip(("weight", "bias"), parameters, strict=False))
        return getattr(t.nn.functional, name)(x, *args, **named, **options)

    return run


def with_stats(training):
    def run(t, x, mean, var, *parameters):
        named = dict(zip(("weight", "bias"), parameters, strict=False))
        return t.nn.functional.batch_norm(x, mean.detach(), var.detach(), training=training, momentum=0.3, **named)

    return run


X = r(4, 6, 5)
NORMS = {
    "batch": (F("batch_norm", None, None, training=True), X),
    "batch affine": (F("batch_norm", None, None, training=True), X, r(6), r(6)),
    "batch weight": (F("batch_norm", None, None, training=True, eps=0.1), X, r(6)),
    "batch 2d": (F("batch_norm", None, None, training=True), r(4, 6), r(6), r(6)),
    "batch 4d": (F("batch_norm", None, None, training=True), r(4, 6, 2, 3), r(6), r(6)),
    "batch constant": (F("batch_norm", None, None, training=True), np.ones((4, 6)), r(6), r(6)),
    "batch stats": (with_stats(True), X, r(6), np.abs(r(6)) + 1, r(6), r(6)),
    "batch eval": (with_stats(False), X, r(6), np.abs(r(6)) + 1, r(6), r(6)),
    "batch eval plain": (with_stats(False), X, r(6), np.abs(r(6)) + 1),
    "batch eval empty": (with_stats(False), r(0, 6), r(6), np.abs(r(6)) + 1),
    "instance": (F("instance_norm"), X),
    "instance affine": (F("instance_norm"), r(4, 6, 2, 3), r(6), r(6)),
    "layer": (F("layer_norm", (5,)), X),
    "layer affine": (F("layer_norm", (6, 5)), X, r(6, 5), r(6, 5)),
    "layer list": (F("layer_norm", [5]), X, r(5)),
    "layer constant": (F("layer_norm", (5,)), np.ones((3, 5)), r(5), r(5)),
    "layer 1d": (F("layer_norm", (5,), eps=0.1), r(5), r(5), r(5)),
    "layer empty": (F("layer_norm", (5,)), r(0, 5), r(5), r(5)),
    "layer no features": (F("layer_norm", (0,)), r(2, 0)),
    "group": (F("group_norm", 3), X),
    "group affine": (F("group_norm", 2), r(4, 6, 2, 3), r(6), r(6)),
    "group of one": (F("group_norm", 6), X, r(6), r(6)),
    "group 2d": (F("group_norm", 2), r(4, 6), r(6)),
    "rms": (F("rms_norm", (5,)), X),
    "rms affine": (F("rms_norm", (6, 5), eps=0.1), X, r(6, 5)),
    "rms zeros": (F("rms_norm", (5,)), np.zeros((2, 5)), r(5)),
    "rms complex": (F("rms_norm", (5,)), X + 1j * r(4, 6, 5), r(5) + 1j * r(5)),
    "response integers": (F("local_response_norm", 3), rng.randint(-9, 9, (2, 6, 3))),
    "response": (F("local_response_norm", 3), X),
    "response even": (F("local_response_norm", 4, alpha=0.5, beta=0.6, k=2.0), r(2, 6, 2, 3)),
    "normalize": (F("normalize"), X),
    "normalize zeros": (F("normalize", dim=-1), np.array([[0, 0, 0], [3, 0, 4.0]])),
    "normalize p": (F("normalize", p=3.0, dim=2), X),
    "normalize 1": (F("normalize", p=1.0, dim=(0, 1)), X),
    "normalize inf": (F("normalize", p=float("inf")), X),
}  # fmt: skip


@pytest.mark.parametrize("case", NORMS)
def test_norm(case):
    check(*NORMS[case], stride=False, gradgrad=case not in ("normalize zeros",))


@pytest.mark.parametrize(
    "name, args",
    [("batch_norm", (None, None)), ("layer_norm", ((5,),)), ("group_norm", (2,)), ("rms_norm", ((5,),))],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_short_dtypes(name, args, dtype):
    options = {"training": True} if name == "batch_norm" else {}
    n = 5 if args == ((5,),) else 6
    check(
        F(name, *args, **options),
        r(4, 6, 5, dtype=dtype),
        r(n, dtype=np.float32),
        grad=dtype != np.float16,
        gradgrad=False,
        tol=3,
        stride=False,
    )


def test_nan_stays_in_its_row():
    x = r(3, 5)
    x[1, 2] = NAN
    check(F("layer_norm", (5,)), x, r(5), gradgrad=False)


def test_running_statistics_move():
    for instances in (False, True):
        stats = {}
        for t, make in ((torch, to_torch), (torchlike, to_ours)):
            mean, var = make(np.array([1.0, 2.0, 3.0])), make(np.array([1.0, 2.0, 3.0]))
            function = t.nn.functional.instance_norm if instances else t.nn.functional.batch_norm
            flag = {} if instances else {"training": True}
            function(make(np.arange(24.0).reshape(4, 3, 2) ** 1.5), mean, var, momentum=0.25, **flag)
            stats[t] = mean, var
        for a, b in zip(stats[torchlike], stats[torch], strict=True):
            assert_same(a, b)
            assert a._version == b._version


C, V = r(3), np.abs(r(3))
BAD = {
    "one value": (
        F("batch_norm", None, None, training=True), r(1, 3), "Expected more than 1 value per channel",
    ),
    "eps": (F("batch_norm", None, None, training=True, eps=0), r(2, 3), "eps must be positive"),
    "no statistics": (
        F("batch_norm", None, None), r(2, 3), "running_mean must be defined in evaluation mode",
    ),
    "running_mean": (with_stats(False), r(2, 4), C, V, "running_mean should contain 4 elements not 3"),
    "weight": (with_stats(False), r(2, 3), C, V, r(4), "weight should contain 3 elements not 4"),
    "mixed": (with_stats(False), r(2, 3), C.astype("f"), V.astype("f"), "mixed dtype"),
    "integers": (with_stats(False), np.ones((2, 3), np.int64), C, V, "not implemented for 'Long'"),
    "instance, one": (F("instance_norm"), r(2, 3, 1), "Expected more than 1 spatial element"),
    "layer shape": (
        F("layer_norm", (4,)), r(2, 3), r"expected input with shape \[\*, 4\], but got input of size\[2, 3\]",
    ),
    "layer nothing": (F("layer_norm", ()), r(2, 3), "at least 1-dimensional"),
    "layer weight": (F("layer_norm", (3,)), r(2, 3), r(4), "weight to be of same shape as normalized_shape"),
    "layer int": (F("layer_norm", 3), r(2, 3), "must be tuple of ints, not int"),
    "layer integers": (F("layer_norm", (3,)), np.ones((2, 3), np.int64), "not implemented for 'Long'"),
    "layer mixed": (F("layer_norm", (3,)), r(2, 3), r(3).astype("f"), "mixed dtype"),
    "group channels": (F("group_norm", 2), r(2, 3), "divisible by num_groups"),
    "group weight": (F("group_norm", 2), r(2, 4), r(3), "vector of size equal to the number of channels"),
    "group rank": (F("group_norm", 2), r(4), "at least 2 dimensions"),
    "group one": (F("group_norm", 4), r(1, 4), "Expected more than 1 value per channel"),
    "rms shape": (F("rms_norm", (4,)), r(2, 3), r"shape \[\*4\]"),
    "response rank": (F("local_response_norm", 1), r(2, 3), "3D or higher"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    f, *arrays, match = BAD[case]
    check_error(f, *arrays, match=match)


def test_statistics_do_not_require_grad():
    def run(t, x, mean, var):
        return t.nn.functional.batch_norm(x, mean, var)

    check_error(run, r(2, 3), C, V, grad=True, match="not differentiable with respect to argument 'running_mean'")


X2, X3, X4, X5 = (r(4, 6, *[3, 5, 2][: n - 2], dtype=np.float32) for n in (2, 3, 4, 5))
LAYERS = {
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(6), X3),
    "BatchNorm1d 2d": (lambda nn: nn.BatchNorm1d(6, eps=0.1, momentum=0.5), X2),
    "BatchNorm2d": (lambda nn: nn.BatchNorm2d(6, affine=False), X4),
    "BatchNorm3d": (lambda nn: nn.BatchNorm3d(6, track_running_stats=False), X5),
    "BatchNorm average": (lambda nn: nn.BatchNorm2d(6, momentum=None), X4),
    "BatchNorm no bias": (lambda nn: nn.BatchNorm2d(6, bias=False), X4),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(6), X3),
    "InstanceNorm2d": (lambda nn: nn.InstanceNorm2d(6, affine=True, track_running_stats=True), X4),
    "InstanceNorm3d": (lambda nn: nn.InstanceNorm3d(6), X5),
    "InstanceNorm unbatched": (lambda nn: nn.InstanceNorm1d(4, affine=True), X3[0][:4]),
    "LayerNorm": (lambda nn: nn.LayerNorm(5), X4),
    "LayerNorm 2d": (lambda nn: nn.LayerNorm((3, 5), bias=False), X4),
    "LayerNorm plain": (lambda nn: nn.LayerNorm([5], elementwise_affine=False), X4),
    "GroupNorm": (lambda nn: nn.GroupNorm(3, 6), X4),
    "GroupNorm plain": (lambda nn: nn.GroupNorm(2, 6, affine=False), X3),
    "RMSNorm": (lambda nn: nn.RMSNorm((3, 5)), X4),
    "LocalResponseNorm": (lambda nn: nn.LocalResponseNorm(2), X4),
}  # fmt: skip


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_cross_map(size, channels):
    layer(lambda nn: nn.CrossMapLRN2d(size, alpha=0.5, k=1.5), r(2, channels, 3, 2))


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 2, 3, 4, 5)])
def test_cross_map_is_of_images(shape):
    agree_error(lambda t: t.nn.CrossMapLRN2d(3)(t.ones(shape)), "Expected input to be 4D")


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("case", LAYERS)
def test_layer(case, train):
    make, x = LAYERS[case]
    layer(make, x, call=lambda m, x: m(m(x) * 2 + 1), tol=5, train=train)


def test_counts_batches_and_averages():
    ours, theirs = (nn.BatchNorm1d(6, momentum=None) for nn in (torchlike.nn, torch.nn))
    for _ in range(3):
        x = r(5, 6, dtype=np.float32)
        ours(to_ours(x))
        theirs(to_torch(x))
    for name in ("num_batches_tracked", "running_mean", "running_var"):
        assert_same(getattr(ours, name), getattr(theirs, name), name)
        assert getattr(ours, name)._version == getattr(theirs, name)._version, name


def test_first_version_of_checkpoints():
    ours, theirs = pair(lambda nn: nn.BatchNorm1d(2))
    for m in (ours, theirs):
        old = copy.copy(m.state_dict())
        del old["num_batches_tracked"], old._metadata
        m.load_state_dict(old)
        assert m.num_batches_tracked == 0


def test_sync_batch_norm():
    net = torchlike.nn.Sequential(torchlike.nn.BatchNorm2d(3), torchlike.nn.ReLU())
    new = torchlike.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert type(new[0]) is torchlike.nn.SyncBatchNorm and new[0].weight is net[0].weight or new is net
    assert new(torchlike.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4)


def bad(make, x):
    def run(nn):
        return make(nn)(to_ours(x) if nn is torchlike.nn else to_torch(x))

    return run


BAD_LAYERS = {
    "rank 1": (bad(lambda nn: nn.BatchNorm1d(6), X4), "expected 2D or 3D input"),
    "rank 2": (bad(lambda nn: nn.BatchNorm2d(6), X3), "expected 4D input"),
    "rank 3": (bad(lambda nn: nn.BatchNorm3d(6), X4), "expected 5D input"),
    "channels": (bad(lambda nn: nn.BatchNorm2d(5), X4), "running_mean should contain 6 elements not 5"),
    "instance rank": (bad(lambda nn: nn.InstanceNorm2d(6), X2), "expected 3D or 4D input"),
    "instance channels": (bad(lambda nn: nn.InstanceNorm2d(5, affine=True), X4), "to match num_features"),
    "groups": (lambda nn: nn.GroupNorm(3, 4), r"num_channels \(4\) must be divisible by num_groups \(3\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_layer_refuses(case):
    same_refusal(*BAD_LAYERS[case])


def test_warns_of_unused_num_features():
    with pytest.warns(UserWarning, match="does not match num_features"):
        torchlike.nn.InstanceNorm2d(5)(to_ours(X4))


FUSED = {
    "conv": (lambda nn: (nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3)), "fuse_conv_bn_eval", (2, 4, 5, 5), {}),
    "plain conv": (
        lambda nn: (nn.Conv1d(4, 3, 3, bias=False), nn.BatchNorm1d(3, affine=False)),
        "fuse_conv_bn_eval", (2, 4, 5), {},
    ),
    "transposed": (
        lambda nn: (nn.ConvTranspose2d(4, 3, 3), nn.BatchNorm2d(3)),
        "fuse_conv_bn_eval", (2, 4, 5, 5), {"transpose": True},
    ),
    "linear": (lambda nn: (nn.Linear(4, 3), nn.BatchNorm1d(3)), "fuse_linear_bn_eval", (2, 4), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", FUSED)
def test_fused_with_the_layer_before(case):
    make, name, shape, options = FUSED[case]
    layer_, bn = make(torchlike.nn)
    bn(layer_(to_ours(r(*shape, dtype=np.float32))))
    x = to_ours(r(*shape, dtype=np.float32))
    fused = getattr(torchlike.nn.utils.fusion, name)(layer_.eval(), bn.eval(), **options)
    np.testing.assert_allclose(host(fused(x)), host(bn(layer_(x))), atol=1e-5)
    assert type(fused) is type(layer_) and fused.bias is not None and fused.weight.requires_grad
    ref_layer, ref_bn = make(torch.nn)
    ref = getattr(torch.nn.utils.fusion, name)(ref_layer.eval(), ref_bn.eval(), **options)
    assert fused.bias.requires_grad == ref.bias.requires_grad


def test_fusion_is_for_evaluation():
    def run(nn):
        return nn.utils.fusion.fuse_linear_bn_eval(nn.Linear(4, 3), nn.BatchNorm1d(3))

    same_refusal(run, "only for eval")
    same_refusal(
        lambda nn: nn.utils.fusion.fuse_linear_bn_eval(nn.Linear(4, 3).eval(), nn.BatchNorm1d(5).eval()),
        "got linear.out_features=3 and bn.num_features=5",
    )


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("which", ["0", "1", "2", "12", "01", "02", "012"])
def test_statistics_with_tangents(which, training):
    """Forward mode along the input (0) and the running statistics (1, 2), which count for nothing but a refusal."""

    @story
    def run(t):
        ad = t.autograd.forward_ad
        values = [v.double() for v in (t.arange(12.0).reshape(3, 2, 2), t.ones(2), t.full((2,), 3.0))]
        with ad.dual_level():
            dual = [ad.make_dual(v, v**3) if str(i) in which else v for i, v in enumerate(values)]
            run = t.nn.functional.batch_norm
            found = said(lambda: run(*dual, training=training), "batch_norm is not differentiable wrt running_mean and")
            if isinstance(found, str):
                return found
            out, tangent = ad.unpack_dual(found)
            return out, t.zeros_like(out) if tangent is None else tangent

    run()


@story
def test_statistics_have_no_gradient(t):
    def run(at, training):
        values = [t.ones(3, 2, 2), t.ones(2), t.ones(2)]
        values[at].requires_grad_()
        return said(lambda: t.nn.functional.batch_norm(*values, training=training).sum().backward(), "argument '.*'")

    return [run(at, training) for at in (1, 2) for training in (False, True)]


def test_the_average_of_all_batches_is_exact_in_double_precision():
    found = []
    for t in (torchlike, torch):
        norm = t.nn.BatchNorm1d(2, momentum=None, dtype=t.float64)
        for x in np.random.default_rng(0).normal(size=(3, 4, 2)):
            norm(t.tensor(x))
        found.append([norm.running_mean.tolist(), norm.running_var.tolist()])
    np.testing.assert_allclose(*found, rtol=1e-13)
