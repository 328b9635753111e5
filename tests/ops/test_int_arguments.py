"""Ints that are given as tensors of one element or as numpy's, and what is no int."""

import enum

import numpy as np
import pytest
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
