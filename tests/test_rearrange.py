"""functorch.einops.rearrange is PyTorch's, in values, strides and errors."""

import functorch.einops
import pytest
import torch as pytorch

import torchlike
import torchlike.functorch.einops

BOTH = [(torchlike, torchlike.functorch.einops.rearrange), (pytorch, functorch.einops.rearrange)]

FITS = {
    "a b c -> c a b": {},
    "a b c -> (a b) c": {},
    "a (b b2) c -> a b2 b c": {"b": 3},
    "a (b b2) c -> (a b2) (b c)": {"b2": 1},
    "a b c -> a b c ()": {},
    "a b c -> a 1 b c": {},
    "... c -> c ...": {},
    "a ... -> (a ...)": {},
    "a ... c -> ... (c a)": {},
    "... -> (...)": {},
}


@pytest.mark.parametrize("pattern", FITS)
def test_values(pattern):
    found = []
    for m, rearrange in BOTH:
        x = m.arange(24.0).reshape(2, 3, 4).requires_grad_()
        y = rearrange(x, pattern, **FITS[pattern])
        y.square().sum().backward()
        found.append((y.tolist(), tuple(y.shape), y.stride(), x.grad.tolist()))
    assert found[0] == found[1]


def test_a_list_is_stacked():
    for m, rearrange in BOTH:
        assert rearrange([m.zeros(2, 3), m.ones(2, 3)], "l a b -> a (l b)").tolist() == [[0, 0, 0, 1, 1, 1]] * 2


WRONG = {
    "a b -> b a": ({}, r"Number of dimensions in pattern \(2\)"),
    "a b c": ({}, "single '->'"),
    "a b c -> a b": ({}, "Identifiers only on one side.*'c'"),
    "a b c -> a b c d": ({}, "Identifiers only on one side.*'d'"),
    "a a b -> a b": ({}, "duplicate dimension 'a'"),
    "a (b c) d -> a b c d": ({}, "cannot infer the sizes of two dimensions at once"),
    "a (b c) d -> d a b c": ({"b": 2}, "does not evenly fit into larger dimension: 3 vs"),
    "a b c -> a c b": ({"z": 1}, "Identifiers not found.*'z'"),
    "a b c -> c b a": ({"a": 5}, r"Dimension sizes to do not match \(2 != 5\)"),
    "a b c -> a b 2 c": ({}, "unnamed axes of size 1"),
    "a [b] c -> a b c": ({}, "Unknown character '\\['"),
    "a b c -> (a (b c))": ({}, "Axis composition is one-level"),
    "... a ... -> a ...": ({}, "only one ellipsis"),
    "_a b c -> b c _a": ({}, "Invalid axis identifier: _a"),
    "a b c -> a b ...": ({}, "Ellipsis found in right side"),
    "a (b c -> a b c": ({}, "Imbalanced parentheses"),
    "a b) c -> a b c": ({}, "Brackets are not balanced"),
    "(...) a -> a ...": ({}, "Ellipsis"),
}


@pytest.mark.parametrize("pattern", WRONG)
def test_errors(pattern):
    given, words = WRONG[pattern]
    kinds = []
    for m, rearrange in BOTH:
        with pytest.raises(Exception, match=words) as error:
            rearrange(m.zeros(2, 3, 4), pattern, **given)
        kinds.append(error.type.__name__)
    assert kinds[0] == kinds[1]


def test_it_is_a_name_of_torch_func_too():
    for m, rearrange in BOTH:
        assert m.func.rearrange is rearrange
