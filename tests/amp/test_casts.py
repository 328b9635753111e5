"""Autocast on CPUs and on CUDA does to every operator what PyTorch's does: nothing is missing, and nothing extra.

Ours runs on tensors without values, which stand for those of a CPU or a GPU; PyTorch on the CPU, and on fake tensors of
a GPU.
"""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch
from autocast_kit import CALLS, by_name, overload
from sample_kit import sample
from torch._subclasses import FakeTensorMode

import torchlike
from torchlike._aten import packets
from torchlike._core.autocast import layer
from torchlike._core.dispatch.dispatch import call
from torchlike._decl.op import REGISTRY, Op

packets.complete()
KINDS = ["cpu", "cuda"]
GIVEN = ["float32", "bfloat16", "float16", "float64", "float32 bfloat16", "bfloat16 float32"]
OPERATORS = {name: op for name, op in REGISTRY.items() if isinstance(op, Op)}

# Public functions beside those of autocast_kit.py: what PyTorch has a class for under a name of its own.
MORE = """
F.conv2d(c(x(1, 2, 4, 4)), x(3, 2, 2, 2), x(3))
F.conv3d(c(x(1, 2, 4, 4, 4)), x(3, 2, 2, 2, 2))
F.conv_transpose2d(c(x(1, 2, 4, 4)), x(2, 3, 2, 2))
F.conv_transpose3d(c(x(1, 2, 4, 4, 4)), x(2, 3, 2, 2, 2))
t.conv_tbc(c(x(4, 1, 2)), c(x(2, 2, 3)), c(x(3)))
F.linear(c(x(3, 4)), x(2, 4), x(2))
t.chain_matmul(c(x(2, 2)), x(2, 2), c(x(2, 2)))
t.addmm(x(3, 3), c(x(3, 3)), x(3, 3))
t.addr(x(3, 3), c(x(3)), x(3))
t.baddbmm(x(1, 3, 3), c(x(1, 3, 3)), x(1, 3, 3))
t.bmm(c(x(1, 3, 3)), x(1, 3, 3))
t.mm(c(x(3, 3)), x(3, 3))
t.vdot(c(x(3)), x(3))
t.dot(c(x(3)), x(3))
t.dot(c(x(3)), c(x(3)))
t.inner(c(x(3)), x(3))
t.inner(c(x(3)), c(x()))
t.inner(c(x(2, 3)), x(2, 3))
t.tensordot(c(x(2, 2)), x(2, 2), 1)
t.bilinear(c(x(2, 3)), x(2, 4), c(x(5, 3, 4)), x(5))
t.cross(c(x(2, 3)), x(2, 3))
t.linalg.cross(c(x(2, 3)), c(x(2, 3)))
t.atan2(c(x(3)), x(3))
t.addcdiv(c(x(3)), x(3), c(x(3)))
t.index_put(c(x(3)), (i(0, 1),), x(2))
t.scatter_add(c(x(3)), 0, i(0, 1), x(2))
t.cat([c(x(3)), x(3)])
t.stack([c(x(3)), x(3)])
t.dist(c(x(3)), c(x(3)))
t.norm(c(s), 2, 0)
t.norm(c(s), "fro", (0, 1))
t.norm(c(s), "nuc", (0, 1))
t.nuclear_norm(c(s))
t.frobenius_norm(c(s), 0)
t.linalg.norm(c(s), "nuc")
t.linalg.norm(c(s), 2, 1)
t.linalg.matrix_norm(c(s))
t.linalg.matrix_norm(c(s), 2)
t.linalg.vector_norm(c(s))
t.linalg.vecdot(c(x(3)), x(3))
t.linalg.qr(c(x(3, 2)))
t.linalg.svd(c(x(3, 2)))
t.linalg.slogdet(c(s))
t.geqrf(c(x(3, 2)))
t.ormqr(c(x(3, 2)), c(x(2)), c(x(3, 2)))
t.logsumexp(c(x(3, 4)), 0)
t.logaddexp(c(x(3)), c(x(3)))
t.trapezoid(c(x(3)))
t.trapezoid(c(x(3)), c(x(3)))
t.trapz(c(x(3)))
t.cumulative_trapezoid(c(x(3)), c(x(3)))
t.cumulative_trapezoid(c(x(3)))
t.logcumsumexp(c(x(3)), 0)
t.fake_quantize_per_tensor_affine(c(x(3)), 0.1, 0, 0, 5)
t.sum(c(x(3)))
t.sum(c(x(3)), dtype=t.float16)
t.sum(c(x(3, 4)), 0)
t.nansum(c(x(3)))
t.mean(c(x(3)))
t.var(c(x(3)))
t.prod(c(x(3)))
t.prod(c(x(3, 4)), 0, dtype=t.float64)
t.cumprod(c(x(3)), 0)
t.cumsum(c(x(3)), 0, dtype=t.bfloat16)
t.softmax(c(x(3)), 0, dtype=t.float16)
F.softmin(c(x(3)), 0)
F.softmax(c(x(3)), 0)
F.log_softmax(c(x(3)), 0)
F.gumbel_softmax(c(x(3, 4)))
F.softplus(c(x(3)))
F.gelu(c(x(3)))
F.tanhshrink(c(x(3)))
F.logsigmoid(c(x(3)))
t.renorm(c(x(3, 4)), 2, 0, 1)
F.normalize(c(x(3, 4)))
F.layer_norm(c(x(3, 4)), (4,), x(4), x(4))
F.group_norm(c(x(1, 4, 3)), 2)
F.group_norm(c(x(1, 4, 3)), 2, x(4), x(4))
F.rms_norm(c(x(3, 4)), (4,))
F.rms_norm(c(x(3, 4)), (4,), x(4))
F.batch_norm(c(x(2, 3, 4)), x(3), x(3), training=True)
F.instance_norm(c(x(2, 3, 4)))
F.local_response_norm(c(x(2, 3, 4)), 2)
F.pairwise_distance(c(x(3, 4)), c(x(3, 4)))
F.cosine_similarity(c(x(3, 4)), x(3, 4))
F.binary_cross_entropy(c(x(3)), c(x(3)))
F.binary_cross_entropy_with_logits(c(x(3)), c(x(3)), c(x(3)), pos_weight=x(3))
F.poisson_nll_loss(c(x(3)), c(x(3)))
F.poisson_nll_loss(c(x(3)), c(x(3)), log_input=False, full=True)
F.kl_div(c(x(3, 4)), c(x(3, 4)))
F.kl_div(c(x(3, 4)), c(x(3, 4)), log_target=True, reduction="batchmean")
F.l1_loss(c(x(3)), c(x(3)))
F.smooth_l1_loss(c(x(3)), x(3))
F.huber_loss(c(x(3)), c(x(3)))
F.soft_margin_loss(c(x(3)), c(x(3)))
F.triplet_margin_loss(c(x(3, 4)), c(x(3, 4)), c(x(3, 4)))
F.multilabel_margin_loss(c(x(3, 4)), i(0, 1, 2, 0).reshape(1, 4).expand(3, 4))
F.nll_loss(c(x(3, 4)), i(0, 1, 2))
F.cross_entropy(c(x(3, 4)), i(0, 1, 2))
F.cross_entropy(c(x(1, 3, 2)), i(0, 1).reshape(1, 2))
F.interpolate(c(x(1, 1, 3)), scale_factor=2)
F.interpolate(c(x(1, 1, 3)), scale_factor=2, mode="linear")
F.interpolate(c(x(1, 1, 3)), 5, mode="nearest-exact")
F.interpolate(c(x(1, 1, 3, 3)), 5, mode="nearest-exact")
F.interpolate(c(x(1, 1, 3, 3, 3)), 5, mode="nearest-exact")
F.interpolate(c(x(1, 1, 3, 3)), 5)
F.interpolate(c(x(1, 1, 3, 3)), 5, mode="bicubic")
F.interpolate(c(x(1, 1, 3, 3)), 2, mode="bicubic", antialias=True)
F.interpolate(c(x(1, 1, 3, 3)), 2, mode="bilinear", antialias=True)
F.interpolate(c(x(1, 1, 3, 3, 3)), 5)
F.interpolate(c(x(1, 1, 3, 3, 3)), 5, mode="trilinear")
t.fft.ifft(c(x(4)))
t.fft.rfft(c(x(4)))
t.fft.fft2(c(x(4, 4)))
t.fft.ifft2(c(x(4, 4)))
t.fft.irfft2(c(x(4, 4)))
t.fft.ifftn(c(x(4, 4)))
t.fft.rfftn(c(x(4, 4)))
t.fft.irfftn(c(x(4, 4)))
t.fft.hfft2(c(x(4, 4)))
t.fft.ihfft2(c(x(4, 4)))
t.fft.hfftn(c(x(4, 4)))
t.fft.ihfftn(c(x(4, 4)))
F.interpolate(c(x(1, 1, 3)), 5, mode="area")
F.pad(c(x(1, 4)), (1, 1))
F.pad(c(x(1, 1, 4, 4)), (1, 1, 1, 1), "reflect")
F.pad(c(x(1, 1, 4, 4, 4)), (1, 1, 1, 1, 1, 1), "replicate")
F.max_unpool2d(c(x(1, 2, 2)), i(0, 1, 2, 3).reshape(1, 2, 2), 2)
F.max_unpool3d(c(x(1, 2, 2, 2)), i(0, 1, 2, 3, 4, 5, 6, 7).reshape(1, 2, 2, 2), 2)
F.fractional_max_pool2d(c(x(2, 3, 5, 5)), 2, 3, _random_samples=c(x(2, 3, 2)))
F.fractional_max_pool3d(c(x(2, 3, 5, 5, 5)), 2, 3, _random_samples=c(x(2, 3, 3)))
F.grid_sample(c(x(1, 2, 4, 4)), x(1, 3, 3, 2), align_corners=False)
F.grid_sample(c(x(1, 2, 4, 4, 4)), x(1, 3, 3, 3, 3), align_corners=False)
t.fft.fft(c(x(4)))
t.fft.rfft2(c(x(4, 4)))
t.fft.irfft(c(x(4)))
t.fft.hfft(c(x(4)))
t.fft.ihfft(c(x(4)))
t.fft.fftn(c(x(4, 4)))
t.stft(c(x(64)), 16, return_complex=True)
t.rnn_tanh_cell(c(x(2, 3)), x(2, 4), x(4, 3), x(4, 4), x(4), x(4))
t.rnn_relu_cell(c(x(2, 3)), x(2, 4), x(4, 3), x(4, 4))
t.gru_cell(c(x(2, 3)), x(2, 4), x(12, 3), x(12, 4), x(12), x(12))
t.lstm_cell(c(x(2, 3)), (x(2, 4), x(2, 4)), x(16, 3), x(16, 4), x(16), x(16))
t._native_multi_head_attention(c(x(1, 2, 4)), c(x(1, 2, 4)), c(x(1, 2, 4)), 4, 2, x(12, 4), x(12), x(4, 4), x(4))
t.special.logsumexp(c(x(3)), 0)
t.special.erfinv(c(x(3)))
t.special.expm1(c(x(3)))
t.special.log1p(c(x(3)))
t.special.log_softmax(c(x(3)), 0)
t.special.xlogy(c(x(3)), c(x(3)))
t.rsub(c(x(3)), 1)
1 / c(x(3))
2.0 ** c(x(3))
c(x(3)) ** x(3)
c(x(3)) ** 2
c(x(3)) / c(x(3))
t.sigmoid(c(x(3)))
t.logit(c(x(3)))
t.sqrt(c(x(3)))
t.std(c(x(3)))
""".strip().splitlines()


