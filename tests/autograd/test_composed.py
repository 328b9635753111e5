"""Functions that become one kernel after some calls: values, gradients, nodes and errors of PyTorch's many calls."""

from functools import partial

import numpy as np
import pytest
import torch
from both import agree, attempt
from dispatch_kit import log_mode
from jax.core import Tracer
from oracle import host

import torchlike
from torchlike._core.autograd import composed
from torchlike._decl import settings
from torchlike._executor import immediate

pytestmark = pytest.mark.once  # recorded calls are the operators'


def v(t, *numbers):
    return t.tensor(numbers, dtype=t.float64, requires_grad=True)


def parts(t):
    loc, scale, p, logits = v(t, 0.5, -1, 2), v(t, 1, 2, 0.5), v(t, 0.2, 0.5, 0.3), v(t, 0.1, -2, 3)
    return loc, scale, v(t, 0.1, 1, 2.5), v(t, 0.3, 2, 1.5), p, logits


# name: (distributions, a value, what requires grad) of t, D and the tensors above
CASES = {
    "Normal": lambda D, a, b, c, d, p, x: (D.Normal(a, b), D.Normal(c, d), (0.1, 0.2, -3), (a, b)),
    "Categorical": lambda D, a, b, c, d, p, x: (D.Categorical(logits=x), D.Categorical(logits=a), (1,), (x, a)),
    "Categorical probs": lambda D, a, b, c, d, p, x: (D.Categorical(p), D.Categorical(logits=a), (1, 2), (p, a)),
    "Bernoulli": lambda D, a, b, c, d, p, x: (D.Bernoulli(logits=x), D.Bernoulli(p), (1, 0, 1), (x, p)),
    "Beta": lambda D, a, b, c, d, p, x: (D.Beta(b, d), D.Beta(d, b), (0.1, 0.5, 0.9), (b, d)),
    "Dirichlet": lambda D, a, b, c, d, p, x: (D.Dirichlet(b), D.Dirichlet(d), (0.1, 0.5, 0.4), (b, d)),
    "Gamma": lambda D, a, b, c, d, p, x: (D.Gamma(b, d), D.Gamma(d, b), (0.1, 0.5, 0.4), (b, d)),
    "Exponential": lambda D, a, b, c, d, p, x: (D.Exponential(b), D.Exponential(d), (0.1, 0.5, 0.4), (b, d)),
    "Uniform": lambda D, a, b, c, d, p, x: (D.Uniform(a, a + b), D.Uniform(a, a + d), (0.6, -0.5, 2.2), (b, d)),
    "StudentT": lambda D, a, b, c, d, p, x: (D.StudentT(b, a, d), D.Laplace(c, d), (0.6, -0.5, 2.2), (a, b, d)),
    "Poisson": lambda D, a, b, c, d, p, x: (D.Poisson(b), D.Poisson(d), (0, 3, 2), (b, d)),
    "Cauchy": lambda D, a, b, c, d, p, x: (D.Cauchy(a, b), D.Cauchy(c, d), (0.6, -0.5, 2.2), (a, b)),
    "Gumbel": lambda D, a, b, c, d, p, x: (D.Gumbel(a, b), D.Gumbel(c, d), (0.6, -0.5, 2.2), (a, b)),
    "Binomial": lambda D, a, b, c, d, p, x: (D.Binomial(5, logits=x), D.Binomial(5, p), (0, 3, 5), (x, p)),
    "Vectors": lambda D, a, b, c, d, p, x: (
        D.MultivariateNormal(a, b.diag()),
        D.MultivariateNormal(c, scale_tril=d.diag()),
        (0.6, -0.5, 2.2),
        (a, b, d),
    ),
    "Independent": lambda D, a, b, c, d, p, x: (
        D.Independent(D.Normal(a, b), 1),
        D.Independent(D.Normal(c, d), 1),
        (0.6, -0.5, 2.2),
        (a, b),
    ),
    "Tanh": lambda D, a, b, c, d, p, x: (
        D.TransformedDistribution(D.Normal(a, b), [D.TanhTransform()]),
        D.Normal(c, d),
        (0.6, -0.5, 0.2),
        (a, b),
    ),
    "Sigmoid": lambda D, a, b, c, d, p, x: (
        D.TransformedDistribution(D.Normal(a, b), [D.SigmoidTransform()]),
        D.Normal(c, d),
        (0.6, 0.5, 0.2),
        (a, b),
    ),
    "Laplace": lambda D, a, b, c, d, p, x: (D.Laplace(a, b), D.Laplace(c, d), (0.6, -0.5, 2.2), (a, b)),
}


