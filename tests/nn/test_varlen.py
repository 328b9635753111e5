"""``varlen_attn`` against PyTorch's attention of each sequence alone (its own kernel runs on GPUs only)."""

import itertools

import pytest
import torch
from both import agree_error

import torchlike
from torchlike.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out

LENGTHS = ((4, 6), (3, 3), (0, 2), (5, 1))  # of queries and of keys, in each sequence


def starts(lengths):
    return [0, *itertools.accumulate(lengths)]


def masks(q, k, window):
    """Which keys each query sees, of one sequence."""
    i, j = torch.arange(q)[:, None] + k - q, torch.arange(k)[None]
    seen = torch.ones(q, k, dtype=torch.bool)
    if window[0] >= 0:
        seen &= j >= i - window[0]
    if window[1] >= 0:
        seen &= j <= i + window[1]
    return seen


def expected(q, k, v, window, scale, grouped):
    """The output for each sequence alone, by PyTorch."""
    outs = []
    for (a, b), (c, d) in zip(*(itertools.pairwise(starts(n)) for n in zip(*LENGTHS, strict=True)), strict=True):
        parts = [x[s:e].transpose(0, 1)[None] for x, s, e in ((q, a, b), (k, c, d), (v, c, d))]
        mask = masks(b - a, d - c, window)
        out = torch.nn.functional.scaled_dot_product_attention(*parts, mask, scale=scale, enable_gqa=grouped)
        outs.append(torch.where(mask.any(-1)[:, None], out, 0.0)[0].transpose(0, 1))
    return torch.cat(outs)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize("grouped", [False, True])
def test_each_sequence_alone(window, grouped):
    torch.manual_seed(0)
    totals = [sum(n) for n in zip(*LENGTHS, strict=True)]
    shapes = [(totals[0], 4, 8)] + 2 * [(totals[1], 2 if grouped else 4, 8)]
    theirs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    ours = [torchlike.tensor(x.tolist(), dtype=torchlike.float64, requires_grad=True) for x in theirs]
    want = expected(*theirs, window, 0.3, grouped)
    cu = [torchlike.tensor(starts(n), dtype=torchlike.int32) for n in zip(*LENGTHS, strict=True)]
    got = varlen_attn(*ours, *cu, 5, 6, scale=0.3, window_size=window, enable_gqa=grouped)
    cotangent = torch.randn(want.shape, dtype=torch.float64)
    (want * cotangent).sum().backward()
    (got * torchlike.tensor(cotangent.tolist(), dtype=torchlike.float64)).sum().backward()
    for a, b in zip([got.detach(), *(x.grad for x in ours)], [want.detach(), *(x.grad for x in theirs)], strict=True):
        torch.testing.assert_close(torch.tensor(a.tolist(), dtype=torch.float64), b)


def packed(t=torchlike, heads=2, of_keys=2, dtype="float32"):
    shapes = (10, heads, 4), (10, of_keys, 4), (10, of_keys, 4)
    x = [t.arange(10.0 * h * d).reshape(n, h, d).sin().to(getattr(t, dtype)) for n, h, d in shapes]
    return *x, t.tensor([0, 4, 10], dtype=t.int32), t.tensor([0, 4, 10], dtype=t.int32)


def test_logarithms_dtypes_and_out():
    q, k, v, cu, _ = packed(dtype="bfloat16")
    out, lse = varlen_attn(q, k, v, cu, None, 6, 6, return_aux=AuxRequest(lse=True))
    assert (out.dtype, lse.dtype, lse.shape) == (torchlike.bfloat16, torchlike.float32, (2, 10))
    scores = q[:4, 0].float() @ k[:4, 0].float().T / 2
    torchlike.testing.assert_close(lse[0, :4], scores.logsumexp(-1))
    into = torchlike.empty_like(q)
    assert varlen_attn_out(into, q, k, v, cu, cu, 6, 6) is into
    assert torchlike.equal(into, out)
    assert AuxRequest() == (False,)


def test_keys_that_count_and_pages():
    q, k, v, cu, _ = packed()
    used = torchlike.tensor([2, 5], dtype=torchlike.int32)
    want = varlen_attn(q, k, v, cu, cu, 6, 6, seqused_k=used)
    rows = [0, 1, 4, 5, 6, 7, 8]
    short = torchlike.tensor([0, 2, 7], dtype=torchlike.int32)
    torchlike.testing.assert_close(want, varlen_attn(q, k[rows], v[rows], cu, short, 6, 6))
    order = [3, 0, 2, 1, 4]  # five pages of two tokens; sequence 0 has the first two, sequence 1 the rest
    pages = [x.reshape(5, 2, 2, 4)[order] for x in (k, v)]
    table = torchlike.tensor([[1, 3, 0], [2, 0, 4]], dtype=torchlike.int32)
    got = varlen_attn(q, *pages, cu, None, 6, 6, seqused_k=used, block_table=table)
    torchlike.testing.assert_close(got, want)


def test_compiled():
    q, k, v, cu, _ = packed()
    f = torchlike.compile(lambda q, cu: varlen_attn(q, k, v, cu, cu, 6, 6, window_size=(-1, 0)))
    torchlike.testing.assert_close(f(q, cu), varlen_attn(q, k, v, cu, cu, 6, 6, window_size=(-1, 0)))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda f, t: f(*packed(t, 4, 2), 6, 6), "same number of heads but got Hq=4 and Hkv=2"),
        (lambda f, t: f(*packed(t, 4, 3), 6, 6, enable_gqa=True), "multiple of kv heads"),
        (lambda f, t: f(*packed(t), 6, 6, window_size=(1, 2, 3)), "length 2, got 3"),
        (lambda f, t: f(*packed(t), 6, 6, window_size=3), "iterable"),
    ],
)
def test_wrong_calls(call, match):
    agree_error(lambda t: call(__import__(t.__name__ + ".nn.attention.varlen", fromlist="x").varlen_attn, t), match)


def test_a_sequence_that_is_too_long():
    with pytest.raises(RuntimeError, match="inference-only"):
        varlen_attn(packed()[0].requires_grad_(), *packed()[1:], 6, 6, seqused_k=packed()[3][:2])
    with pytest.raises(RuntimeError, match="max_k=3, but there is a sequence of 6"):
        varlen_attn(*packed(), 6, 3).sum().item()
    with pytest.raises(ValueError, match="needs seqused_k"):
        varlen_attn(*packed(), 6, 6, block_table=torchlike.zeros(2, 2, dtype=torchlike.int32))
