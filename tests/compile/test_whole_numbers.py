"""A number of an optimizer that was whole when its step was compiled, and is not any more."""

from __future__ import annotations

import pytest

import torchlike as torch


def steps(wrap, kind, options, changes):
    """The parameter after each of some steps, of which each changes a number of the optimizer before."""
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = kind([p], **options)
    goal = torch.arange(3.0) + 1

    def step():
        optimizer.zero_grad()
        ((p - goal) ** 2).sum().backward()
        optimizer.step()
        return p.detach().clone()

    run, found = wrap(step), []
    for key, value in (None, 0), *changes:
        if key is not None:
            optimizer.param_groups[0][key] = value
        found += [run(), run()]
    return torch.stack(found)


@pytest.mark.parametrize(
    "kind, options, changes",
    [
        (torch.optim.Adagrad, {"lr": 0.1}, [("lr_decay", 0.5)]),
        (torch.optim.SGD, {"lr": 1}, [("lr", 0.1), ("lr", 2), ("lr", 0.3)]),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.5}, [("dampening", 0.1), ("dampening", 0)]),
        (torch.optim.Rprop, {"lr": 0.1}, [("step_sizes", (1e-3, 1.0))]),
        (torch.optim.Adam, {"lr": 1, "betas": (0, 0)}, [("lr", 0.1), ("betas", (0.5, 0.5)), ("eps", 1), ("eps", 0.1)]),
    ],
)
def test_numbers_are_not_rounded(kind, options, changes):
    expected = steps(lambda f: f, kind, options, changes)
    torch.testing.assert_close(steps(torch.compile, kind, options, changes), expected, rtol=1e-6, atol=1e-6)
