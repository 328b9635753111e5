"""Linear and bilinear maps, embeddings, flattening, padding, shuffles, resizing and sampling, against
PyTorch."""

import numpy as np
import pytest
import torch
from layer_kit import layer, pair, same_refusal
from oracle import assert_same, check, check_error, host, to_ours, to_torch

import torchlike

rng = np.random.RandomState(0)
NAN, INF = np.nan, np.inf


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def F(name, *args, **options):
    return lambda t, *tensors: getattr(t.nn.functional, name)(*tensors, *args, **options)


I64 = np.int64
INDEX = np.array([[1, 2, 2], [0, 4, 1]])
FUNCTIONS = {
    "linear": (F("linear"), r(4, 3), r(5, 3), r(5)),
    "linear 1d": (F("linear"), r(3), r(5, 3), r(5)),
    "linear 3d": (F("linear"), r(2, 4, 3), r(5, 3)),
    "linear vector": (F("linear"), r(2, 3), r(3)),
    "linear empty": (F("linear"), r(0, 3), r(5, 3), r(5)),
    "bilinear": (F("bilinear"), r(4, 3), r(4, 2), r(5, 3, 2), r(5)),
    "bilinear 1d": (F("bilinear"), r(3), r(2), r(5, 3, 2)),
    "bilinear 3d": (F("bilinear"), r(2, 4, 3), r(2, 4, 2), r(5, 3, 2)),
    "embedding": (F("embedding"), INDEX, r(5, 3)),
    "embedding padding": (F("embedding", padding_idx=-3), INDEX, r(5, 3)),
    "embedding frequency": (F("embedding", scale_grad_by_freq=True), INDEX, r(5, 3)),
    "embedding 0-dim": (F("embedding"), np.array(3), r(5, 3)),
    "embedding int32": (F("embedding"), INDEX.astype(np.int32), r(5, 3)),
    "bag mean": (F("embedding_bag"), INDEX, r(5, 3)),
    "bag sum": (F("embedding_bag", mode="sum", padding_idx=1), INDEX, r(5, 3)),
    "bag max": (F("embedding_bag", mode="max"), INDEX, r(5, 3)),
    "bag max ties": (F("embedding_bag", mode="max"), INDEX, np.ones((5, 3))),
    "bag offsets": (F("embedding_bag", mode="mean"), INDEX.ravel(), r(5, 3), np.array([0, 2, 2])),
    "bag max empty": (
        F("embedding_bag", mode="max", padding_idx=2), INDEX.ravel(), r(5, 3), np.array([0, 1, 3]),
    ),
    "bag last": (
        F("embedding_bag", mode="sum", include_last_offset=True), INDEX.ravel(), r(5, 3), np.array([0, 2, 6]),
    ),
    "bag none": (F("embedding_bag", mode="sum"), np.zeros(0, I64), r(5, 3), np.array([0, 0])),
    "pixel_shuffle": (F("pixel_shuffle", 2), r(2, 8, 3, 2)),
    "pixel_shuffle 5d": (F("pixel_shuffle", 2), r(2, 1, 8, 3, 2)),
    "pixel_unshuffle": (F("pixel_unshuffle", 2), r(2, 3, 4, 6)),
    "pixel_shuffle empty": (F("pixel_shuffle", 2), r(0, 8, 3, 2)),
    "channel_shuffle": (F("channel_shuffle", 3), r(2, 6, 3, 2)),
    "unfold": (F("unfold", (2, 3)), r(2, 3, 4, 6)),
    "unfold everything": (F("unfold", 2, 2, 1, (2, 1)), r(2, 3, 5, 6)),
    "unfold apart": (F("unfold", 2, stride=2), r(2, 3, 4, 6)),
    "unfold apart, cut": (F("unfold", 3, padding=1, stride=3), r(2, 3, 5, 6)),
    "unfold unbatched": (F("unfold", 2), r(3, 4, 6)),
    "fold": (F("fold", (4, 6), (2, 3)), r(2, 18, 12)),
    "fold everything": (F("fold", (5, 6), 2, 2, 1, (2, 1)), r(2, 12, 18)),
    "fold apart": (F("fold", (4, 6), 2, stride=2), r(2, 12, 6)),
    "fold unbatched": (F("fold", (4, 6), (2, 3)), r(18, 12)),
}  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function(case):
    # PyTorch forgets the frequency in second-order gradients, and cannot differentiate an empty shuffle.
    second = not case.startswith("bag") and case != "embedding frequency"
    check(*FUNCTIONS[case], grad=case != "pixel_shuffle empty", gradgrad=second, stride="shuffle" not in case)


