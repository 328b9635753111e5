"""``torch._native_multi_head_attention``: projections, heads, masks and weights in one call, as PyTorch's."""

import pytest
from both import agree, agree_error

HIDDEN = [[False, True, True], [False, False, True], [False, False, False]]
PADDING = [[False, False, True], [False, True, True]]


def numbers(t, *shape, dtype=None):
    return (t.arange(float(t.Size(shape).numel()), dtype=t.float64) * 0.7).sin().reshape(shape).to(dtype or t.float64)


def attend(t, *options, batch=2, width=4, heads=2, **changed):
    """The call on sequences of three, with arguments made by ``changed``."""
    given = {
        "query": numbers(t, batch, 3, width), "key": numbers(t, batch, 3, width).flip(1),
        "value": numbers(t, batch, 3, width) * 2, "embed_dim": width, "num_head": heads,
        "qkv_weight": numbers(t, 3 * width, width), "qkv_bias": numbers(t, 3 * width),
        "proj_weight": numbers(t, width, width), "proj_bias": numbers(t, width),
    }  # fmt: skip
    given |= {name: f(t) for name, f in changed.items()}
    return t._native_multi_head_attention(*given.values(), *options)


@pytest.mark.parametrize(
    "options",
    [
        lambda t: (),
        lambda t: (None, False),
        lambda t: (None, True, False),
        lambda t: (t.tensor(HIDDEN), True, True, 0),
        lambda t: (t.tensor(HIDDEN).double(), True, True, 0),
        lambda t: (t.tensor(PADDING), True, True, 1),
        lambda t: (t.tensor(PADDING), False, True, 1),
        lambda t: (t.tensor(PADDING)[:, None, None].expand(2, 2, 3, 3), True, False, 2),
        lambda t: (t.ones(3, 3, dtype=t.bool), True, True, 0),
    ],
)
def test_values(options):
    agree(lambda t: attend(t, *options(t)))


def test_one_sequence():
    agree(lambda t: (q := numbers(t, 2, 3, 4), attend(t, query=lambda t: q, key=lambda t: q, value=lambda t: q))[1])


def test_outputs_are_written():
    def run(t):
        x, outs = numbers(t, 1, 3, 4), (t.empty(1, 3, 4, dtype=t.float64), t.empty(1, 3, 3, dtype=t.float64))
        args = numbers(t, 12, 4), numbers(t, 12), numbers(t, 4, 4), numbers(t, 4)
        t.ops.aten._native_multi_head_attention.out(x, x, x, 4, 2, *args, out0=outs[0], out1=outs[1])
        return outs

    agree(run)


@pytest.mark.parametrize(
    "options, changed, match",
    [
        ((), {"query": lambda t: numbers(t, 3, 4)}, "expected 3-D `query`, got 2-D tensor"),
        ((), {"embed_dim": lambda t: 6}, "passed-in embed_dim 6 didn't match last dim of query 4"),
        ((), {"key": lambda t: numbers(t, 2, 2, 4)}, "expected `query`/`key`/`value` shapes to match"),
        ((), {"num_head": lambda t: 3}, "`embed_dim` must divide evenly by `num_heads`"),
        ((), {"qkv_weight": lambda t: numbers(t, 4)}, "expected 2-D `qkv_weight`, got 1-D tensor"),
        ((), {"qkv_weight": lambda t: numbers(t, 4, 4)}, "expected `qkv_weight` first dim to be 3x embed_dim"),
        ((), {"qkv_bias": lambda t: numbers(t, 4)}, "expected `qkv_bias` first dim and first dim of query to be equal"),
        ((HIDDEN, True, True), {}, "Mask Type should be defined"),
        ((HIDDEN, True, True, 5), {}, "Mask Type should be 0"),
    ],
)
def test_what_is_refused(options, changed, match):
    agree_error(lambda t: attend(t, *(t.tensor(x) if isinstance(x, list) else x for x in options), **changed), match)
