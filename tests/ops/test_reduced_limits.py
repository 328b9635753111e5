"""Activations of 16-bit floats at their limit, a number that these floats round: which side an element is on."""

import numpy as np
import pytest
import torch as torch_oracle

import torchlike as torch

CASES = {
    "hardshrink": lambda f, x: f.hardshrink(x, 0.3),
    "softshrink": lambda f, x: f.softshrink(x, 0.3),
    "threshold": lambda f, x: f.threshold(x, 0.3, 0.1),
    "hardtanh": lambda f, x: f.hardtanh(x, -0.3, 0.3),
}


def _outcome(lib, case, dtype):
    x = lib.tensor([0.3, -0.3, 0.31, 0.29, -0.29], dtype=getattr(lib, dtype), requires_grad=True)
    y = case(lib.nn.functional, x)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_elements_at_the_limit_are_where_pytorch_has_them(name, dtype):
    mine, theirs = (_outcome(lib, CASES[name], dtype) for lib in (torch, torch_oracle))
    assert mine == theirs


@pytest.mark.parametrize("eps", [None, 0.3])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_logit_rounds_after_each_step(dtype, eps):
    values = [*np.linspace(-0.1, 1.1, 300).tolist(), 6e-8, 3e-6, 1e-4]
    mine, theirs = (lib.logit(lib.tensor(values, dtype=getattr(lib, dtype)), eps) for lib in (torch, torch_oracle))
    assert mine.float().nan_to_num(7.0).tolist() == theirs.float().nan_to_num(7.0).tolist()