@contextmanager
def autocast(kind, low):
    """Autocast of both libraries, on for one kind of devices alone; ours takes "meta" for it."""
    before = layer.types_of(kind)
    layer._TYPES[kind] = frozenset(("meta",))
    settings = [(t, t.get_autocast_dtype(kind)) for t in (torch, torchlike)]
    try:
        for t, _ in settings:
            t.set_autocast_dtype(kind, getattr(t, low))
            t.set_autocast_enabled(kind, True)
        with FakeTensorMode() if kind == "cuda" else nullcontext(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for t, dtype in settings:
            t.set_autocast_enabled(kind, False)
            t.set_autocast_dtype(kind, dtype)
            t.clear_autocast_cache()
        layer._TYPES[kind] = before


def dtypes(f):
    """The dtypes of what ``f`` gives that is not of integers, or None where it refuses."""
    try:
        out = f()
    except (RuntimeError, TypeError, ValueError, AssertionError, IndexError):
        return None
    return [str(x.dtype).partition(".")[2] for x in tensors(out) if x.is_floating_point() or x.is_complex()]


def tensors(out):
    if isinstance(out, tuple | list):
        return [x for part in out for x in tensors(part)]
    return [] if out is None else [out]


# -- public functions -------------------------------------------------------------------------------------------
def names(t, device, kind):
    def x(*shape):
        return (t.arange(1.0, 1 + math.prod(shape), device=device) * 0.618 % 1 + 0.1).reshape(shape)

    def i(*v):
        return t.tensor(v) if device == "cpu" else t.empty(len(v), dtype=t.int64, device=device)

    names = {"t": t, "F": t.nn.functional, "x": x, "i": i, "c": lambda v: v.to(getattr(t, kind))}
    return names | {"s": x(3, 3) + x(3, 3).t() + 3 * t.eye(3, device=device)}


def public(t, device, line, given):
    return dtypes(lambda: eval(line, names(t, device, given)))


# What is left out: values that "meta" has not; what fake tensors compute otherwise than a GPU, by functions that
# autocast sees there (as on CPUs, where real tensors show it) or without the check that two dtypes are one.
LEFT_OUT = {"cpu": ("ctc_loss", "t.tensor("), "cuda": ("t.tensor(", "pinv", "affine_grid", "index_copy")}


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_functions(kind, low):
    wrong = []
    lines = [x for x in dict.fromkeys(CALLS + MORE) if not any(word in x for word in LEFT_OUT[kind])]
    with autocast(kind, low):
        for line in lines:
            for given in ("float32", "float16", "bfloat16"):
                theirs = public(torch, kind, line, given)
                if theirs is not None or kind == "cpu" and given == "float32":
                    ours = public(torchlike, "meta", line, given)
                    if ours != theirs and not _no_kernel(ours, theirs, given):
                        wrong.append((line, given, ours, theirs))
    assert not wrong


def _no_kernel(ours, theirs, given):
    """Whether there is none for ``given``, which fake tensors do not tell, rather than a cast that is missing."""
    return ours is None and given != "float32" and "float32" not in theirs


# -- operators --------------------------------------------------------------------------------------------------
def given(t, device, values, order):
    """The sample in the dtypes of ``order``, in turn."""
    turn = iter(order * len(values))
    if device == "cpu":
        made = [t.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for v in values]
    else:
        made = [
            t.empty(v.shape, dtype=getattr(t, v.dtype.name), device=device) if isinstance(v, np.ndarray) else v
            for v in values
        ]
    return [v.to(getattr(t, next(turn))) if isinstance(v, t.Tensor) and v.is_floating_point() else v for v in made]


def operator(op, values, static, order, kind):
    """(ours, PyTorch's): the dtypes of the results of one operator."""
    theirs = dtypes(lambda: overload(op)(**by_name(op, given(torch, kind, values, order), static)))
    return dtypes(lambda: call(op, tuple(given(torchlike, "meta", values, order)), static)), theirs


# PyTorch casts in the public functions that call these, which are compared above.
INNER = frozenset(
    "convolution _adaptive_avg_pool3d grid_sampler_2d grid_sampler_3d affine_grid_generator _fused_rms_norm".split()
)


def rules(kind):
    """PyTorch's operators that have a class, and those that call others, on which autocast may act."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    known = torch._C._dispatch_get_all_op_names()
    return ({x for x in known if has(x, key)} for key in (f"Autocast{kind.upper()}", "CompositeImplicitAutograd"))


def compared(kind):
    """Our operators of either class, those that PyTorch computes by others too, with a sample."""
    classed, composite = rules(kind)
    for name, op in OPERATORS.items():
        theirs = overload(op)
        if theirs is not None and name not in INNER and (op.autocast.get(kind) or theirs.name() in classed | composite):
            found = sample(op)
            if found is not None:
                yield name, op, found


@pytest.mark.parametrize("kind", KINDS)
def test_operators(kind):
    wrong = []
    with autocast(kind, "bfloat16"):
        for name, op, found in compared(kind):
            for order in GIVEN:
                ours, theirs = operator(op, *found, order.split(), kind)
                if theirs is not None and ours != theirs and not _no_kernel(ours, theirs, order):
                    wrong.append((name, order, ours, theirs))
    assert not wrong


# PyTorch's own names of what the lines above compute, by the public one; and what is neither PyTorch's to call nor
# here: parts of its libraries, and quantization.
PARTS = {
    "upsample": "interpolate", "cell": "lstm_cell", "convolution": "conv2d", "cross_entropy_loss": "cross_entropy",
    "nll_loss2d": "nll_loss", "grid_sampler": "grid_sample", "lu_with_info": "lu", "_pad": "pad",
    "multilabel_margin_loss_forward": "multilabel_margin_loss", "_flash_attention": "scaled_dot_product_attention",
}  # fmt: skip
ABSENT = frozenset(["_addmm_activation", "mkldnn_rnn_layer"])


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_of_pytorch_is_compared(kind):
    called = " ".join(CALLS + MORE)
    seen = {name.partition(".")[0] for name, _, _ in compared(kind)}
    left = {x.removeprefix("aten::").partition(".")[0] for x in next(rules(kind))} - ABSENT - seen
    for name in list(left):
        public = next((found for part, found in PARTS.items() if part in name), name)
        if f".{public.removeprefix('linalg_').removeprefix('fft_')}(" in called:
            left.remove(name)
    assert not left
