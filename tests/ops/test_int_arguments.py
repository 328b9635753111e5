"""Ints that are given as tensors of one element or as numpy's, and what is no int; flags that are no bools."""

import enum

import numpy as np
import pytest
from oracle import check_error
from story_kit import story

import torchlike
from torchlike._core.dispatch.dispatch import call
from torchlike._decl.op import REGISTRY


@story
def test_tensors_as_ints(t):
    x, s = t.arange(10.0).reshape(5, 2), t.tensor([2, 3])
    made = [
        *x.split(tuple(s)), *t.split(x, [s[:1], np.int64(3)]), *x.split_with_sizes(list(s)),
        *t.unsafe_split_with_sizes(x, list(s)), x.as_strided(tuple(s), (1, 2), s[0]), t.rot90(x, s[0]),
        t.nn.functional.one_hot(s, s[1] + 1), t.nn.functional.layer_norm(x, (s[0],)),
    ]  # fmt: skip
    return made, [part @ part.mT for part in x.split(list(s))], [[type(n) for n in y.shape] for y in made]


NOT_INTS = [
    lambda x: x.split([2.0, 3.0]), lambda x: x.split([True, 4]), lambda x: x.split_with_sizes(torchlike.tensor([2, 3])),
    lambda x: x.as_strided((2,), (1,), 2.0), lambda x: x.rot90(1.0),
    lambda x: torchlike.nn.functional.layer_norm(x, (2.0,)),
    lambda x: torchlike.nn.functional.one_hot(torchlike.tensor([1]), 3.0),
]  # fmt: skip


@pytest.mark.parametrize("call", NOT_INTS)
def test_what_is_no_int_is_refused(call):
    with pytest.raises(TypeError, match="must be (tuple of ints|int), not"):
        call(torchlike.zeros(5, 2))


@story
def test_tensors_select_kernels_of_composites(t):
    """Each number is read at each call: a tensor that was changed since is not taken for what it was."""
    F, x, image = t.nn.functional, t.arange(24.0).reshape(2, 3, 4), t.arange(64.0).reshape(1, 1, 8, 8)
    one, two, weight = t.tensor(1), t.tensor(2), t.ones(1, 1, 3, 3, requires_grad=True)

    def made():
        return [
            F.conv2d(image, weight, None, (two, two)),
            F.conv2d(image, weight, None, [two, 1], (one, two), (one, one), one),
            F.conv_transpose2d(image, weight, stride=(two, two), output_padding=(two - 1, two - 1)),
            t.diagflat(x[0, 0], two), (x + 1).polygamma(one), x.repeat_interleave(2, one),
            x.repeat_interleave(2, dim=two),
            t.gradient(x, dim=one), F.multi_margin_loss(x[0], t.tensor([0, 1, 2]), p=one),
            F.local_response_norm(x, two), F.embedding_bag(t.tensor([[0, 1]]), x[0], padding_idx=one),
            x.clone().polygamma_(one * 2),
        ]  # fmt: skip

    first = made()
    first[0].sum().backward()
    two.sub_(1)
    return first, made(), weight.grad


@pytest.mark.parametrize("number", [torchlike.tensor([2.0]), torchlike.tensor(2.0, requires_grad=True)])
def test_numbers_are_0_dim_tensors_without_gradient(number):
    for run in (
        lambda x: torchlike.add(x, x, alpha=number), lambda x: torchlike.nn.functional.elu(x, number),
        lambda x: torchlike.nn.functional.conv1d(x[None], x[None], None, (number,)),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="must be"):
            run(torchlike.ones(3, 3))


def test_strangers_are_no_numbers():
    stranger = type("Stranger", (), {"__torch_function__": None})()
    with pytest.raises(TypeError, match="argument 'offset' must be int, not Stranger"):
        call(REGISTRY["diag_embed"], (torchlike.ones(2),), (stranger, 0, 1))


class _Rate(float):
    def __float__(self):
        return 7.0