def every_result(t, case):
    """Of the first calls and of later ones: densities, entropies, divergences, their nodes and gradients twice."""
    found = []
    for i in range(composed.APART + 2):
        one, other, value, by = CASES[case](t.distributions, *parts(t))
        divergence = partial(t.distributions.kl_divergence, one, other)
        calls = partial(one.log_prob, t.tensor(value, dtype=t.float64)), one.entropy, divergence
        results = [y for f in calls if isinstance(y := attempt(f), t.Tensor)]
        if 0 < i < composed.APART + 1:
            continue
        for k, y in enumerate(results):
            first = t.autograd.grad(y.sin().sum(), by, allow_unused=True, create_graph=True)
            total = sum([g.sum() for g in first if g is not None])
            twice = i and total.requires_grad
            second = t.autograd.grad(total, by, allow_unused=True, retain_graph=True) if twice else ()
            masked = k == 2 and case in ("Uniform", "Binomial")  # PyTorch assigns by a mask there
            node = "" if masked else y.grad_fn.name()
            found.append((node, [None if g is None else host(g).ravel() for g in (y, *first, *second)]))
    return found


@pytest.mark.parametrize("case", CASES)
def test_distributions_agree_however_often_they_were_called(case):
    for ours, theirs in zip(every_result(torchlike, case), every_result(torch, case), strict=True):
        assert ours[0] == theirs[0]
        for x, y in zip(ours[1], theirs[1], strict=True):
            assert (x is None) == (y is None)
            assert x is None or np.allclose(x, y, rtol=1e-6, atol=1e-9, equal_nan=True), (x, y)


def changed(t, which, function):
    x = [t.tensor([0.5, 1.0]), v(t, 1, 2), v(t, 1, 2)]
    y = function(*x)
    with t.no_grad():
        x[which].add_(1)
    return attempt(lambda: t.autograd.grad(y.sum(), x[1:]))


def density(value, loc, scale):
    return -((value - loc) ** 2) / (2 * scale**2) - scale.log()


@pytest.mark.parametrize("which", range(3))
def test_what_changes_before_the_backward_is_an_error_where_nodes_of_the_operators_save_it(which):
    ours = composed.composed("SubBackward")(density)
    results = [changed(torchlike, which, ours) for _ in range(composed.APART + 2)]
    assert {type(r) for r in results} == {type(changed(torch, which, density))}
    if which < 2:
        assert [g.tolist() for g in results[-1]] == [g.tolist() for g in changed(torch, which, density)]


