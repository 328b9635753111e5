"""Ints that are given as tensors of one element or as numpy's, and what is no int."""

import numpy as np
import pytest
from story_kit import story

import torchlike


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
