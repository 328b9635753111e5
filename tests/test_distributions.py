"""torch.distributions: numbers, gradients, shapes, reprs and errors of PyTorch's; samples by their moments."""

import warnings
from importlib import import_module
from itertools import product

import numpy as np
import pytest
import torch
from both import agree, attempt
from oracle import host
from story_kit import said, story

import torchlike


@pytest.fixture(autouse=True)
def validated():
    torch.distributions.Distribution.set_default_validate_args(True)  # PyTorch's compiler turns it off on import


def v(t, *numbers, grad=True):
    return t.tensor(numbers, dtype=t.float64, requires_grad=grad)


def spd(t):
    return t.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=t.float64, requires_grad=True)


def lower(t):
    return t.tensor([[1.5, 0.0], [0.5, 1.0]], dtype=t.float64, requires_grad=True)


UNIT, REAL, POSITIVE = (0.2, 0.7), (-1.3, 0.4), (0.6, 2.5)
COUNT = (0.0, 2.0)
# name: (parameters of t -> keywords, values of the support)
CASES = {
    "Bernoulli": (lambda t: {"probs": v(t, 0.3, 0.8)}, (0.0, 1.0)),
    "Bernoulli logits": (lambda t: {"logits": v(t, -0.3, 2.0)}, (0.0, 1.0)),
    "Beta": (lambda t: {"concentration1": v(t, 0.7, 3.0), "concentration0": v(t, 2.0, 0.4)}, UNIT),
    "Binomial": (lambda t: {"total_count": 5, "probs": v(t, 0.3, 0.8)}, COUNT),
    "Binomial logits": (lambda t: {"total_count": 5, "logits": v(t, -0.3, 2.0)}, COUNT),
    "Categorical": (lambda t: {"probs": v(t, 0.5, 1.0, 2.5)}, (0.0, 2.0)),
    "Categorical logits": (lambda t: {"logits": v(t, 0.5, -1.0, 2.5)}, (0.0, 2.0)),
    "Cauchy": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, REAL),
    "Chi2": (lambda t: {"df": v(t, 1.0, 4.0)}, POSITIVE),
    "ContinuousBernoulli": (lambda t: {"probs": v(t, 0.5, 0.8)}, UNIT),
    "ContinuousBernoulli logits": (lambda t: {"logits": v(t, 0.0, 1.5)}, UNIT),
    "Dirichlet": (lambda t: {"concentration": v(t, 0.5, 1.0, 2.5)}, [(0.2, 0.3, 0.5)]),
    "Exponential": (lambda t: {"rate": v(t, 0.5, 2.0)}, POSITIVE),
    "FisherSnedecor": (lambda t: {"df1": v(t, 3.0, 5.0), "df2": v(t, 5.0, 6.0)}, POSITIVE),
    "Gamma": (lambda t: {"concentration": v(t, 0.7, 3.0), "rate": v(t, 2.0, 0.4)}, POSITIVE),
    "GeneralizedPareto": (
        lambda t: {"loc": t.tensor([0.0, 0.5]), "scale": t.tensor([1.0, 2.0]), "concentration": t.tensor([0.2, -0.1])},
        POSITIVE,
    ),
    "GeneralizedPareto without moments": (
        lambda t: {"loc": t.tensor([0.0, 0.5]), "scale": t.tensor([1.0, 2.0]), "concentration": t.tensor([0.6, 1.2])},
        POSITIVE,
    ),
    "Geometric": (lambda t: {"probs": v(t, 0.3, 0.8)}, COUNT),
    "Geometric logits": (lambda t: {"logits": v(t, 0.3, -0.8)}, COUNT),
    "Gumbel": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, REAL),
    "HalfCauchy": (lambda t: {"scale": v(t, 1.0, 2.0)}, POSITIVE),
    "HalfNormal": (lambda t: {"scale": v(t, 1.0, 2.0)}, POSITIVE),
    "InverseGamma": (lambda t: {"concentration": v(t, 0.7, 3.0), "rate": v(t, 2.0, 0.4)}, POSITIVE),
    "Kumaraswamy": (lambda t: {"concentration1": v(t, 1.5, 3.0), "concentration0": v(t, 2.0, 1.4)}, UNIT),
    "LKJCholesky": (lambda t: {"dim": 2, "concentration": v(t, 0.5, 2.0)}, [((1.0, 0.0), (0.6, 0.8))]),
    "Laplace": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, REAL),
    "LogNormal": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, POSITIVE),
    "LogisticNormal": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, [(0.2, 0.3, 0.5)]),
    "LowRankMultivariateNormal": (lambda t: {"loc": v(t, 0.0, 1.0), "cov_factor": t.tensor([[1.0], [0.5]]).double(),
                                             "cov_diag": v(t, 1.0, 2.0)}, [REAL]),
    "Multinomial": (lambda t: {"total_count": 3, "probs": v(t, 0.5, 1.0, 2.5)}, [(1.0, 0.0, 2.0)]),
    "MultivariateNormal": (lambda t: {"loc": v(t, 0.0, 1.0), "covariance_matrix": spd(t)}, [REAL]),
    "MultivariateNormal precision": (lambda t: {"loc": v(t, 0.0, 1.0), "precision_matrix": spd(t)}, [REAL]),
    "MultivariateNormal tril": (lambda t: {"loc": v(t, 0.0, 1.0), "scale_tril": lower(t)}, [REAL]),
    "NegativeBinomial": (lambda t: {"total_count": v(t, 3.0, 1.5), "probs": v(t, 0.3, 0.8)}, COUNT),
    "NegativeBinomial logits": (lambda t: {"total_count": v(t, 3.0, 1.5), "logits": v(t, 0.3, -0.8)}, COUNT),
    "Normal": (lambda t: {"loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, REAL),
    "OneHotCategorical": (lambda t: {"probs": v(t, 0.5, 1.0, 2.5)}, [(0.0, 1.0, 0.0)]),
    "OneHotCategoricalStraightThrough": (lambda t: {"logits": v(t, 0.5, 1.0, 2.5)}, [(0.0, 1.0, 0.0)]),
    "Pareto": (lambda t: {"scale": v(t, 0.5, 1.0), "alpha": v(t, 1.5, 3.0)}, (0.7, 2.0)),
    "Poisson": (lambda t: {"rate": v(t, 0.5, 2.3)}, COUNT),
    "RelaxedBernoulli": (lambda t: {"temperature": v(t, 0.7), "probs": v(t, 0.3, 0.8)}, UNIT),
    "RelaxedOneHotCategorical": (lambda t: {"temperature": v(t, 0.7), "probs": v(t, 0.5, 1.0, 2.5)}, [(0.2, 0.3, 0.5)]),
    "StudentT": (lambda t: {"df": v(t, 1.5, 3.0), "loc": v(t, 0.0, 1.0), "scale": v(t, 1.0, 2.0)}, REAL),
    "Uniform": (lambda t: {"low": v(t, -2.0, 0.0), "high": v(t, 1.0, 2.0)}, REAL),
    "VonMises": (lambda t: {"loc": v(t, 0.0, 1.0), "concentration": v(t, 1.0, 2.0)}, REAL),
    "Weibull": (lambda t: {"scale": v(t, 1.0, 2.0), "concentration": v(t, 1.5, 3.0)}, POSITIVE),
    "Wishart": (lambda t: {"df": v(t, 3.0, 4.5), "covariance_matrix": spd(t)}, [((1.0, 0.2), (0.2, 0.7))]),
    "Wishart tril": (lambda t: {"df": v(t, 3.0, 4.5), "scale_tril": lower(t)}, [((1.0, 0.2), (0.2, 0.7))]),
}  # fmt: skip


def made(t, case):
    """The distribution of a case, and its parameters."""
    given = CASES[case][0](t)
    return getattr(t.distributions, case.split()[0])(**given), given


def close(f, rtol=1e-6):
    """``f(torchlike)`` is ``f(torch)``: tensors to rounding, the rest exactly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's Wishart warns of singular samples
        ours, theirs = f(torchlike), f(torch)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(other, torch.Tensor):
            assert isinstance(mine, torchlike.Tensor), mine
            assert str(mine.dtype) == str(other.dtype)
            np.testing.assert_allclose(host(mine), host(other), rtol=rtol, atol=1e-9)
        else:
            assert (type(mine).__name__ if isinstance(mine, Exception) else str(mine)) == (
                type(other).__name__ if isinstance(other, Exception) else str(other)
            )


@pytest.mark.parametrize("case", CASES)
def test_attributes(case):
    def f(t):
        d, _ = made(t, case)
        names = ("mean", "mode", "variance", "stddev", "support", "has_rsample", "has_enumerate_support", "batch_shape",
                 "event_shape", "arg_constraints", "probs", "logits", "covariance_matrix", "precision_matrix",
                 "scale_tril", "_mean_carrier_measure")  # fmt: skip
        kept = [attempt(lambda n=n: getattr(d, n)) for n in names]
        return [*kept, repr(d), attempt(lambda: d.enumerate_support()), attempt(lambda: d.perplexity())]

    close(f)


@pytest.mark.parametrize("case", CASES)
def test_densities_and_their_gradients(case):
    def f(t):
        d, given = made(t, case)
        x = t.tensor(CASES[case][1], dtype=t.float64, requires_grad=True)
        results = [attempt(lambda: d.log_prob(x)), attempt(lambda: d.cdf(x)), attempt(lambda: d.entropy())]
        results.append(attempt(lambda: d.icdf(t.tensor([0.3, 0.6], dtype=t.float64))))
        leaves = [p for p in [*given.values(), x] if isinstance(p, t.Tensor) and p.requires_grad]
        for r in list(results):
            if isinstance(r, t.Tensor) and r.requires_grad:
                grads = attempt(lambda r=r: t.autograd.grad(r.sum(), leaves, retain_graph=True, allow_unused=True))
                results += [grads] if isinstance(grads, Exception) else grads
        return results

    close(f, rtol=1e-5 if case == "GeneralizedPareto" else 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_expansion(case):
    def f(t):
        d, _ = made(t, case)
        wide = d.expand((3, *d.batch_shape))
        x = t.tensor(CASES[case][1], dtype=t.float64)
        return [wide.batch_shape, wide.event_shape, wide.log_prob(x[-1:]), attempt(lambda: wide.mean), repr(wide),
                type(wide).__name__, wide._validate_args, wide.sample((2,)).shape]  # fmt: skip

    close(f)


ROUGH = {"Cauchy", "HalfCauchy", "Wishart", "LKJCholesky"}  # no mean, or too much of it


@pytest.mark.parametrize("case", [c for c in CASES if c.split()[0] not in ROUGH])
def test_moments_of_samples(case):
    """Means of 20,000 samples are within 5 standard errors; gradients of them are those of the means."""
    torchlike.manual_seed(0)
    d, given = made(torchlike, case)
    x = d.rsample((20000,)) if d.has_rsample else d.sample((20000,))
    assert x.shape == (20000, *d.batch_shape, *d.event_shape) and d.support.check(x.detach()).all()
    mean, variance = attempt(lambda: host(d.mean)), attempt(lambda: host(d.variance))
    if isinstance(mean, Exception) or isinstance(variance, Exception):
        return
    known = np.isfinite(mean) & np.isfinite(variance)
    error = np.abs(host(x.double().mean(0)) - mean)[known]
    if case != "VonMises":
        assert (error <= 5 * np.sqrt(variance[known] / 20000) + 1e-6).all()


@pytest.mark.parametrize("case", ["Gamma", "Dirichlet", "Normal", "Weibull"])
def test_gradients_of_samples(case):
    """The derivative of the mean of log(1 + x^2), by samples, is that by central differences of other samples."""
    torchlike.manual_seed(1)
    d, given = made(torchlike, case)
    weight = torchlike.arange(1.0, 1 + max(1, *d.event_shape, 1), dtype=torchlike.float64)
    value = ((d.rsample((20000,)) ** 2 + 1).log() * weight).mean(0).sum()
    value.backward()
    name, parameter = next(iter(given.items()))
    for i in range(parameter.numel()):
        ends = []
        for sign in (1, -1):
            torchlike.manual_seed(2)
            moved = {n: p.detach().clone() for n, p in given.items()}
            moved[name][i] += sign * 0.1
            other = type(d)(**moved)
            ends.append(((other.rsample((20000,)) ** 2 + 1).log() * weight).mean(0).sum().item())
        assert abs((ends[0] - ends[1]) / 0.2 - parameter.grad[i].item()) < 0.15, name


def test_gamma_derivatives():
    points = [(a, a * f) for a, f in product((0.3, 1.0, 4.0, 50.0), (0.5, 1.0, 1.6))]
    a, x = (np.array(c) for c in zip(*points, strict=True))
    ours = torchlike._standard_gamma_grad(torchlike.tensor(a), torchlike.tensor(x))
    theirs = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(x))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4)
    shares = list(product((0.3, 1.0, 5.0), (0.4, 2.0, 9.0), (0.05, 0.4, 0.8)))
    a, b, x = (np.array(c) for c in zip(*shares, strict=True))
    ours = torchlike._dirichlet_grad(*map(torchlike.tensor, (x, a, a + b)))
    theirs = torch._dirichlet_grad(*map(torch.tensor, (x, a, a + b)))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-2)  # PyTorch's are approximations


FAMILIES = {
    "Bernoulli": "Bernoulli",
    "Beta": "Beta",
    "Binomial": "Binomial",
    "Categorical": "Categorical",
    "Cauchy": "Cauchy",
    "ContinuousBernoulli": "ContinuousBernoulli",
    "Dirichlet": "Dirichlet",
    "Exponential": "Exponential",
    "Gamma": "Gamma",
    "Geometric": "Geometric",
    "Gumbel": "Gumbel",
    "HalfNormal": "HalfNormal",
    "Laplace": "Laplace",
    "LowRank": "LowRankMultivariateNormal",
    "Multivariate": "MultivariateNormal",
    "Normal": "Normal",
    "Pareto": "Pareto",
    "OneHot": "OneHotCategorical",
    "Poisson": "Poisson",
    "Uniform": "Uniform",
    "Wishart": "Wishart",
    "Chi2": "Chi2",
    "LogNormal": "LogNormal",
}


@pytest.mark.parametrize("first", FAMILIES)
def test_divergences(first):
    def f(t):
        results = []
        for second in FAMILIES.values():
            p, given = made(t, FAMILIES[first])
            q, _ = made(t, second)
            divergence = attempt(lambda p=p, q=q: t.distributions.kl_divergence(p, q))
            results.append(divergence)
            leaves = [x for x in given.values() if isinstance(x, t.Tensor) and x.requires_grad]
            if isinstance(divergence, t.Tensor) and divergence.requires_grad and t.isfinite(divergence).all():
                results += t.autograd.grad(divergence.sum(), leaves, allow_unused=True)
        return results

    close(f, rtol=1e-5)


TRANSFORMS = {
    "ExpTransform()": REAL, "SigmoidTransform()": REAL, "TanhTransform()": REAL, "SoftplusTransform()": REAL,
    "AffineTransform(1.0, -2.0)": REAL, "AffineTransform(1.0, 2.0, event_dim=1)": REAL, "SoftmaxTransform()": REAL,
    "PowerTransform(t.tensor(2.0).double())": POSITIVE, "AbsTransform()": REAL, "StickBreakingTransform()": REAL,
    "CorrCholeskyTransform()": (0.1, -0.4, 0.8), "LowerCholeskyTransform()": [REAL, UNIT],
    "PositiveDefiniteTransform()": [REAL, UNIT], "ReshapeTransform((2,), (1, 2))": REAL,
    "ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 3.0)])": REAL,
    "IndependentTransform(D.ExpTransform(), 1)": REAL,
    "CatTransform([D.ExpTransform(), D.TanhTransform()], dim=0)": REAL,
    "StackTransform([D.ExpTransform(), D.TanhTransform()], dim=0)": REAL,
    "CumulativeDistributionTransform(D.Normal(t.zeros(()).double(), t.ones(()).double()))": REAL,
}  # fmt: skip


@pytest.mark.parametrize("text", TRANSFORMS)
def test_transforms(text):
    def f(t):
        D = t.distributions
        transform = eval(f"D.{text}", {"D": D, "t": t})
        x = t.tensor(TRANSFORMS[text], dtype=t.float64, requires_grad=True)
        y = transform(x)
        volume = attempt(lambda: transform.log_abs_det_jacobian(x, y))
        grads = t.autograd.grad(y.sum(), x)
        cached = attempt(lambda: transform.with_cache(1))
        same = cached.inv(cached(x)) is x if isinstance(cached, D.Transform) else cached
        names = ("domain", "codomain", "bijective", "sign", "event_dim")
        return [
            y,
            transform.inv(y),
            volume,
            *grads,
            attempt(lambda: transform.forward_shape(x.shape)),
            same,
            attempt(lambda: transform.inverse_shape(y.shape)),
            repr(transform),
            repr(transform.inv),
            *[attempt(lambda n=n: getattr(transform, n)) for n in names],
            transform == transform.inv.inv,
        ]

    close(f)


CONSTRAINTS = [
    "boolean", "one_hot", "nonnegative_integer", "positive_integer", "real", "real_vector", "positive", "nonnegative",
    "unit_interval", "simplex", "lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric",
    "positive_semidefinite", "positive_definite", "interval(-1.0, 2.0)", "greater_than(0.5)", "greater_than_eq(1.0)",
    "less_than(1.0)", "half_open_interval(0.0, 1.0)", "integer_interval(0, 2)", "multinomial(2)",
    "independent(C.real, 1)", "cat([C.real, C.positive], 0)", "stack([C.real, C.positive], 0)",
]  # fmt: skip


@pytest.mark.parametrize("text", CONSTRAINTS)
def test_constraints(text):
    def f(t):
        C = t.distributions.constraints
        constraint = eval(f"C.{text}", {"C": C})
        values = (
            [[1.0, 0.0], [0.6, 0.8]],
            [[0.0, 1.0], [1.0, 0.0]],
            [[2.0, 0.5], [0.5, 1.0]],
            [[-1.0, float("nan")], [3, 1]],
        )
        checks = [attempt(lambda x=x: constraint.check(t.tensor(x, dtype=t.float64))) for x in values]
        made = [
            attempt(lambda r=r: repr(r(constraint))) for r in (t.distributions.biject_to, t.distributions.transform_to)
        ]
        shown = repr(constraint) if not text.startswith(("cat", "stack")) else ""
        return [*checks, *made, shown, constraint.is_discrete, constraint.event_dim]

    close(f)


WRONG = {
    "a parameter": (lambda t, D: D.Normal(t.zeros(2), t.tensor([1.0, -1.0])), "Expected parameter scale .*"),
    "a value": (lambda t, D: D.Normal(0.0, 1.0).log_prob(t.tensor([float("nan")])), "Expected value argument .*"),
    "a discrete value": (
        lambda t, D: D.Bernoulli(t.tensor([0.5])).log_prob(t.tensor(0.25)),
        "Expected value argument .*",
    ),
    "a number": (lambda t, D: D.Normal(0.0, 1.0).log_prob(3), ".*"),
    "a shape": (lambda t, D: D.Categorical(t.ones(2, 3)).log_prob(t.ones(3)), "Value is not broadcastable .*"),
    "an event": (lambda t, D: D.Dirichlet(t.ones(2)).log_prob(t.tensor(1.0)), "The right-most size .*"),
    "two parameters": (lambda t, D: D.Bernoulli(0.5, 0.4), ".*"),
    "no parameter": (lambda t, D: D.Categorical(), ".*"),
    "a 0-dimensional one": (lambda t, D: D.Categorical(t.tensor(1.0)), ".*"),
    "bounds": (lambda t, D: D.Uniform(1.0, 0.0), "Expected parameter low .*"),
    "a matrix": (lambda t, D: D.MultivariateNormal(t.zeros(2), -t.eye(2)), "Expected parameter covariance_matrix"),
    "no matrix": (lambda t, D: D.MultivariateNormal(t.zeros(2)), "Exactly one of"),
    "dimensions": (lambda t, D: D.Independent(D.Normal(0.0, 1.0), 1), "Expected reinterpreted_batch_ndims .*"),
    "text": (lambda t, D: D.Normal("a", 1.0), ".*"),
    "shapes": (lambda t, D: D.Normal(t.zeros(2), t.ones(3)), "size of tensor a .2. must match"),
    "a default": (lambda t, D: D.Distribution.set_default_validate_args(3), ".*"),
    "rsample": (lambda t, D: D.Bernoulli(0.5).rsample(), "$"),
    "a subclass": (
        lambda t, D: type("S", (D.Normal,), {"__init__": lambda s: D.Normal.__init__(s, 0.0, 1.0)})().expand((2,)),
        "defines a custom __init__ method",
    ),
    "transforms": (lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), ".*"),
    "a base": (
        lambda t, D: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
        "base_distribution .*",
    ),
    "a divergence": (
        lambda t, D: D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0)),
        "No KL.p .. q. is implemented .*",
    ),
    "a constraint": (lambda t, D: D.biject_to(D.constraints.boolean), ".*"),
    "a mixture": (
        lambda t, D: D.MixtureSameFamily(D.Categorical(t.ones(3)), D.Normal(t.zeros(2), t.ones(2))),
        "does not equal",
    ),
    "a probability of 0": (lambda t, D: D.Geometric(t.tensor([0.0, 0.5])), "to be positive but found invalid values"),
    "a cache": (lambda t, D: D.ExpTransform(cache_size=3), ".*"),
    "degrees of freedom": (lambda t, D: D.Wishart(0.5, t.eye(2)), "expected to be greater than ndim - 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    f, pattern = WRONG[name]
    agree(lambda t: said(lambda: f(t, t.distributions), pattern))


@story
def test_compositions(t):
    D, x = t.distributions, t.tensor([0.3, -1.2, 2.0], dtype=t.float64)
    loc = t.zeros(3, dtype=t.float64, requires_grad=True)
    independent = D.Independent(D.Normal(loc, loc.detach() + 1), 1)
    changed = D.TransformedDistribution(
        D.Normal(loc, loc.detach() + 1), [D.AffineTransform(1.0, 2.0), D.TanhTransform()]
    )
    mixture = D.MixtureSameFamily(D.Categorical(t.ones(2).double()), D.Normal(loc[:2], loc[:2].detach() + 1))
    y = t.tanh(x)
    independent.log_prob(x).backward()
    return [
        independent.log_prob(x),
        loc.grad,
        independent.entropy(),
        independent.mean,
        repr(independent),
        independent.support,
        changed.log_prob(y),
        changed.cdf(y),
        changed.icdf(t.tensor([0.2, 0.5, 0.7]).double()),
        repr(changed),
        changed.support,
        mixture.log_prob(x),
        mixture.cdf(x),
        mixture.mean,
        mixture.variance,
        repr(mixture),
        mixture.support,
        D.kl_divergence(independent, independent),
        independent.expand((2,)).batch_shape,
        mixture.expand((4,)).batch_shape,
        mixture.sample((5,)).shape,
        changed.rsample((2,)).requires_grad,
        changed.sample((2,)).requires_grad,
    ]


@story
def test_helpers(t):
    U = import_module(f"{t.__name__}.distributions.utils")
    x = t.tensor([0.1, 0.6, 0.3], dtype=t.float64)

    class Lazy:
        @U.lazy_property
        def value(self):
            """The value."""
            self.count = getattr(self, "count", 0) + 1
            return 3

    lazy = Lazy()
    return [
        U.broadcast_all(1.0, x),
        U.broadcast_all(1, 2.5),
        U.probs_to_logits(x),
        U.logits_to_probs(x, True),
        U.clamp_probs(x * 0),
        U.vec_to_tril_matrix(x),
        U.tril_matrix_to_vec(t.arange(9.0).reshape(3, 3), -1),
        U._sum_rightmost(t.ones(2, 3, 4), 2),
        lazy.value,
        lazy.value,
        lazy.count,
        isinstance(Lazy.value, property),
        said(lambda: U.broadcast_all([1]), ".*"),
    ]


@story
def test_a_registration_for_subclasses(t):
    D = t.distributions

    class Mine(D.Normal):
        pass

    before = D.kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0))
    D.register_kl(Mine, D.Normal)(lambda p, q: t.tensor(7.0))
    return before, D.kl_divergence(Mine(0.0, 1.0), D.Normal(1.0, 1.0)), repr(Mine(0.0, 1.0).expand((2,)))


def test_everything_is_there():
    import torch.distributions as theirs

    missing = [name for name in theirs.__all__ if not hasattr(torchlike.distributions, name)]
    parts = ("constraints", "transforms", "utils", "kl", "constraint_registry")
    missing += [f"{m}.{n}" for m in parts for n in getattr(theirs, m).__all__
                if not hasattr(getattr(torchlike.distributions, m), n)]  # fmt: skip
    assert not missing


def test_functions_of_pairs_by_name():
    def f(t):
        normal = [t.distributions.Normal(v(t, *loc), v(t, 1.0, 2.0)) for loc in ((0.0, 1.0), (0.5, 3.0))]
        kl = t.distributions.kl
        return [f(*normal) for f in (kl._kl_normal_normal, kl._kl_expfamily_expfamily)], hasattr(kl, "_kl_of_nothing")

    agree(f)


def test_the_gradient_of_a_dirichlet_sample():
    def f(t):
        x = v(t, 0.2, 0.3, 0.5, grad=False).expand(2, 3)
        grad = t.arange(6, dtype=t.float64).reshape(2, 3)
        concentration = v(t, 0.5, 1.0, 2.5, grad=False).expand(2, 3)
        return t.distributions.dirichlet._Dirichlet_backward(x, concentration, grad).round(decimals=5)

    agree(f)


def test_binomial_gradient_where_both_are_as_likely():
    def f(t):
        x = t.zeros(3, requires_grad=True)
        t.distributions.Binomial(t.tensor([1.0, 1.0, 4.0]), logits=x).log_prob(
            t.tensor([0.0, 1.0, 3.0])
        ).sum().backward()
        return x.grad

    agree(f)


def test_shares_are_inside_of_the_simplex():
    def f(t):
        t.manual_seed(3)
        few = [t._sample_dirichlet(t.full((4, 2), 1e-2, dtype=d)) for d in (t.float32, t.float64)]
        many = t._sample_dirichlet(t.full((20_000, 2), 1e-2))
        return [(x.min() > 0, x.max() < 1) for x in (*few, many)], few[0].max()

    agree(f)


def test_one_gamma_sample_in_double_precision():
    def f(t):
        t.manual_seed(3)
        return t._standard_gamma(t.tensor(1.5, dtype=t.float64)), t._standard_gamma(t.tensor(1e-5, dtype=t.float64))

    agree(f)


@pytest.mark.parametrize("df", [2.5, 3.0])
def test_low_degrees_of_freedom_are_warned_of(df):
    said = []
    for t in (torch, torchlike):
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            t.distributions.Wishart(t.tensor([df, 4.0]), t.eye(3))
        said.append([(w.category, str(w.message)) for w in met])
    assert said[0] == said[1] and len(said[1]) == (df < 3)


def test_wishart_samples():
    def f(t):
        t.manual_seed(1)
        W = t.distributions.Wishart(t.tensor(3.5, dtype=t.float64), t.eye(3, dtype=t.float64), validate_args=False)
        several = t.distributions.Wishart(t.tensor([3.0, 5.0]), t.tensor([[2.0, 0.5], [0.5, 1.0]]))
        entropies = [t.distributions.ExponentialFamily.entropy(several).detach(), several.entropy()]
        return W.rsample((2,)), several._natural_params, entropies

    agree(f)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("df", [4.0, 1.5, (3.0, 5.0)])
def test_wishart_samples_are_pytorchs(df, shape):
    """PyTorch draws the positive definite ones anew, with its warning, and leaves the others."""

    def f(t):
        t.manual_seed(2)
        W = t.distributions.Wishart(t.tensor(df, dtype=t.float64), t.eye(2, dtype=t.float64), validate_args=False)
        with pytest.warns(UserWarning, match="Singular sample detected"):
            return W.sample(shape), t.rand(2)

    agree(f)


def test_von_mises_samples_are_pytorchs():
    def f(t):
        t.manual_seed(0)
        return t.distributions.VonMises(t.tensor([0.0, 1.0]), t.tensor([4.0, 0.3])).sample((20,)), t.rand(2)

    agree(f)


def test_the_normalizer_of_continuous_bernoulli():
    def f(t):
        x = t.distributions.ContinuousBernoulli(logits=v(t, 0.0, 1.5, -3.0))
        return t.distributions.ExponentialFamily.entropy(x).detach()

    agree(f)


def test_the_slope_of_large_gamma_samples():
    agree(lambda t: t._standard_gamma_grad(t.tensor([1e4, 3.0]), t.tensor([9819.26, 2.0])).mul(1e3).round())


def test_the_inverse_of_joined_compositions():
    def f(t):
        T, y = t.distributions.transforms, t.arange(1.0, 5)
        parts = [
            T.ExpTransform(),
            T.identity_transform,
            T.ComposeTransform([T.AffineTransform(1, 2), T.ExpTransform()]),
        ]
        return T.CatTransform(parts).inv(y[1:]), T.StackTransform(parts[:2]).inv(y.view(2, 2))

    agree(f)
