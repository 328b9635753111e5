"""Lazy conjugates and negatives under a dispatch mode: which calls copy them first, as in PyTorch."""

from __future__ import annotations

import pytest
import torch
from dispatch_kit import same_calls

from torchlike._aten import lazy

COMPLEX = "a=torch.tensor([[1+2j,3-1j],[2j,1+0j]])"


@pytest.mark.parametrize(
    "script",
    [
        "a.conj()+1",
        "a.conj()@a",
        "a.conj().sum()",
        "a.conj().imag.exp()",
        "a.conj().add_(a)",
        "torch.cat([a.conj(),a])",
        "torch.linalg.inv(a.conj())",
        "torch.zeros_like(a.conj())",
        "torch.vdot(a[0].conj(),a[1])",
        "a.conj().mT.clone()",
    ],
)
def test_calls(script):
    same_calls(f"{script} # {COMPLEX}", arguments=False)


@pytest.mark.parametrize("key, names", [("Conjugate", lazy.CONJUGATES), ("Negative", lazy.NEGATIVES)])
def test_what_is_taken_lazily_is_what_pytorch_has_kernels_for(key, names):
    known = torch._C._dispatch_has_kernel_for_dispatch_key
    assert [n for n in sorted(names | lazy.EITHER) if not known(f"aten::{n}", key)] == []
