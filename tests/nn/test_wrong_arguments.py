"""Wrong arguments of layers, of functions and of optimizers: errors of PyTorch's types."""

import pytest
from both import agree_error
from story_kit import story

CALLS = {
    "kernel of no elements": (lambda t: t.nn.Conv2d(3, 4, 0)(t.ones(1, 3, 5, 5)), "convolution|kernel"),
    "lp_pool2d": (lambda t: t.nn.functional.lp_pool2d(t.ones(1, 3, 5, 5), 0, 2), "division by zero"),
    "local_response_norm": (lambda t: t.nn.functional.local_response_norm(t.ones(1, 3, 5), 0), "greater than zero"),
    "clip_grad_norm_": (lambda t: t.nn.utils.clip_grad_norm_(t.nn.Linear(2, 2).parameters(), "a"), "string to float"),
    "clip_grad_value_": (lambda t: t.nn.utils.clip_grad_value_(t.nn.Linear(2, 2).parameters(), "a"), "string to float"),
    "Unflatten": (lambda t: t.nn.Unflatten("a", 3), "tuple of ints"),
    "SparseAdam": (lambda t: t.optim.SparseAdam([t.eye(2).to_sparse()]), r"Sparse params at indices \[\[0, 0\]\]"),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors(name):
    agree_error(*CALLS[name])


@story
def test_an_empty_tensor_keeps_its_dtype(t):
    return t.nn.functional.local_response_norm(t.ones(0, 1, 2, dtype=t.int64), 1)


@story
def test_a_rate_that_is_a_tensor_stays_one(t):
    p = t.nn.Parameter(t.ones(2))
    optimizer = t.optim.SparseAdam([p], lr=t.tensor(0.1))
    p.grad = t.ones(2).to_sparse()
    optimizer.step()
    return p, optimizer.param_groups[0]["lr"], optimizer.state_dict()["param_groups"][0]["lr"]
