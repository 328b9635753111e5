"""Sparse tensors of both libraries, and the text by which they are compared."""

import re
import warnings

import numpy as np
import pytest
import torch
from both import attempt

import torchlike

LIBRARIES = (torch, torchlike)


def S(t, dtype=None, **kwargs):
    """A coalesced matrix [2, 3] with three entries."""
    values = t.tensor([3.0, 4.0, 5.0], dtype=dtype)
    return t.sparse_coo_tensor(t.tensor([[0, 1, 1], [2, 0, 2]]), values, (2, 3), **kwargs).coalesce()


def U(t):
    """A matrix [2, 3] whose entries are unsorted and repeat."""
    return t.sparse_coo_tensor(t.tensor([[1, 0, 0], [2, 1, 1]]), t.tensor([1.0, 2.0, 3.0]), (2, 3))


def H(t):
    """A hybrid tensor: one sparse dimension, one dense."""
    return t.sparse_coo_tensor(t.tensor([[0, 1, 1]]), t.arange(6.0).reshape(3, 2), (3, 2))


def C(t):
    """As S, of layout torch.sparse_csr."""
    return S(t).to_sparse_csr()


def D(t):
    """A dense matrix [2, 3]."""
    return t.arange(6.0).reshape(2, 3)


def M(t):
    """A dense matrix [3, 4]."""
    return t.arange(12.0).reshape(3, 4)


def leaf(x):
    """The tensor as a leaf that requires grad."""
    return x.detach().requires_grad_()


def shown(x):
    """All that is compared of a result: its text."""
    if isinstance(x, torch.Tensor | torchlike.Tensor):
        return re.sub(r"-0(?=[.,\]])", "0", repr(x))
    if isinstance(x, dict):
        return {k: shown(v) for k, v in x.items()}
    if isinstance(x, tuple | list):
        return [shown(v) for v in x]
    if isinstance(x, Exception):
        # What PyTorch has no kernel for is one type of error or another.
        return "refused" if isinstance(x, RuntimeError) else type(x).__name__
    if isinstance(x, np.ndarray):
        return x.tolist()
    return type(x).__name__ if hasattr(x, "next_functions") else str(x)


def flags(x):
    """Whether each of the sparse tensors among results is known to be coalesced."""
    if isinstance(x, tuple | list):
        return [flag for v in x for flag in flags(v)]
    if isinstance(x, torch.Tensor | torchlike.Tensor) and str(x.layout) == "torch.sparse_coo":
        return [x.is_coalesced()]
    return []


def same(f, refuses=False):
    """``f(torchlike)`` shows what ``f(torch)`` shows; ``refuses``: both raise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, ours = attempt(lambda: f(torch)), attempt(lambda: f(torchlike))
    assert isinstance(theirs, Exception) is refuses, theirs
    assert shown(ours) == shown(theirs), f"{ours!r}\nPyTorch: {theirs!r}"
    for x, (our, their) in enumerate(zip(flags(ours), flags(theirs), strict=True)):
        assert our or not their, f"sparse tensor {x} of the results is coalesced, which is not known"


def cases(*functions):
    """Parametrise a test by functions, which their source lines name."""
    return pytest.mark.parametrize("f", functions, ids=[str(i) for i in range(len(functions))])