@story
def test_numbers_of_other_classes(t):
    """What is made of a number is that number, whatever its methods say."""
    x, two = t.tensor([1.0, 2, 3]), enum.IntEnum("Count", {"TWO": 2}).TWO
    found = [t.where(x > 1, x, two), x.clone().fill_(two), t.tensor([1, 2, 3]) & two, two - x]
    for n in (two, _Rate(2.5), type("Phase", (complex,), {})(1 + 2j)):
        found += [x * n, n**x, x.add(x, alpha=n) if n == two else x == n]
    return found, [y.dtype for y in found]


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(2, 2, 3)
FLAGGED = {
    "allclose": lambda t, x, v: t.allclose(x, x, equal_nan=v), "isclose": lambda t, x, v: x.isclose(x, equal_nan=v),
    "combinations": lambda t, x, v: t.combinations(x[0, 0], 2, v), "isin": lambda t, x, v: t.isin(x, x, invert=v),
    "stft": lambda t, x, v: t.stft(x.flatten(), 4, window=t.ones(4), normalized=v, return_complex=True),
    "istft": lambda t, x, v: t.istft(t.ones(3, 4, dtype=t.complex64), 4, window=t.ones(4), center=v),
    "fill_diagonal_": lambda t, x, v: x[0].fill_diagonal_(1, v), "svd": lambda t, x, v: x.svd(v),
    "batch_norm": lambda t, x, v: t.nn.functional.batch_norm(x, t.zeros(2), t.ones(2), training=v),
    "instance_norm": lambda t, x, v: t.nn.functional.instance_norm(x, t.zeros(2), t.ones(2), use_input_stats=v),
    "max_pool1d": lambda t, x, v: t.nn.functional.max_pool1d(x, 2, ceil_mode=v),
    "max_pool2d": lambda t, x, v: t.nn.functional.max_pool2d(x, 2, ceil_mode=v),
    "rrelu": lambda t, x, v: t.nn.functional.rrelu(x, training=v), "nonzero": lambda t, x, v: x.nonzero(as_tuple=v),
    "attention": lambda t, x, v: t.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=v),
    "triplet": lambda t, x, v: t.nn.functional.triplet_margin_loss(x, x, x, swap=v),
    "distance": lambda t, x, v: t.nn.functional.pairwise_distance(x, x, keepdim=v),
    "index_put": lambda t, x, v: x.index_put((t.tensor([0]),), x[0], accumulate=v),
    "unique": lambda t, x, v: x.unique(sorted=v), "inverse": lambda t, x, v: x.unique(return_inverse=v),
    "counts": lambda t, x, v: x.unique_consecutive(return_counts=v),
    "multinomial": lambda t, x, v: x.exp()[0].multinomial(2, v), "histogram": lambda t, x, v: x.histogram(3, density=v),
    "dropout": lambda t, x, v: t.nn.functional.dropout(x, 0.5, v), "sum": lambda t, x, v: x.sum(0, keepdim=v),
    "feature": lambda t, x, v: t.nn.functional.feature_alpha_dropout(x, 0.5, v), "sort": lambda t, x, v: x.sort(0, v),
    "embedding": lambda t, x, v: t.nn.functional.embedding(t.tensor([0]), x[0], sparse=v),
    "bag": lambda t, x, v: t.nn.functional.embedding_bag(t.tensor([0]), x[0], t.tensor([0]), include_last_offset=v),
    "poisson": lambda t, x, v: t.nn.functional.poisson_nll_loss(x, x, log_input=v),
    "kl_div": lambda t, x, v: t.nn.functional.kl_div(x, x, reduction="sum", log_target=v),
    "to": lambda t, x, v: x.to(t.float64, copy=v), "cholesky": lambda t, x, v: t.linalg.cholesky(t.eye(2), upper=v),
    "interpolate": lambda t, x, v: t.nn.functional.interpolate(x, 5, mode="linear", align_corners=v),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("call", FLAGGED.values(), ids=FLAGGED)
def test_flags_that_are_no_bools_are_refused(call):
    for flag in (1, 2.0, np.True_):
        check_error(lambda t, x, flag=flag: call(t, x, flag), X, match="must be bool, not|invalid combination")


MAKERS = [
    lambda t, v: t.ones(2, requires_grad=v), lambda t, v: t.rand(2, requires_grad=v),
    lambda t, v: t.tensor(1.0, requires_grad=v), lambda t, v: t.zeros_like(t.ones(2), requires_grad=v),
]  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("make", MAKERS)
def test_requires_grad_that_is_no_bool_is_refused(make):
    check_error(lambda t: make(t, 2.0), match="must be bool, not float")
