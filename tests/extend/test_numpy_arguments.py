"""Arrays of numpy where functions want tensors: refused as PyTorch refuses them, over all of its functions."""

import numpy as np
import pytest
import torch
from both import attempt

import torchlike

PLACES = ["", "linalg", "special", "fft", "nn.functional"]
ASIDE = (
    "set_", "get_", "init_", "autocast", "is_", "sym_", "from_", "to_dlpack", "wait", "fork",
    "save", "load", "compile")  # fmt: skip
# Which say what is missing, whatever they are given; sizes and windows, of which numpy's are as good as Python's.
OTHERS = {"torch.dist", "torch.result_type", "torch.resize_as_", "torch.slice_inverse", "torch.unique"}
IN_PYTHON = {
    "broadcast_tensors", "chain_matmul", "meshgrid", "gumbel_softmax", "dropout", "take_along_dim", "grid_sample",
    "pad_sequence", "einsum", "cartesian_prod",
}  # fmt: skip


def at(t, place):
    for name in filter(None, place.split(".")):
        t = getattr(t, name)
    return t


def refusals(place, *forms):
    """Where PyTorch raises TypeError and torchlike computes, or trips over what an array does not have."""
    theirs, ours, wrong = at(torch, place), at(torchlike, place), []
    for name in sorted(set(dir(theirs)) & set(dir(ours))):
        function = getattr(theirs, name)
        if name.startswith(("_", *ASIDE)) or isinstance(function, type) or not callable(function):
            continue
        for form in forms:
            if isinstance(attempt(lambda f=function, x=form: f(*x(torch))), TypeError):
                got = attempt(lambda n=name, x=form: getattr(ours, n)(*x(torchlike)))
                if isinstance(got, AttributeError) or not isinstance(got, Exception):
                    wrong.append(name)
    return wrong


A = np.ones((2, 2), np.float32)


@pytest.mark.parametrize("place", PLACES)
def test_every_function(place):
    found = refusals(place, lambda t: (A,), lambda t: (A, A), lambda t: (A, 0), lambda t: (t.ones(2, 2), A))
    assert set(found) <= IN_PYTHON | {name.removeprefix("torch.") for name in OTHERS}
