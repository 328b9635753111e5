"""Memory formats: strides of what functions return, of copies and of modules are PyTorch's."""

import copy
import math

import pytest
import torch
from both import agree_error, attempt
from story_kit import said, story

import torchlike as tl

IMAGE, VOLUME = (2, 4, 6, 6), (2, 4, 5, 5, 5)


def weight(T, *shape):
    return (T.arange(float(math.prod(shape))).reshape(shape) % 7 - 3) / 4


def format_of(T, x):
    return T.channels_last if x.dim() == 4 else T.channels_last_3d


LAYOUTS = {
    "channels_last": lambda T, x: x.to(memory_format=format_of(T, x)),
    "a part": lambda T, x: T.cat([x, x], 1).to(memory_format=format_of(T, x))[:, : x.shape[1]],
    "permuted": lambda T, x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "contiguous": lambda T, x: x,
}

POINTWISE = "relu elu gelu silu hardswish leaky_relu sigmoid logsigmoid dropout dropout2d alpha_dropout rrelu".split()
ALONG = {
    "softmax": lambda T, x, d: x.softmax(d),
    "cumsum": lambda T, x, d: x.cumsum(d),
    "sort": lambda T, x, d: x.sort(d)[0],
    "flip": lambda T, x, d: x.flip(d),
    "roll": lambda T, x, d: x.roll(1, d),
    "cat": lambda T, x, d: T.cat([x, x * 2], d),
    "stack": lambda T, x, d: T.stack([x, x], d),
    "sum": lambda T, x, d: x.sum(d, keepdim=True),
    "amax": lambda T, x, d: x.amax(d),
    "select": lambda T, x, d: x.index_select(d, T.tensor([0, 1])),
    "fill": lambda T, x, d: x.index_fill(d, T.tensor([0]), 1.0),
}
LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss hinge_embedding_loss poisson_nll_loss "
    "binary_cross_entropy_with_logits"
).split()
MODES = "nearest nearest-exact bilinear bicubic area".split()
PADS = "constant reflect replicate circular".split()
POOLS = {
    "max_pool": 2,
    "avg_pool": 2,
    "adaptive_avg_pool": 3,
    "adaptive_max_pool": 3,
}

