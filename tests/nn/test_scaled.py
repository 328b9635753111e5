"""Products in groups, and of scaled float8 matrices: with torch and with torchlike."""

import numpy as np
import pytest
import torch
from both import agree
from story_kit import said, story

import torchlike


def waves(t, *shape, dtype="float32"):
    count = int(np.prod(shape))
    return t.arange(count, dtype=t.float64).mul(0.37).sin().reshape(shape).to(getattr(t, dtype))


def ends(t, *numbers):
    return t.tensor(numbers, dtype=t.int32)


SHAPES = {
    "rows": ((8, 4), (3, 4, 8), (2, 5, 8)),
    "an empty group": ((8, 4), (3, 4, 8), (0, 5, 8)),
    "columns": ((3, 4, 8), (8, 8), (4, 4, 8)),
    "sums": ((4, 8), (8, 4), (3, 8)),
    "batches": ((3, 4, 8), (3, 8, 4), None),
    "no rows": ((0, 4), (3, 4, 8), (0, 0, 0)),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", SHAPES)
def test_groups(case, dtype):
    a, b, offs = SHAPES[case]

    def run(t):
        widen = 2 if dtype == "bfloat16" else 1  # strides of 16 bytes
        x, w = (
            waves(t, *a[:-1], a[-1] * widen, dtype=dtype),
            waves(t, *b[:-2], b[-2] * widen, b[-1] * widen, dtype=dtype),
        )
        of = offs if offs is None else ends(t, *(n * widen for n in offs) if case in ("columns", "sums") else offs)
        x, w = x.requires_grad_(), w.requires_grad_()
        y = t.nn.functional.grouped_mm(x, w, offs=of)
        grads = t.autograd.grad((y * y).sum(), [x, w])
        return [z.detach().float().numpy() for z in (y, *grads)], str(y.dtype), tuple(y.shape)

    (ours, *told), (theirs, *expected) = run(torchlike), run(torch)
    assert told == expected
    for x, y in zip(ours, theirs, strict=True):
        assert abs(x - y).max(initial=0) < (1e-5 if dtype == "float32" else 0.1) * (1 + abs(y).max(initial=0))


@story
def test_wrong_groups(t):
    f, a, b, offs = t.nn.functional.grouped_mm, waves(t, 8, 16), waves(t, 3, 16, 32), ends(t, 2, 5, 8)
    calls = [lambda: f(a[0], b, offs=offs), lambda: f(a[:, :8], b, offs=offs), lambda: f(a, b, offs=offs[:2]),
             lambda: f(b.transpose(1, 2), b, offs=offs), lambda: f(b.transpose(1, 2)[:2], b), lambda: f(a, b),
             lambda: f(a, b.double(), offs=offs), lambda: f(a, b.bfloat16(), offs=offs),
             lambda: f(a, b, offs=offs[None]), lambda: f(a, b, offs=offs.long()), lambda: f(a, b, offs=[2, 5, 8]),
             lambda: f(a, b, offs=offs, bias=a[0]),
             lambda: f(a, b, offs=offs, out_dtype=t.bfloat16)]  # fmt: skip
    patterns = (
        "mat_a has to be 2 or 3d|contraction dimension|matrix batch sizes have to match|Have to provide offsets|"
        "batched dimension has to match|Expected mat_b to be|same dtype|offs has to be 1D|int32|must be Tensor|"
        "Bias not|must match"
    )
    return [said(c, patterns) for c in calls]


@pytest.mark.parametrize("wise", ["TensorWise", "RowWise"])
@pytest.mark.parametrize("kinds", [("float8_e4m3fn",) * 2, ("float8_e5m2", "float8_e4m3fn")])
def test_scaled(wise, kinds):
    def script(t):
        f = t.nn.functional
        how = getattr(f.ScalingType, wise)
        a, b = waves(t, 16, 32).to(getattr(t, kinds[0])), waves(t, 32, 16).to(getattr(t, kinds[1]))
        rows = wise == "RowWise"
        sa, sb = (t.full((16, 1), 2.0), t.full((1, 16), 0.5)) if rows else (t.tensor(2.0), t.tensor([0.5]))
        out = [f.scaled_mm(a, b, sa, how, sb, how), f.scaled_mm(a, b, [sa], [how], [sb], [how], output_dtype=t.float32)]
        out += [f.scaled_mm(a, b, sa, how, sb, how, bias=t.ones(16), use_fast_accum=True, output_dtype=t.float32)]
        return [(x.dtype, [f"{v:.3g}" for v in x.float().flatten().tolist()]) for x in out]

    agree(script)


@story
def test_the_private_product_of_floats_of_eight_bits(t):
    # quarters and short scales: float16 holds every sum, in whatever order and type a processor has them on the way
    quarters = lambda *shape: waves(t, *shape).mul(4).round().div(4)  # noqa: E731
    a, b = (quarters(*n).to(t.float8_e4m3fn) for n in ((16, 32), (32, 16)))
    sa, sb, bias = t.arange(16)[:, None] % 3 / 4 + 0.25, 2.0 ** (t.arange(16)[None] % 7), quarters(16).bfloat16()
    one, two, mm, short = t.tensor(0.375), t.tensor(0.5), t._scaled_mm, t.bfloat16
    made = [
        mm(a, b, one, two * 8), mm(a, b, sa, sb), mm(a, b, scale_a=sa, scale_b=sb, bias=bias, out_dtype=short),
        mm(a, b, one, two, bias, two, t.float32, use_fast_accum=True), mm(a.to(t.float8_e5m2), b, one, two),
        mm(a[:3, :7], b[:7, :5], one, two, out_dtype=t.float32), t.ops.aten._scaled_mm(a, b, one, two),
    ]  # fmt: skip
    y = mm(a, b, one.clone().requires_grad_(), two, out_dtype=t.float32)
    how = t.nn.functional.ScalingType.TensorWise
    z = t.nn.functional.scaled_mm(a, b, one.clone().requires_grad_(), how, two, how, output_dtype=None)
    calls = [
        lambda: y.sum().backward(), lambda: mm(a.float(), b, one, one), lambda: mm(a, a, one, one),
        lambda: mm(a, b, sa, one), lambda: mm(a, b, one, one, bias[:3]), lambda: mm(a[None], b, one, one),
    ]  # fmt: skip
    patterns = "derivative for aten::_scaled_mm|Invalid scaling configuration|cannot be mult|Bias must be|be a matrix"
    told = [said(c, patterns) for c in calls]
    seen = [(x.dtype, x.float()) for x in [*made, y.detach(), z.detach()]]
    return seen, (y.requires_grad, z.requires_grad), told


@story
def test_wrong_scales(t):
    f, a, one = t.nn.functional, waves(t, 16, 16).to(t.float8_e4m3fn), t.tensor(1.0)
    kinds, orders = f.ScalingType, f.SwizzleType
    whole, rows = kinds.TensorWise, kinds.RowWise
    f1 = t.ones(2)
    given = [(a.float(), a, one, whole, one, whole), (a, a, one, whole, one, rows), (a, a[:8], one, whole, one, whole),
             (a[None], a, one, whole, one, whole), (a, a, f1, whole, one, whole), (a, a, one.half(), whole, one, whole),
             (a, a, one, kinds.BlockWise1x128, one, kinds.BlockWise1x128),
             (a, a, one, whole, one, whole, orders.SWIZZLE_32_4_4, orders.NO_SWIZZLE)]  # fmt: skip
    calls = [lambda x=x: f.scaled_mm(*x) for x in given]
    patterns = "Invalid scaling configuration|cannot be multiplied|must be a matrix|must have 1 Float|does not support"
    return [said(c, patterns) for c in calls], [k.value for k in (kinds.BlockWise128x128, orders.NO_SWIZZLE)]