def test_bag_with_weights():
    def run(t, i, w, s):
        return t.nn.functional.embedding_bag(i, w, mode="sum", per_sample_weights=s)

    check(run, INDEX, r(5, 3), r(2, 3), gradgrad=False)


def test_rows_are_renormalized_in_place():
    for norm_type in (2.0, 1.0):
        weight = r(5, 3) * 3
        ours, theirs = to_ours(weight).requires_grad_(), to_torch(weight).requires_grad_()
        out = torchlike.nn.functional.embedding(to_ours(INDEX), ours, max_norm=1.0, norm_type=norm_type)
        expected = torch.nn.functional.embedding(to_torch(INDEX), theirs, max_norm=1.0, norm_type=norm_type)
        assert_same(out, expected)
        assert_same(ours, theirs)
        assert ours._version == theirs._version


RESIZE = {
    "nearest": {"scale_factor": 2}, "nearest size": {"size": (7, 3)},
    "nearest smaller": {"scale_factor": 0.6}, "nearest exact": {"size": (7, 3), "mode": "nearest-exact"},
    "area": {"size": (3, 4), "mode": "area"}, "bilinear": {"scale_factor": 2, "mode": "bilinear"},
    "bilinear odd": {"scale_factor": 1.7, "mode": "bilinear"},
    "bilinear factors": {"scale_factor": (1.5, 0.5), "mode": "bilinear", "recompute_scale_factor": True},
    "bilinear corners": {"size": (9, 3), "mode": "bilinear", "align_corners": True},
    "bilinear one": {"size": (1, 1), "mode": "bilinear", "align_corners": True},
    "bicubic": {"size": (9, 3), "mode": "bicubic"},
    "bicubic factor": {"scale_factor": 1.3, "mode": "bicubic"},
    "bicubic corners": {"scale_factor": 2, "mode": "bicubic", "align_corners": True},
    "bilinear aa": {"size": (2, 9), "mode": "bilinear", "antialias": True},
    "bicubic aa": {"size": (2, 3), "mode": "bicubic", "antialias": True},
    "nearest kept and doubled": {"scale_factor": (1.1, 2.15)},
    "bilinear kept": {"scale_factor": 1.1, "mode": "bilinear"},
    "lanczos": {"size": (3, 4), "mode": "lanczos", "antialias": True},
}  # fmt: skip


@pytest.mark.parametrize("case", RESIZE)
def test_interpolate(case):
    check(F("interpolate", **RESIZE[case]), r(2, 3, 5, 6))


def test_interpolate_other_ranks():
    check(F("interpolate", size=7, mode="linear"), r(2, 3, 5))
    check(F("interpolate", scale_factor=2), r(2, 3, 5))
    check(F("interpolate", size=(4, 6, 2), mode="trilinear"), r(1, 2, 3, 5, 4))
    check(F("interpolate", scale_factor=2), r(1, 2, 3, 2, 2))
    check(F("interpolate", scale_factor=1.1, mode="linear"), r(2, 3, 5))
    check(F("interpolate", scale_factor=(1.1, 1.5, 1.1), mode="trilinear"), r(1, 2, 3, 5, 4))
    check(F("interpolate", scale_factor=(1.6, 2.4), mode="bilinear"), r(2, 3, 5, 6, dtype=np.float32))
    check(F("interpolate", scale_factor=1.3), r(2, 3, 50, 6, dtype=np.float32))


def test_interpolate_forward_only():
    """Of these PyTorch's gradients go by the sizes, and its results by the factor (or the other way round)."""
    check(F("interpolate", scale_factor=2.3), r(2, 3, 2), grad=False)
    check(F("interpolate", scale_factor=1.1, mode="bicubic"), r(2, 3, 5, 6), grad=False)
    check(F("interpolate", scale_factor=(1.1, 2.15), mode="bilinear", antialias=True), r(2, 3, 5, 6), grad=False)