def refusals(t):
    """What is refused once the checks of good parameters are one kernel each."""
    D, found = t.distributions, []
    D.Distribution.set_default_validate_args(True)  # others may have switched it off
    makers = {
        "simplex": (lambda x: D.Categorical(logits=t.zeros(2)).expand((1,)) and D.Dirichlet(x + 1).log_prob(x),
                    ([0.5, 0.5], [0.5, 0.6], [-0.5, 1.5])),
        "one hot": (D.OneHotCategorical(t.ones(2)).log_prob, ([0.0, 1.0], [1.0, 1.0], [0.0, 0.5])),
        "definite": (lambda x: D.MultivariateNormal(t.zeros(2), x.expand(2, 2)),
                     ([[2.0, 1.0], [1.0, 2.0]], [[2.0, 1.0], [0.0, 2.0]], [[-1.0, 0.0], [0.0, 1.0]])),
        "cholesky": (lambda x: D.MultivariateNormal(t.zeros(2), scale_tril=x),
                     ([[2.0, 0.0], [1.0, 2.0]], [[2.0, 1.0], [0.0, 2.0]], [[-1.0, 0.0], [0.0, 1.0]])),
    }  # fmt: skip
    for make, (good, *bad) in makers.values():
        for _ in range(composed.APART + 2):
            make(t.tensor(good))
        found += [attempt(lambda x=x, make=make: bool(make(t.tensor(x)))) for x in bad]
    return found


def test_checks_of_constraints_stay_as_strict():
    agree(refusals)


def drawn(t):
    t.manual_seed(3)
    D, p, found = t.distributions, t.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), []
    for _ in range(3):
        for probs in (p, p[0], p.t(), p.expand(2, 2, 3)):
            found += [
                D.Categorical(probs).sample(),
                D.Categorical(probs).sample((1,)),
                D.Categorical(probs).sample((4,)),
            ]
        a = t.tensor([0.5, 2.0, 9.0])
        found += [D.Beta(a, 1.0).sample(), t.randn(40), D.Gamma(a, a).sample(), D.Poisson(a).sample(), t.randn(3)]
        found += [
            D.Normal(a, a).sample((2,)),
            D.Normal(a, a).sample(),
            D.Bernoulli(p).sample(),
            D.Dirichlet(a).sample(),
        ]
        found += [t.randn(300) for _ in range(9)] + [t.multinomial(p, 1), t.multinomial(p, 2), t.rand(2)]
    return found, t.get_rng_state().sum()


def test_draws_are_pytorchs_however_they_follow_each_other():
    agree(drawn)


def seen(t):
    normal = t.distributions.Normal(t.zeros(3), t.ones(3))
    for _ in range(composed.APART + 2):
        normal.log_prob(t.ones(3))
    with log_mode(t) as log:
        t.distributions.Normal(t.zeros(3), t.ones(3), validate_args=False).log_prob(t.ones(3))
    return log.lines


def test_modes_see_the_operators():
    agree(seen)


def test_results_have_the_default_dtype_of_the_call():
    ours = composed.composed("MulBackward")(lambda x: 1 / x)
    x = torchlike.tensor([2])
    before = [ours(x).dtype for _ in range(composed.APART + 2)][-1]
    torchlike.set_default_dtype(torchlike.float64)
    try:
        assert (before, ours(x).dtype) == (torchlike.float32, torchlike.float64)
    finally:
        torchlike.set_default_dtype(torchlike.float32)


def test_gradients_are_those_of_the_operators_where_jax_has_others():
    ours = composed.composed("AddBackward")(lambda x: x.abs() + x.relu() + x.clamp(min=0) + torchlike.xlogy(x, x))
    for _ in range(composed.APART + 2):
        x = torchlike.zeros(2, requires_grad=True)
        (found,) = torchlike.autograd.grad(ours(x).sum(), x)
    y = torch.zeros(2, requires_grad=True)
    (wanted,) = torch.autograd.grad((y.abs() + y.relu() + y.clamp(min=0) + torch.xlogy(y, y)).sum(), y)
    assert str(found.tolist()) == str(wanted.tolist())


def test_kernels_of_many_operators_check_nothing(monkeypatch):
    checked = set()

    def verified(op, static, values, out):
        if isinstance(values[0], Tracer):
            checked.add(op.name)
        return original(op, static, values, out)

    original = immediate.verified
    monkeypatch.setattr(immediate, "verified", verified)
    for kernel in list(settings.COMPOSED):
        kernel.reset()
    for case in CASES:
        every_result(torchlike, case)
    assert checked <= {"gather"}  # of indices that are validated
