"""Distributions within transforms: their arguments are checked for all examples."""

import pytest
from both import agree

CASES = {
    "log_prob": lambda t, d, v: d.Normal(v, 1.0).log_prob(v * 2),
    "logits": lambda t, d, v: d.Categorical(logits=v).log_prob(t.tensor(1)),
}
WRONG = {
    "scale": lambda t, d, v: d.Normal(v, -v.abs() - 1, validate_args=True).mean,
    "one example's": lambda t, d, v: d.Exponential(v + 0.1, validate_args=True).mean,
    "value": lambda t, d, v: d.Exponential(v + 1, validate_args=True).log_prob(v - 3),
}


def _examples(t):
    return t.arange(-0.2, 1.0, 0.2).reshape(2, 3)


@pytest.mark.parametrize("name", CASES)
def test_a_distribution_for_each_example(name):
    def run(t):
        f = lambda v: CASES[name](t, t.distributions, v)  # noqa: E731
        return t.vmap(f)(_examples(t)), t.vmap(t.func.grad(lambda v: f(v).sum()))(_examples(t))

    agree(run)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_of_any_example_is_refused(name):
    def run(t):
        with pytest.raises(ValueError, match="found invalid values"):
            t.vmap(lambda v: WRONG[name](t, t.distributions, v))(_examples(t))

    agree(run)
