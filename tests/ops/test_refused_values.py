"""Values that PyTorch refuses, where nothing but the numbers in a tensor is wrong: no result may come of them."""

import pytest
import torch

import torchlike

REFUSED = [
    "t.searchsorted(t.tensor([5, 3, 0]), t.tensor([1, 2]), sorter=t.tensor([2, 1, 7]))",
    "t.searchsorted(t.tensor([5, 3, 0]), 1, sorter=t.tensor([2, 1, -1]))",
    "t.take_along_dim(t.ones(3), t.tensor([3]))",
    "t.take_along_dim(t.ones(2, 2), t.tensor([-1]))",
]


def _found(case, t):
    """The class of what ``case`` raises; None if it gives a result."""
    try:
        eval(case, {"t": t, "F": t.nn.functional})
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_refuses_is_refused(case):
    theirs = _found(case, torch)
    assert theirs is not None
    assert _found(case, torchlike) == theirs
