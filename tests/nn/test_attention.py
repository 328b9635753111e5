"""Attention and Transformer layers, against PyTorch."""

import warnings

import numpy as np
import pytest
import torch
from both import agree
from layer_kit import layer, pair, same_refusal
from oracle import assert_same, check, check_error, host, to_ours, to_torch

import torchlike

rng = np.random.RandomState(0)
INF = np.inf


def r(*shape, dtype=np.float64):
    return rng.standard_normal(shape).astype(dtype)


def attend(**options):
    return lambda t, q, k, v, *mask: t.nn.functional.scaled_dot_product_attention(q, k, v, *mask, **options)


Q, K, V = r(2, 3, 4, 8), r(2, 3, 5, 8), r(2, 3, 5, 6)
ALLOWED = rng.rand(4, 5) > 0.4
ALLOWED[1] = False
CASES = {
    "plain": (attend(), Q, K, V),
    "causal": (attend(is_causal=True), Q, K, V),
    "bool mask, a row with nothing": (attend(), Q, K, V, ALLOWED),
    "float mask": (attend(), Q, K, V, r(4, 5)),
    "mask of every head": (attend(), Q, K, V, r(2, 3, 4, 5)),
    "scale": (attend(scale=0.3), Q, K, V),
    "scale 0": (attend(scale=0.0), Q, K, V),
    "no batch": (attend(), r(4, 8), r(5, 8), r(5, 6)),
    "three dimensions": (attend(is_causal=True), r(2, 4, 8), r(2, 5, 8), r(2, 5, 6)),
    "shared heads": (attend(enable_gqa=True), r(2, 4, 3, 8), r(2, 2, 5, 8), r(2, 2, 5, 8)),
    "broadcast": (attend(), r(2, 4, 3, 8), r(1, 4, 5, 8), r(1, 4, 5, 8)),
    "no queries": (attend(), r(2, 3, 0, 8), K, V),
    "large scores": (attend(scale=1e4), Q, K, V),
    "no features": (attend(), r(2, 3, 4, 0), r(2, 3, 5, 0), V),
    "no keys": (attend(), Q, r(2, 3, 0, 8), r(2, 3, 0, 8)),
    "five dimensions": (attend(), r(1, 2, 3, 4, 8), r(1, 2, 3, 5, 8), r(1, 2, 3, 5, 6), r(3, 1, 5)),
    "a mask and causal": (lambda t, q, k, v, m: attend(is_causal=True)(t, q, k, v, m.detach()), Q, K, K, r(4, 5)),
    "dropout below 0": (attend(dropout_p=-1.0), Q, K, V),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_attention(case):
    # PyTorch has no second derivative of its kernel for shared heads.
    check(*CASES[case], stride=False, gradgrad=case not in ("no queries", "shared heads", "a mask and causal"), tol=10)


def test_masked_by_infinity():
    mask = np.where(ALLOWED, 0, -INF)
    check(lambda t, q, k, v, m: attend()(t, q, k, v, m.detach()), Q, K, V, mask, stride=False, tol=10)


def test_short_dtypes():
    f16 = [x.astype(np.float16) for x in (Q, K, V)]
    check(attend(), *f16, grad=False, stride=False, tol=2)
    check(attend(), *f16, r(4, 5).astype(np.float32), grad=False, stride=False, tol=2)


def test_dropout_of_weights():
    """Each weight is dropped with probability p, and the others scaled, in forward and backward alike."""
    q, k = to_ours(np.zeros((1, 300, 4))), to_ours(np.zeros((1, 200, 4)))
    v = to_ours(np.eye(200)[None]).requires_grad_()
    out = torchlike.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    weights = host(out)[0] * 200
    assert set(np.round(np.unique(weights), 9)) == {0.0, round(4 / 3, 9)}
    assert abs((weights == 0).mean() - 0.25) < 0.01
    out.sum().backward()
    np.testing.assert_allclose(host(v.grad)[0, :, 0], weights.sum(0) / 200)


BAD = {
    "mask and causal": (attend(is_causal=True), Q, K, V, ALLOWED, "Explicit attn_mask should not be set"),
    "mask and causal, 3-d": (attend(is_causal=True), Q[0], K[0], V[0], ALLOWED, "Explicit attn_mask should not be set"),
    "mask of more dimensions": (attend(), Q[0], K[0], V[0], r(2, 3, 4, 5), "broadcast"),
    "mask of more heads": (attend(), Q[:, :1], K[:, :1], V[:, :1], r(3, 4, 5), "broadcast"),
    "arguments": (lambda t, q: attend()(t, q, q, q, None, 0.0, True, 1.0), Q, "takes from 3 to 6 positional arguments"),
    "rank": (attend(), r(4), r(4), r(4), "at least 2 dimensional"),
    "dtype": (attend(), Q, K.astype("f"), V, "to have the same dtype"),
    "integers": (attend(), *(np.ones((2, 3, 4), np.int64),) * 3, "expected scalar type Float"),
    "features": (attend(), Q, r(2, 3, 5, 7), V, "expected query"),
    "positions": (attend(), Q, K, r(2, 3, 4, 6), "expected query"),
    "heads": (attend(), r(2, 4, 3, 8), r(2, 2, 5, 8), r(2, 2, 5, 8), "must broadcast"),
    "mask": (attend(), Q, K, V, r(4, 4), "attn_mask"),
    "mask dtype": (attend(), Q, K, V, np.ones((4, 5), np.int64), "attn_mask dtype"),
    "gqa": (attend(enable_gqa=True), r(2, 4, 3, 8), r(2, 3, 5, 8), r(2, 3, 5, 8), "must divide"),
    "dropout": (attend(dropout_p=1.5), Q, K, V, "between 0 and 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    f, *arrays, match = BAD[case]
    check_error(f, *arrays, match=match)


X, Y, Z = (r(4, 3, 8, dtype=np.float32) for _ in range(3))
PADDED = np.array([[False] * 4, [False, True, True, True], [False, False, True, True]])
CAUSAL = ~np.tri(4, dtype=bool)
HEADS = {
    "self": (lambda nn: nn.MultiheadAttention(8, 2), lambda m, x, y, z: m(x, x, x)),
    "memory": (lambda nn: nn.MultiheadAttention(8, 2), lambda m, x, y, z: m(x, y, y)),
    "three": (lambda nn: nn.MultiheadAttention(8, 4, bias=False), lambda m, x, y, z: m(x, y, z)),
    "no weights": (lambda nn: nn.MultiheadAttention(8, 2), lambda m, x, y, z: m(x, y, z, need_weights=False)),
    "every head": (
        lambda nn: nn.MultiheadAttention(8, 2), lambda m, x, y, z: m(x, y, z, average_attn_weights=False),
    ),
    "batch first": (lambda nn: nn.MultiheadAttention(8, 2, batch_first=True), lambda m, x, y, z: m(x, x, x)),
    "sizes": (lambda nn: nn.MultiheadAttention(8, 2, kdim=8, vdim=5), lambda m, x, y, z: m(x, y, z[..., :5])),
    "extra keys": (
        lambda nn: nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True),
        lambda m, x, y, z: m(x, y, z),
    ),
    "unbatched": (lambda nn: nn.MultiheadAttention(8, 2), lambda m, x, y, z: m(x[:, 0], y[:, 0], y[:, 0])),
}  # fmt: skip


def test_merged_masks():
    def merged(t):
        m, x = t.nn.MultiheadAttention(4, 2), t.zeros(2, 3, 4)
        square, cube, padding = t.arange(9.0).view(3, 3), t.arange(36.0).view(4, 3, 3), t.arange(6.0).view(2, 3)
        pairs = [(None, None), (None, padding), (square, None), (cube, None), (square, padding), (cube, padding)]
        return [m.merge_masks(*pair, x) for pair in [*pairs, (square > 4, padding > 2)]]

    agree(merged)


@pytest.mark.parametrize("case", HEADS)
def test_heads(case):
    make, call = HEADS[case]
    layer(make, X, Y, Z, call=call, tol=5)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", [False, True])
def test_masks_of_heads(need_weights, extra):
    def call(m, x, padding, causal):
        options = {"need_weights": need_weights}
        one = m(x, x, x, attn_mask=causal, key_padding_mask=padding, **options)
        two = m(x, x, x, attn_mask=causal.to(x.dtype) * -2.5, **options)
        three = m(x, x, x, attn_mask=causal.expand(6, 4, 4), **options)
        return one, two, three

    layer(
        lambda nn: nn.MultiheadAttention(8, 2, add_bias_kv=extra, add_zero_attn=extra),
        X,
        PADDED,
        CAUSAL,
        call=call,
        tol=5,
    )


def test_nothing_to_attend_to():
    """NaN with weights, zeros without, as in PyTorch (whose gradients are NaN in both cases)."""
    everything = np.ones((3, 4), bool)
    layer(
        lambda nn: nn.MultiheadAttention(8, 2),
        X,
        everything,
        call=lambda m, x, p: m(x, x, x, key_padding_mask=p),
    )

    def without_weights(m, x, padding):
        return m(x, x, x, key_padding_mask=padding, need_weights=False)[0].detach()

    layer(lambda nn: nn.MultiheadAttention(8, 2), X, everything, call=without_weights)


STATIC = {"static_k": r(6, 7, 4), "static_v": r(6, 7, 4)}
FIXED = {
    "both": STATIC,
    "keys": {"static_k": r(6, 5, 4)},
    "values of one input": {"static_v": r(6, 5, 4), "shared": True},
    "masked": {"static_k": r(6, 5, 4), "attn_mask": rng.rand(4, 5) > 0.7, "need_weights": False},
    "heads": {"static_k": r(4, 7, 4)},
    "features": {"static_v": r(6, 7, 5)},
    "biases": STATIC | {"bias_k": r(1, 1, 8), "bias_v": r(1, 1, 8)},
}


@pytest.mark.parametrize("case", FIXED)
def test_given_keys_and_values(case):
    """Keys and values that are not projected."""
    options = dict(FIXED[case])
    shared = options.pop("shared", False)
    bias_k, bias_v = options.pop("bias_k", None), options.pop("bias_v", None)
    names = list(options)

    def run(t, q, k, w, b, *given):
        given = dict(zip(names, given, strict=True)) if names else {}
        lift = to_ours if t is torchlike else to_torch
        extra = [None if x is None else lift(x) for x in (bias_k, bias_v)]
        options_now = {n: given[n] if isinstance(options[n], np.ndarray) else options[n] for n in names}
        k = q if shared else k
        return t.nn.functional.multi_head_attention_forward(
            q, k, k, 8, 2, w, b, *extra, False, 0.0, w[:8], b[:8], **options_now
        )[0]

    arrays = [v if isinstance(v, np.ndarray) else None for v in options.values()]
    q = r(4, 3, 8) if not shared else r(5, 3, 8)
    inputs = (q, r(5, 3, 8), r(24, 8), r(24), *arrays)
    if case in ("heads", "features", "biases"):
        check_error(run, *inputs, match=r"expecting static_|bias cannot be added to static key")
    else:
        check(run, *inputs, stride=False, gradgrad=False, tol=10)


def heads(*shapes, make=lambda nn: nn.MultiheadAttention(8, 2), **options):
    def run(nn):
        lift = to_ours if nn is torchlike.nn else to_torch
        given = {k: lift(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        return make(nn)(*(lift(np.zeros(s, np.float32)) for s in shapes), **given)

    return run


T = (4, 3, 8)
BAD_HEADS = {
    "divide": (lambda nn: nn.MultiheadAttention(5, 2), "divisible"),
    "zero": (lambda nn: nn.MultiheadAttention(0, 2), "greater than 0"),
    "rank": (heads((1, *T), T, T), "received 4-D query"),
    "ranks": (heads(T, (4, 8), T), "to be 3-D but found 2-D"),
    "features": (heads(*((4, 3, 5),) * 3), "embedding dimension of 8, but got 5"),
    "key, value": (heads(T, (5, 3, 8), T), "does not match value shape"),
    "batch": (heads(T, (4, 2, 8), (4, 2, 8)), "batch"),
    "mask": (heads(T, T, T, attn_mask=np.zeros((2, 2), bool)), "shape of the 2D attn_mask"),
    "mask 3d": (heads(T, T, T, attn_mask=np.zeros((4, 4, 4), bool)), "shape of the 3D attn_mask"),
    "mask dtype": (heads(T, T, T, attn_mask=np.zeros((4, 4), np.int64)), "only bool and floating types"),
    "padding": (
        heads(T, T, T, key_padding_mask=np.zeros((4, 4), bool)), r"key_padded_mask.shape\[0\] to be 3",
    ),
    "causal": (heads(T, T, T, is_causal=True), "Need attn_mask"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_HEADS)
def test_heads_refuse(case):
    same_refusal(*BAD_HEADS[case])


def encoder(**options):
    return lambda nn: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, **options)


def decoder(**options):
    return lambda nn: nn.TransformerDecoderLayer(8, 2, 12, dropout=0.0, **options)


MEMORY = r(5, 3, 8, dtype=np.float32)
BLOCKS = {
    "encoder layer": (encoder(), X),
    "encoder layer, norm first": (encoder(norm_first=True, activation="gelu", bias=False), X),
    "encoder": (lambda nn: nn.TransformerEncoder(encoder()(nn), 2, nn.LayerNorm(8)), X),
    "decoder layer": (decoder(), X, MEMORY),
    "decoder layer, norm first": (decoder(norm_first=True, layer_norm_eps=0.1), X, MEMORY),
    "decoder": (
        lambda nn: nn.TransformerDecoder(decoder(batch_first=True)(nn), 2), X, r(4, 5, 8, dtype=np.float32),
    ),
    "both": (lambda nn: nn.Transformer(8, 2, 1, 1, 12, dropout=0.0), MEMORY, X),
}  # fmt: skip


@pytest.mark.parametrize("case", BLOCKS)
def test_transformer(case):
    make, *arrays = BLOCKS[case]
    layer(make, *arrays, tol=30)


def test_masks_of_transformers():
    def call(m, src, tgt, causal, padding):
        mask = m.generate_square_subsequent_mask(4)
        a = m(
            src,
            tgt,
            tgt_mask=mask,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return a, m(tgt, tgt, src_mask=causal, tgt_mask=causal, memory_mask=causal)

    layer(lambda nn: nn.Transformer(8, 2, 1, 2, 12, dropout=0.0), X, Y, CAUSAL, PADDED, call=call, tol=30)


def test_evaluation_zeroes_padding():
    """PyTorch's encoder skips padded positions in evaluation, and leaves zeros there."""
    ours, theirs = pair(lambda nn: nn.TransformerEncoder(encoder(batch_first=True)(nn), 2))
    for padding in (PADDED, PADDED[:, ::-1].copy()):
        results = []
        warnings.simplefilter("ignore")
        for m, lift, no_grad in ((ours, to_ours, torchlike.no_grad), (theirs, to_torch, torch.no_grad)):
            with no_grad():
                out = m.eval()(lift(X.transpose(1, 0, 2).copy()), src_key_padding_mask=lift(padding))
            results.append(out)
        assert_same(*results, tol=30)


BAD_BLOCKS = {
    "activation": (lambda nn: nn.TransformerEncoderLayer(4, 2, activation="some"), "relu/gelu, not some"),
    "batch": (heads(T, (4, 2, 8), make=lambda nn: nn.Transformer(8, 2, 1, 1, 8)), "batch number"),
    "features": (heads((4, 3, 5), T, make=lambda nn: nn.Transformer(8, 2, 1, 1, 8)), "feature number"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_BLOCKS)
def test_transformer_refuses(case):
    same_refusal(*BAD_BLOCKS[case])


def test_choice_of_kernels_is_accepted():
    attention = torchlike.nn.attention
    with attention.sdpa_kernel([attention.SDPBackend.MATH, attention.SDPBackend.FLASH_ATTENTION]):
        check(*CASES["plain"], grad=False, stride=False)
    with pytest.raises(AssertionError, match="instance of SDPBackend"), attention.sdpa_kernel("math"):
        pass