CASES = {
    **{name: lambda T, x, n=name: getattr(T.nn.functional, n)(x) for name in POINTWISE},
    **{f"{name} {d}": lambda T, x, f=f, d=d: f(T, x, d) for name, f in ALONG.items() for d in range(4)},
    **{n: lambda T, x, n=n: getattr(T.nn.functional, n)(x, T.ones(IMAGE), reduction="none") for n in LOSSES},
    **{f"interpolate {m}": lambda T, x, m=m: T.nn.functional.interpolate(x, scale_factor=2, mode=m) for m in MODES},
    **{f"pad {m}": lambda T, x, m=m: T.nn.functional.pad(x, (1, 2, 2, 1), mode=m) for m in PADS},
    **{n: lambda T, x, n=n, k=k: getattr(T.nn.functional, n + "2d")(x, k) for n, k in POOLS.items()},
    "max_pool with indices": lambda T, x: T.nn.functional.max_pool2d(x, 2, return_indices=True),
    "pools to one": lambda T, x: T.nn.functional.adaptive_avg_pool2d(x, 1),
    "after a pool to one": lambda T, x: T.nn.functional.avg_pool2d(x, 6) * 2 + 1,
    "lp_pool": lambda T, x: T.nn.functional.lp_pool2d(x, 2, 2),
    "unpool": lambda T, x: T.nn.functional.max_unpool2d(*T.nn.functional.max_pool2d(x, 2, return_indices=True), 2),
    "cropped": lambda T, x: T.nn.functional.pad(x, (-1, -1)),
    "conv2d": lambda T, x: T.nn.functional.conv2d(x, weight(T, 5, 4, 3, 3), weight(T, 5)),
    "conv2d strided, in groups": lambda T, x: T.nn.functional.conv2d(x, weight(T, 8, 2, 3, 3), None, 2, 1, groups=2),
    "conv2d 1x1": lambda T, x: T.nn.functional.conv2d(x, weight(T, 5, 4, 1, 1)),
    "conv2d to one": lambda T, x: T.nn.functional.conv2d(x, weight(T, 5, 4, 6, 6)),
    "conv2d of one channel": lambda T, x: T.nn.functional.conv2d(x[:, :1], weight(T, 5, 1, 3, 3)),
    "conv2d without batch": lambda T, x: T.nn.functional.conv2d(x[0], weight(T, 5, 4, 3, 3)),
    "conv2d, weight channels_last": lambda T, x: T.nn.functional.conv2d(
        x, weight(T, 5, 4, 3, 3).to(memory_format=T.channels_last)
    ),
    "conv_transpose2d": lambda T, x: T.nn.functional.conv_transpose2d(x, weight(T, 4, 5, 3, 3), None, 2, 1, 1),
    "batch_norm": lambda T, x: T.nn.functional.batch_norm(x, T.zeros(4), T.ones(4), training=True),
    "batch_norm eval": lambda T, x: T.nn.functional.batch_norm(x, T.zeros(4), T.ones(4), T.ones(4), T.zeros(4)),
    "instance_norm": lambda T, x: T.nn.functional.instance_norm(x),
    "instance_norm eval": lambda T, x: T.nn.functional.instance_norm(x, T.zeros(4), T.ones(4), use_input_stats=False),
    "group_norm": lambda T, x: T.nn.functional.group_norm(x, 2),
    "layer_norm": lambda T, x: T.nn.functional.layer_norm(x, (6,)),
    "rms_norm": lambda T, x: T.nn.functional.rms_norm(x, (6,)),
    "local_response_norm": lambda T, x: T.nn.functional.local_response_norm(x, 2),
    "pixel_shuffle": lambda T, x: T.nn.functional.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda T, x: T.nn.functional.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda T, x: T.nn.functional.channel_shuffle(x, 2),
    "glu": lambda T, x: T.nn.functional.glu(x, 1),
    "mixed cat": lambda T, x: T.cat([x, T.ones(2, 3, 6, 6)], 1),
    "swapped halves": lambda T, x: T.cat(x.chunk(2, 1)[::-1], 1),
    "as one row": lambda T, x: x.roll(2),
    "turned": lambda T, x: x.rot90(1, (2, 3)),
    "turned twice": lambda T, x: x.rot90(2, (2, 3)),
    "index_put": lambda T, x: x.index_put((T.tensor([0]),), T.ones(1)),
    "broadcast": lambda T, x: x + T.ones(1, 4, 1, 1),
    "a contiguous operand first": lambda T, x: T.ones(2, 4, 6, 6) + x,
    "cast": lambda T, x: x.double(),
    "out": lambda T, x: T.add(x, 1, out=T.empty(0)),
}
VOLUMES = {
    **{f"pad {m}": lambda T, x, m=m: T.nn.functional.pad(x, (1, 2) * 3, mode=m) for m in PADS},
    **{n: lambda T, x, n=n, k=k: getattr(T.nn.functional, n + "3d")(x, k) for n, k in POOLS.items()},
    "pools to one": lambda T, x: T.nn.functional.adaptive_avg_pool3d(x, 1),
    "trilinear": lambda T, x: T.nn.functional.interpolate(x, scale_factor=2, mode="trilinear"),
    "conv3d": lambda T, x: T.nn.functional.conv3d(x, weight(T, 5, 4, 3, 3, 3)),
    "conv_transpose3d": lambda T, x: T.nn.functional.conv_transpose3d(x, weight(T, 4, 5, 3, 3, 3)),
    "one volume": lambda T, x: T.nn.functional.conv3d(x[:1], weight(T, 5, 4, 3, 3, 3)),
    "one volume in groups": lambda T, x: T.nn.functional.conv3d(x[:1], weight(T, 4, 2, 3, 3, 3), groups=2),
    "one volume, large kernel": lambda T, x: T.nn.functional.conv3d(x[:1], weight(T, 5, 4, 2, 4, 4)),
    "pool without batch": lambda T, x: T.nn.functional.adaptive_max_pool3d(x[0], 3),
    "batch_norm": lambda T, x: T.nn.functional.batch_norm(x, None, None, training=True),
    "group_norm": lambda T, x: T.nn.functional.group_norm(x, 2),
    "cat": lambda T, x: T.cat([x, x], 1),
    "roll": lambda T, x: x.roll(1, 1),
}


