"""Exported code that computes with a dynamic length: as PyTorch's eager code does for each length."""

from typing import Any

import numpy as np
import pytest
import torch

import torchlike
from torchlike.export import Dim

CASES = {
    "div": lambda t, x: x / x.shape[0],
    "mul": lambda t, x: x * x.size(0),
    "add": lambda t, x: x + x.shape[0],
    "sub": lambda t, x: x - x.shape[0],
    "floor": lambda t, x: x // x.shape[0],
    "mod": lambda t, x: x % x.shape[0],
    "pow": lambda t, x: x ** x.shape[0],
    "compare": lambda t, x: (x < x.shape[0], x == x.shape[0], x >= x.shape[0]),
    "method": lambda t, x: x.div(x.shape[0]) - t.mul(x, x.shape[0]),
    "in place": lambda t, x: (x * 1).sub_(x.shape[0]).div_(x.shape[0]),
    "int": lambda t, x: (x.long() * x.shape[0], x.int() * x.shape[0], x.int() / x.shape[0]),
    "low": lambda t, x: x.bfloat16() / x.shape[0],
    "alpha": lambda t, x: t.add(x, x, alpha=x.shape[0]),
    "clamp": lambda t, x: x.clamp(max=x.shape[0]),
    "where": lambda t, x: t.where(x > 2, x, x.shape[0]),
    "derived": lambda t, x: x.sum() / (x.shape[0] * 2 + 1) + x.numel(),
    "arange": lambda t, x: t.arange(x.shape[0]),
    "arange by two": lambda t, x: t.arange(1, x.shape[0], 2),
    "arange down": lambda t, x: t.arange(x.shape[0] - 1, -1, -1),
    "arange down by two": lambda t, x: t.arange(x.shape[0], 0, -2),
    "arange of floats": lambda t, x: t.arange(0, x.shape[0], dtype=t.float32)[:, None] + x,
    "arange of sums": lambda t, x: (t.arange(x.shape[0] + x.shape[1]), t.arange(x.shape[0] * 2)),
    "arange to the end": lambda t, x: t.arange(2, end=x.shape[0] + 2, device=x.device),
    "positions": lambda t, x: x + t.nn.functional.embedding(t.arange(x.size(0)), t.eye(40)[:, :3]),
    "mask": lambda t, x: x.masked_fill(t.arange(x.shape[0])[:, None] > 2, 0.0),
    "rows": lambda t, x: x[t.arange(x.shape[0]), t.zeros(x.shape[0], dtype=t.long)],
    "mean": lambda t, x: x.sum(0) / x.size(0),
    "var": lambda t, x: (x.var(0), x.std(), t.var_mean(x, 0)[0], x.var(0, unbiased=False)),
    "standard": lambda t, x: (x - x.mean(0)) / (x.std(0) + 1),
    "number first": lambda t, x: x.shape[0] * x + (x.shape[0] - x) / (x.shape[0] + x.abs()) - x.shape[0] / (1 + x * x),
    "number first of integers": lambda t, x: (x.shape[0] // x.long().add(9), x.shape[0] % x.long().add(9)),
    "number first, derived": lambda t, x: (-x.shape[0] * x, (x.shape[0] // 2) * x[0], x.numel() * x.sum()),
    "number first, compared": lambda t, x: (x.shape[0] == x.long(), x.shape[0] != x.round(), x.shape[0] < x * 3),
    "number first, derived and compared": lambda t, x: (x.shape[0] - 1 <= x, x.numel() > x, 2 * x.shape[0] >= x.sum()),
    "number first, power": lambda t, x: x.shape[0] ** x,
    "number first, complex": lambda t, x: (1j * x.shape[0] * x).real,
    "number first, low": lambda t, x: (x.shape[0] * x.half(), x.shape[0] - x.bfloat16(), x.shape[0] * x.int()),
    "full": lambda t, x: (t.full((2,), x.shape[0]), t.full((2,), x.shape[0], dtype=t.float32)),
    "new": lambda t, x: (x.new_full((1,), x.shape[0]), t.scalar_tensor(x.shape[0]), t.as_tensor(x.shape[0])),
    "tensor": lambda t, x: (t.tensor(x.shape[0]), t.tensor([x.shape[0], 2.5])),
    "tensor of a dtype": lambda t, x: t.tensor(x.shape[0], dtype=t.float32) * x,
    "tensor of lists": lambda t, x: t.tensor([[x.shape[0], 3], [4, x.shape[0] * 2]]),
    "filled": lambda t, x: (x.clone().fill_(x.shape[0]), x.masked_fill(x > 0, x.shape[0]), t.fill(x, x.shape[0])),
    "filled in place": lambda t, x: x.clone().masked_fill_(x > 0, x.shape[0]),
}


def _program(f: Any) -> Any:
    return torchlike.export(lambda x: f(torchlike, x), (torchlike.ones(4, 3),), dynamic_shapes=({0: Dim("b", min=2)},))


def _numbers(t: Any, n: int) -> Any:
    return ((t.arange(3 * n, dtype=t.float64) * 1.3).cos().reshape(n, 3) * 4).float()


def _tuple(x: Any) -> tuple:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    run = _program(CASES[name]).module()
    for n in (2, 7):
        ours, theirs = _tuple(run(_numbers(torchlike, n))), _tuple(CASES[name](torch, _numbers(torch, n)))
        for a, b in zip(ours, theirs, strict=True):
            assert str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
            np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=1e-5, atol=1e-6)


_SMOOTH = "div", "mul", "pow", "method", "derived", "positions", "mean", "var", "standard", "number first", "filled"


@pytest.mark.parametrize("name", _SMOOTH)
def test_gradients(name):
    run = _program(CASES[name]).module()
    for n in (2, 7):
        found = []
        for t, f in ((torchlike, run), (torch, lambda x: CASES[name](torch, x))):
            x = _numbers(t, n).requires_grad_()
            sum([(y * y).sum() for y in _tuple(f(x))]).backward()
            found.append(x.grad)
        assert str(found[0].dtype) == str(found[1].dtype)
        np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=2e-4, atol=1e-5)


REFUSED = {
    "length": (lambda t, x: x.shape[0] * 2, "returns a dynamic length, or what it made of one"),
    "step": (lambda t, x: t.arange(0, 9, x.shape[0]), "step must be nonzero and known where a length is dynamic"),
    "no step": (lambda t, x: t.arange(0, x.shape[0], 0), "step must be nonzero and known"),
    "float": (lambda t, x: t.arange(0.5, x.shape[0]), "'start' must be int beside a dynamic length, not float"),
    "bool": (lambda t, x: t.arange(x.shape[0], dtype=t.bool), "not implemented for 'Bool'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, match = REFUSED[name]
    with pytest.raises(RuntimeError, match=match):
        _program(f)