def test_interpolate_infinities():
    x = r(1, 1, 4, 4)
    x[0, 0, 1, 1] = INF
    check(F("interpolate", scale_factor=2, mode="nearest"), x, gradgrad=False)
    check(F("interpolate", size=(9, 7), mode="bilinear"), x, grad=False)


GRID = np.clip(r(2, 3, 4, 2), -1.4, 1.4)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align):
    f = F("grid_sample", mode=mode, padding_mode=padding, align_corners=align)
    check(f, r(2, 3, 5, 6), GRID, gradgrad=False, stride=False)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_volumes(mode):
    check(
        F("grid_sample", mode=mode, align_corners=False),
        r(2, 3, 4, 5, 3),
        r(2, 2, 3, 2, 3),
        gradgrad=False,
        stride=False,
    )


def test_grid_sample_at_unusual_points():
    points = np.array([[[[NAN, 0], [INF, 0], [-2, 0], [0, -INF], [1, 1], [-1, -1]]]])
    for padding in ("zeros", "border"):
        check(
            F("grid_sample", padding_mode=padding, align_corners=True),
            r(1, 2, 4, 4),
            points,
            grad=False,
            stride=False,
        )


@pytest.mark.once
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_of_volumes_at_unusual_points(padding):
    """NaN is the last place in a volume, the first in an image; outside of it nothing is multiplied by NaN."""
    points = np.full((1, 1, 3, 3, 3), 0.3)
    for i, number in enumerate((NAN, INF, -INF)):
        for j in range(3):
            points[0, 0, i, j, j] = number
    f = F("grid_sample", padding_mode=padding, align_corners=True)
    given = padding == "zeros"  # in the other modes PyTorch drops the gradient of the element that it took
    check(lambda t, x: f(t, x, t.tensor(points)), r(1, 2, 3, 4, 5), grad=given, gradgrad=False, jit=False, stride=False)


def test_affine_grid():
    for align in (True, False):
        check(F("affine_grid", (2, 1, 3, 4), align_corners=align), r(2, 2, 3), stride=False)
        check(F("affine_grid", (2, 1, 3, 1, 2), align_corners=align), r(2, 3, 4), stride=False)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_affine_grid_to_the_last_bit(kind):
    """At the centre of a pixel the gradient of grid_sample depends on it; spatial transformers start at identities."""

    def grids(t):
        same, turned = t.tensor([[[1, 0, 0], [0, 1, 0]]]), t.tensor([[[0.9, 0.1, 0], [-0.1, 0.9, 0.1]]])
        cases = [(same, n, c) for n in range(2, 30) for c in (True, False)] + [(turned, 6, c) for c in (True, False)]
        make = t.nn.functional.affine_grid
        return [make(m.to(getattr(t, kind)), (1, 1, n, n), align_corners=c).flatten().tolist() for m, n, c in cases]

    assert grids(torch) == grids(torchlike)


