"""What a program puts into ``torch.nn.functional`` is what layers and functions call, where PyTorch's call it."""

import functools

import pytest
import torch
from both import plain
from layer_kit import pair

import torchlike

PARTS = [
    "linear", "softmax", "dropout", "scaled_dot_product_attention", "pad", "relu", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "adaptive_avg_pool2d", "adaptive_max_pool2d_with_indices", "fractional_max_pool2d_with_indices",
    "interpolate", "logsigmoid", "multi_head_attention_forward", "_in_projection", "_in_projection_packed",
]  # fmt: skip


def recorded(t, calls, monkeypatch):
    """Put functions that note their names into ``torch.nn.functional``."""
    for name in PARTS:
        f = getattr(t.nn.functional, name)

        @functools.wraps(f)
        def noting(*args, f=f, name=name, **kwargs):
            calls.append((name, len(args), sorted(kwargs)))
            return f(*args, **kwargs)

        monkeypatch.setattr(t.nn.functional, name, noting)


def same_calls(code, monkeypatch):
    """``code(t)`` makes the same calls with the same results in both; in ours, the results of a module left alone."""
    found = []
    before = code(torchlike)
    for t in (torchlike, torch):
        calls = []
        with monkeypatch.context() as patch:
            recorded(t, calls, patch)
            result = code(t)
        found.append((calls, plain(result)))
    assert found[0] == found[1]
    assert plain(code(torchlike)) == plain(before)
    assert not torchlike.nn.functional._replaced.REPLACED


def ramp(t, *shape):
    return t.linspace(-1, 1, torch.Size(shape).numel(), dtype=t.float64).sin().view(shape)


def attention(t, made=None, need=True, train=True, query=(5, 2, 8), other=None, grad=True, **kwargs):
    made = {"dropout": 0.5, **(made or {})}
    layer = t.nn.MultiheadAttention(8, 2, **made, dtype=t.float64).train(train)
    for p in layer.parameters():
        p.data = ramp(t, *p.shape)
    kwargs = {k: f(t) for k, f in kwargs.items()}
    q = ramp(t, *query)
    k, v = (q, q) if other is None else [ramp(t, *s) for s in other]
    t.manual_seed(0)
    with t.set_grad_enabled(grad):
        return layer(q, k, v, need_weights=need, **kwargs)


MASKS = {
    "attn_mask": lambda t: t.ones(5, 5, dtype=t.float64).tril().log(),
    "key_padding_mask": lambda t: t.tensor([[False] * 5, [False] * 3 + [True] * 2]),
}
ATTENTION = {
    "plain": {},
    "masks": MASKS | {"key_padding_mask": lambda t: ramp(t, 2, 5)},
    "in evaluation": {"train": False} | MASKS | {"attn_mask": lambda t: t.ones(5, 5).triu(1).bool()},
    "one kernel": {"made": {"batch_first": True}, "query": (2, 5, 8), "train": False, "grad": False},
    "batch first": {"made": {"batch_first": True}, "query": (2, 5, 8)},
    "no batch": {"query": (5, 8)},
    "appended": {"made": {"add_bias_kv": True, "add_zero_attn": True, "bias": False}} | MASKS,
    "other sizes": {"made": {"kdim": 6, "vdim": 4}, "other": ((3, 2, 6), (3, 2, 4))},
    "two inputs": {"other": ((3, 2, 8), (3, 2, 8))},
}


@pytest.mark.parametrize("need", [True, False])
@pytest.mark.parametrize("case", ATTENTION)
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_attention(case, need, monkeypatch):
    # Without weights PyTorch drops inside of one kernel, whose order of random numbers is its own.
    made = {"dropout": 0.5 if need else 0.0, **ATTENTION[case].get("made", {})}
    same_calls(lambda t: attention(t, **{**ATTENTION[case], "need": need, "made": made}), monkeypatch)


FUNCTIONS = {
    "lp_pool1d": lambda t, F: F.lp_pool1d(ramp(t, 2, 3, 8), 2.0, 2),
    "lp_pool2d": lambda t, F: F.lp_pool2d(ramp(t, 2, 3, 8, 6).abs(), 3.0, (3, 2), stride=1, ceil_mode=True),
    "local_response_norm": lambda t, F: F.local_response_norm(ramp(t, 2, 5, 8), 3, 0.5),
    "local_response_norm 2d": lambda t, F: F.local_response_norm(ramp(t, 2, 5, 3, 4), 2, 0.5),
    "multilabel_soft_margin_loss": lambda t, F: F.multilabel_soft_margin_loss(
        ramp(t, 3, 4), ramp(t, 3, 4).abs(), ramp(t, 4), reduction="sum"
    ),
    "area": lambda t, F: F.interpolate(ramp(t, 2, 3, 4, 4), size=2, mode="area"),
    "upsample": lambda t, F: t.nn.Upsample(scale_factor=2, mode="bilinear")(ramp(t, 2, 3, 4, 4)),
    "adaptive": lambda t, F: F.adaptive_max_pool2d(ramp(t, 2, 3, 4, 4), 2),
    "adaptive with indices": lambda t, F: F.adaptive_max_pool2d(ramp(t, 2, 3, 4, 4), 2, return_indices=True),
    "fractional": lambda t, F: F.fractional_max_pool2d(
        ramp(t, 2, 3, 8, 8), 2, output_size=3, _random_samples=ramp(t, 2, 3, 2).abs()
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, monkeypatch):
    same_calls(lambda t: FUNCTIONS[name](t, t.nn.functional), monkeypatch)


def test_a_layer_of_a_transformer(monkeypatch):
    ours, theirs = pair(lambda nn: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0).double())
    layers = {torchlike: ours, torch: theirs}
    same_calls(lambda t: layers[t](ramp(t, 5, 2, 8)), monkeypatch)


def test_what_is_replaced_decides_the_result(monkeypatch):
    def code(t):
        with monkeypatch.context() as patch:
            patch.setattr(t.nn.functional, "softmax", lambda x, dim: t.ones_like(x) / x.shape[dim])
            return attention(t, {"dropout": 0.0})

    assert plain(code(torchlike)) == plain(code(torch))
    assert torchlike.equal(code(torchlike)[1], torchlike.full((2, 5, 5), 0.2, dtype=torchlike.float64))