def strides(made):
    return [(tuple(y.shape), y.stride()) for y in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cases,shape", [(CASES, IMAGE), (VOLUMES, VOLUME)], ids=["images", "volumes"])
def test_results(cases, shape, layout):
    def made(T, f):
        x = (T.arange(float(math.prod(shape))).reshape(shape) * 37 % 101) / 50 - 1.013
        return strides(f(T, LAYOUTS[layout](T, x)))

    unlike = {name: (made(tl, f), made(torch, f)) for name, f in cases.items()}
    assert {name: pair for name, pair in unlike.items() if pair[0] != pair[1]} == {}


SIZES = {"image": (2, 3, 4, 5), "volume": (2, 3, 2, 4, 5), "matrices": (2, 3, 4), "grey": (2, 1, 4, 4)}
SIZES["1x1"] = (2, 3, 1, 1)
FORMATS = "channels_last channels_last_3d contiguous_format preserve_format".split()
COPIES = {
    "to": lambda x, f, T: x.to(memory_format=f),
    "to a dtype": lambda x, f, T: x.to(T.float64, memory_format=f),
    "double": lambda x, f, T: x.double(memory_format=f),
    "float": lambda x, f, T: x.float(memory_format=f),
    "cpu": lambda x, f, T: x.cpu(memory_format=f),
    "clone": lambda x, f, T: x.clone(memory_format=f),
    "contiguous": lambda x, f, T: x.contiguous(memory_format=f),
    "is_contiguous": lambda x, f, T: T.tensor(x.is_contiguous(memory_format=f)),
    "zeros_like": lambda x, f, T: T.zeros_like(x, memory_format=f),
    "full_like": lambda x, f, T: T.full_like(x, 2.0, memory_format=f),
    "rand_like": lambda x, f, T: T.rand_like(x, memory_format=f) * 0,
    "randint_like": lambda x, f, T: T.randint_like(x, 3, memory_format=f) * 0,
    "empty": lambda x, f, T: T.empty(x.shape, memory_format=f).zero_(),
    "resize_": lambda x, f, T: x.clone().resize_(x.shape, memory_format=f),
    "resize_as_": lambda x, f, T: T.empty(0).resize_as_(x, memory_format=f).zero_(),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(name):
    """Of contiguous tensors and others, in every format: strides, values, the tensor itself or not, errors."""

    def story_of(T, shape, turned, kind):
        x = T.arange(float(math.prod(shape))).reshape(shape[::-1] if turned else shape)
        x = x.permute(*range(len(shape) - 1, -1, -1)) if turned else x
        got = attempt(lambda: COPIES[name](x, getattr(T, kind), T))
        return type(got).__name__ if isinstance(got, Exception) else (got.tolist(), got.stride(), got is x)

    for size, shape in SIZES.items():
        for turned in (False, True):
            for kind in FORMATS:
                ours, theirs = (story_of(T, shape, turned, kind) for T in (tl, torch))
                assert ours == theirs, (size, turned, kind)


@story
def test_wrong_formats(t):
    x = t.ones(2, 3, 4)
    return (
        said(lambda: x.to(memory_format=t.channels_last), "required rank 4 tensor to use channels_last format"),
        said(lambda: x.transpose(0, 1).contiguous(memory_format=t.preserve_format), "preserve memory format is unsupp"),
        said(lambda: t.empty(2, memory_format=t.preserve_format), "unsupported memory format Preserve"),
        said(lambda: x.contiguous(memory_format=3), "argument 'memory_format' must be torch.memory_format, not int"),
    )


def net(t):
    m = t.nn.Sequential(t.nn.Conv2d(3, 4, 3), t.nn.BatchNorm2d(4), t.nn.Linear(2, 2), t.nn.Conv3d(2, 3, 2))
    m.register_buffer("image", t.ones(2, 3, 4, 5))
    return m


@story
def test_modules(t):
    def kept(m):
        return [(name, v.stride()) for name, v in m.state_dict().items()]

    flat, volume = t.nn.utils.convert_conv2d_weight_memory_format, t.nn.utils.convert_conv3d_weight_memory_format
    m = net(t)[:3].to(memory_format=t.channels_last)
    found = kept(m), kept(net(t)[3].to(memory_format=t.channels_last_3d))
    found += kept(flat(net(t), t.channels_last)), kept(volume(net(t), t.channels_last_3d))
    m.load_state_dict(net(t)[:3].state_dict())
    wrong = said(lambda: net(t).to(memory_format=t.channels_last), "required rank 4 tensor to use channels_last format")
    return found, kept(m), kept(copy.deepcopy(m)), kept(m.double()), wrong


@story
def test_training_keeps_the_format(t):
    m = net(t)[:2].to(memory_format=t.channels_last)
    o = t.optim.Adam(m.parameters(), lr=0.1)
    x = t.ones(2, 3, 5, 5).to(memory_format=t.channels_last).requires_grad_()
    for _ in range(2):
        y = m(x).relu()
        y.square().sum().backward()
        o.step()
    state = [s["exp_avg"].stride() for s in o.state_dict()["state"].values()]
    return y.stride(), x.grad.stride(), [(p.stride(), p.grad.stride()) for p in m.parameters()], state


def test_compiled_functions_keep_the_format():
    m = tl.nn.Sequential(tl.nn.Conv2d(3, 4, 3), tl.nn.BatchNorm2d(4), tl.nn.ReLU()).to(memory_format=tl.channels_last)
    x = tl.ones(2, 3, 5, 5).to(memory_format=tl.channels_last)
    compiled = tl.compile(m, fullgraph=True)
    for _ in range(2):
        assert compiled(x).stride() == m(x).stride() == (36, 1, 12, 4)
    assert compiled(x.contiguous()).stride() == m(x.contiguous()).stride()


def test_examples_of_a_batch_have_no_memory_format():
    def contiguous(t):
        return t.func.vmap(lambda x: x.contiguous(memory_format=t.channels_last))(t.ones(5, 2, 3, 4, 4))

    agree_error(contiguous, "NYI: querying is_contiguous inside of vmap for memory_format other than")