IMAGE = r(1, 4, 4, 4)
BAD = {
    "linear sizes": (F("linear"), r(2, 3), r(2, 4), "cannot be multiplied"),
    "linear dtype": (F("linear"), r(2, 3), r(2, 3).astype("f"), "dtype"),
    "bilinear batch": (F("bilinear"), r(2, 3), r(3, 2), r(5, 3, 2), "do not match at dim 0: got 2 and 3"),
    "bilinear size": (F("bilinear"), r(2, 3), r(2, 3), r(5, 3, 2), "input2 size does not match weight size"),
    "embedding range": (F("embedding"), INDEX + 9, r(5, 3), "out of range"),
    "embedding negative": (F("embedding"), INDEX - 9, r(5, 3), "out of range"),
    "embedding dtype": (
        F("embedding"), r(2), r(5, 3), "to have one of the following scalar types: Long, Int",
    ),
    "embedding padding": (F("embedding", padding_idx=5), INDEX, r(5, 3), "within num_embeddings"),
    "bag offsets": (F("embedding_bag"), INDEX.ravel(), r(5, 3), np.array([1]), r"offsets\[0\] has to be 0"),
    "bag offset": (
        F("embedding_bag"), INDEX.ravel(), r(5, 3), np.array([0, 9]), r"offsets\[-1\] can not be greater",
    ),
    "bag index": (
        F("embedding_bag"), INDEX + 3, r(5, 3), r"Index 1 of input takes value 5 .* range \[0, 5\)",
    ),
    "bag 1d": (F("embedding_bag"), INDEX.ravel(), r(5, 3), "offsets has to be a 1D Tensor"),
    "bag mode": (F("embedding_bag", mode="some"), INDEX, r(5, 3), "sum, mean or max"),
    "shuffle": (F("pixel_shuffle", 3), IMAGE, "divisible by the square"),
    "shuffle rank": (F("pixel_shuffle", 2), r(4, 4), "at least 3 dimensions"),
    "shuffle 0": (F("pixel_shuffle", 0), IMAGE, "positive upscale_factor"),
    "unshuffle": (F("pixel_unshuffle", 3), IMAGE, "expects height to be divisible"),
    "channel": (F("channel_shuffle", 3), IMAGE, "must be divisible by groups"),
    "unfold size": (F("unfold", 5), IMAGE, "components must be at least one"),
    "unfold rank": (F("unfold", 2), r(4, 4, 0), "Expected 3D or 4D"),
    "unfold tuple": (F("unfold", (2, 2, 2)), IMAGE, "expected kernel_size equals to 2"),
    "unfold dtype": (F("unfold", 2), np.ones((1, 1, 4, 4), I64), "not implemented for 'Long'"),
    "fold blocks": (F("fold", (4, 4), 2), r(1, 4, 8), "number of sliding blocks"),
    "fold rows": (F("fold", (4, 4), 2), r(1, 5, 9), "divisible by the product of kernel_size"),
    "no size": (F("interpolate"), IMAGE, "either size or scale_factor"),
    "two sizes": (F("interpolate", size=3, scale_factor=2), IMAGE, "only one of size"),
    "size rank": (F("interpolate", size=(3, 3, 3)), IMAGE, "same number of spatial dimensions"),
    "factor rank": (F("interpolate", scale_factor=(3, 3, 3)), IMAGE, "same number of spatial dimensions"),
    "mode rank": (F("interpolate", size=3, mode="linear"), IMAGE, "needs 3D input"),
    "mode": (F("interpolate", size=3, mode="some"), IMAGE, r"\(got some\)"),
    "corners": (F("interpolate", size=3, align_corners=True), IMAGE, "align_corners option can only be set"),
    "size 0": (F("interpolate", size=0), IMAGE, "greater than 0"),
    "antialias": (F("interpolate", size=3, antialias=True), IMAGE, "Anti-alias option"),
    "resize dtype": (F("interpolate", size=3), np.ones((1, 1, 4, 4), I64), "not implemented for 'Long'"),
    "grid mode": (F("grid_sample", mode="some"), IMAGE, GRID[:1], "but got: 'some'"),
    "grid padding": (F("grid_sample", padding_mode="some"), IMAGE, GRID[:1], "but got: 'some'"),
    "grid batch": (F("grid_sample"), IMAGE, GRID, "same batch size"),
    "grid last": (F("grid_sample"), IMAGE, r(1, 2, 2, 3), "size 2 in last dimension"),
    "grid dtype": (
        F("grid_sample"), IMAGE, GRID[:1].astype("f"), "expected scalar type Double but found Float",
    ),
    "affine size": (F("affine_grid", (1, 1, 2)), r(1, 2, 3), "4D and 5D sizes"),
    "affine shape": (F("affine_grid", (1, 1, 2, 2)), r(1, 2, 2), "affine matrices of shape Nx2x3"),
    "affine 0": (F("affine_grid", (1, 1, 0, 2)), r(1, 2, 3), "non-zero, positive"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    f, *arrays, match = BAD[case]
    check_error(f, *arrays, match=match)


def padding(kind, n):
    sizes = (1, 2, 0, 2, 1, 1)[: 2 * n] if n != 2 else 2
    arguments = (sizes, 3.5) if kind == "Constant" else (sizes,)
    return lambda nn: getattr(nn, f"{kind}Pad{n}d")(*arguments)


X = r(2, 4, 6, 4, dtype=np.float32)
LAYERS = {
    "Linear": (lambda nn: nn.Linear(4, 3), X),
    "Linear no bias": (lambda nn: nn.Linear(4, 3, bias=False), X[0, 0, 0]),
    "Bilinear": (lambda nn: nn.Bilinear(4, 4, 3), X, X),
    "Identity": (lambda nn: nn.Identity(3, some=4), X),
    "Flatten": (lambda nn: nn.Flatten(), X),
    "Flatten some": (lambda nn: nn.Flatten(0, -2), X),
    "Unflatten": (lambda nn: nn.Unflatten(2, (2, -1)), X),
    "Unflatten list": (lambda nn: nn.Unflatten(-2, [2, 3]), X),
    "Embedding": (lambda nn: nn.Embedding(5, 3, padding_idx=-1), INDEX),
    "Embedding norm": (
        lambda nn: nn.Embedding(5, 3, max_norm=0.5, norm_type=1.0, scale_grad_by_freq=True), INDEX,
    ),
    "EmbeddingBag": (lambda nn: nn.EmbeddingBag(5, 3, mode="max", padding_idx=1), INDEX),
    "Upsample": (lambda nn: nn.Upsample(scale_factor=(2, 1.5), mode="bilinear"), X),
    "Upsample size": (lambda nn: nn.Upsample((3, 9)), X),
    "UpsamplingNearest2d": (lambda nn: nn.UpsamplingNearest2d(scale_factor=2), X),
    "UpsamplingBilinear2d": (lambda nn: nn.UpsamplingBilinear2d((5, 7)), X),
    "PixelShuffle": (lambda nn: nn.PixelShuffle(2), X),
    "PixelUnshuffle": (lambda nn: nn.PixelUnshuffle(2), X),
    "ChannelShuffle": (lambda nn: nn.ChannelShuffle(2), X),
    "Unfold": (lambda nn: nn.Unfold((2, 3), padding=1), X),
    "Fold": (lambda nn: nn.Fold((4, 5), 2, stride=(1, 1)), r(2, 8, 12, dtype=np.float32)),
    **{
        f"{kind}Pad{n}d": (padding(kind, n), r(2, 3, *[4, 5, 3][:n]))
        for kind in ("Constant", "Zero", "Reflection", "Replication", "Circular")
        for n in (1, 2, 3)
    },
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_layer(case):
    layer(*LAYERS[case], tol=2)


BAD_LAYERS = {
    "bilinear": (lambda nn: nn.Bilinear(0, 2, 3), "in1_features must be > 0"),
    "unflatten int": (lambda nn: nn.Unflatten(1, 5), "must be a tuple of ints, but found type int"),
    "unflatten text": (lambda nn: nn.Unflatten(1, (2, "a")), "element of type str at pos 1"),
    "padding_idx": (lambda nn: nn.Embedding(4, 3, padding_idx=4), "within num_embeddings"),
    "linear": (lambda nn: nn.Linear(-1, 3), "negative dimension"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LAYERS)
def test_layer_refuses(case):
    same_refusal(*BAD_LAYERS[case])


def test_embedding_of_given_rows():
    ours, theirs = pair(lambda nn: nn.Embedding(5, 3, padding_idx=2))
    assert not host(torchlike.nn.Embedding(5, 3, padding_idx=2).weight)[2].any()
    given = torchlike.nn.Embedding.from_pretrained(to_ours(r(5, 3)), padding_idx=1)
    assert not given.weight.requires_grad and host(given.weight)[1].any() and given.padding_idx == 1
    assert torchlike.nn.EmbeddingBag.from_pretrained(to_ours(r(5, 3)), freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="does not match num_embeddings"):
        torchlike.nn.Embedding(4, 3, _weight=to_ours(r(5, 3)))
    with pytest.raises(AssertionError, match="2-dimensional"):
        torchlike.nn.Embedding.from_pretrained(to_ours(r(5)))
    assert ours.weight.shape == theirs.weight.shape


def test_parameters_start_as_in_pytorch():
    m = torchlike.nn.Linear(100, 300)
    for p in m.parameters():
        values = host(p)
        assert abs(values).max() <= 0.1 and abs(values.std() - 0.1 / np.sqrt(3)) < 0.01
    weight = host(torchlike.nn.Embedding(100, 30).weight)
    assert abs(weight.mean()) < 0.1 and abs(weight.std() - 1) < 0.05
