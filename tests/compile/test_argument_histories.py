"""Arguments of compiled functions that were computed outside: they are no leaves, and have a ``grad_fn``."""

import pytest
from guard_kit import x2
from stale_kit import never_stale

FUNCTIONS = {
    "is_leaf": lambda x: x * 2 if x.is_leaf else x * 3,
    "grad_fn": lambda x: x * 2 if x.grad_fn is None else x * 3,
    "grad_fn_name": lambda x: x * len(x.grad_fn.name()) if x.grad_fn is not None else x,
    "of_a_result": lambda x: x * (2 if (x * 2).is_leaf else 3),
    "of_a_detached_one": lambda x: x * (2 if x.detach().is_leaf else 3),
    "in_a_list": lambda x: x * len([t for t in (x, x.detach()) if t.is_leaf]),
}
ARGUMENTS = [
    lambda: x2(),
    lambda: x2().requires_grad_(),
    lambda: x2().requires_grad_() * 1,
    lambda: x2().requires_grad_().sin(),
    lambda: x2(),
    lambda: x2().requires_grad_() * 1,
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_leaves_and_others(name):
    def story(wrap):
        run = wrap(FUNCTIONS[name])
        return [run(make()) for make in ARGUMENTS]

    never_stale(story)
