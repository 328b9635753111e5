"""Divergences of distributions of different families."""

import math
from typing import Any

from torchlike.distributions._torch import torch
from torchlike.distributions.bernoulli import Bernoulli
from torchlike.distributions.beta import Beta
from torchlike.distributions.binomial import Binomial
from torchlike.distributions.continuous_bernoulli import ContinuousBernoulli
from torchlike.distributions.exponential import Exponential
from torchlike.distributions.gamma import Gamma
from torchlike.distributions.gumbel import Gumbel
from torchlike.distributions.kl import register_kl
from torchlike.distributions.laplace import Laplace
from torchlike.distributions.normal import Normal
from torchlike.distributions.pareto import Pareto
from torchlike.distributions.poisson import Poisson
from torchlike.distributions.uniform import Uniform
from torchlike.distributions.utils import euler_constant as EULER

INF = math.inf
LOG_TAU = math.log(2 * math.pi)


def _infinite(p: Any, q: Any) -> Any:
    """``p`` has values that ``q`` has not."""
    shown = next(getattr(p, name) for name in ("loc", "rate", "scale", "concentration1", "probs") if hasattr(p, name))
    return torch.full_like(shown, INF)


for _p, _others in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)


def _to_normal(p: Any, q: Any) -> Any:
    """The mean of -log density of the normal ``q`` under ``p``, from its mean and variance."""
    var = q.scale.pow(2)
    return 0.5 * (LOG_TAU + var.log()) + 0.5 * (p.variance + (p.mean - q.loc).pow(2)) / var


def _to_exponential(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


def _to_gamma(mean: Any, mean_log: Any, q: Any) -> Any:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * mean_log + q.rate * mean


def _inside(p: Any, q: Any, result: Any) -> Any:
    return torch.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), INF, result)


for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Uniform):
    register_kl(_p, Normal)(lambda p, q: -p.entropy() + _to_normal(p, q))
for _p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_p, Exponential)(lambda p, q: -p.entropy() + _to_exponential(p, q))


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Any:
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + _to_gamma(p.mean, mean_log, q)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Any:
    return _inside(p, q, -p.entropy() + (q.high - q.low).log())


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Any:
    result = -p.entropy() + (q.high - q.low).log()
    # PyTorch's bounds: equal ones are outside too
    outside = (q.low >= p.support.lower_bound) | (q.high <= p.support.upper_bound)
    return torch.where(outside, INF, result)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Any:
    return -p.entropy() + _to_gamma(1 / p.rate, -EULER - p.rate.log(), q)


def _to_gumbel(p: Any, q: Any, moment: Any) -> Any:
    """The mean of -log density of the Gumbel ``q``; ``moment`` is the mean of exp(-(x - loc) / scale)."""
    return q.scale.log() + (p.mean - q.loc) / q.scale + moment


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    return -p.entropy() + _to_gumbel(p, q, torch.exp(q.loc / q.scale) * product / (product + 1))


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Any:
    shrunk = (1 + 1 / (p.rate * q.scale)).pow(-p.concentration)
    return -p.entropy() + _to_gumbel(p, q, (q.loc / q.scale).exp() * shrunk)


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Any:
    moment = torch.exp((q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).pow(2))
    return -p.entropy() + _to_gumbel(p, q, moment)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Any:
    low, high = (q.loc - p.low) / q.scale, (q.loc - p.high) / q.scale
    moment = q.scale / (p.high - p.low) * (low.exp() - high.exp())
    return -p.entropy() + _to_gumbel(p, q, moment)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Any, q: Any) -> Any:
    return -p.entropy() + _to_normal(p, q)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Any:
    gap = p.loc - q.loc
    ratio = gap / p.scale
    mean = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * ratio.pow(2)) + gap * torch.erf(math.sqrt(0.5) * ratio)
    return -p.entropy() + (2 * q.scale).log() + mean / q.scale


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Any:
    return torch.where(p.alpha <= 1, INF, -p.entropy() + _to_exponential(p, q))


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Any:
    result = -p.entropy() + _to_gamma(p.mean, p.scale.log() + p.alpha.reciprocal(), q)
    return torch.where(p.alpha <= 1, INF, result)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Any:
    return torch.where(p.alpha <= 2, INF, -p.entropy() + _to_normal(p, q))


def _mean_log(p: Any) -> Any:
    """The mean of log x under a uniform distribution."""
    return (torch.xlogy(p.high, p.high) - torch.xlogy(p.low, p.low)) / (p.high - p.low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Any:
    low, high = 1 - p.high, 1 - p.low
    upper = (torch.xlogy(high, high) - torch.xlogy(low, low)) / (high - low) - 1
    a, b = q.concentration1, q.concentration0
    logs = a.lgamma() + b.lgamma() - (a + b).lgamma()
    result = -p.entropy() - (a - 1) * _mean_log(p) - (b - 1) * upper + logs
    return torch.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), INF, result)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Any:
    result = -p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()
    outside = (p.high > q.support.upper_bound) | (p.low < q.support.lower_bound)
    return torch.where(outside, INF, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Any:
    return torch.where(p.low < q.support.lower_bound, INF, -p.entropy() + _to_exponential(p, q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Any:
    result = -p.entropy() + _to_gamma(p.mean, _mean_log(p), q)
    return torch.where(p.low < q.support.lower_bound, INF, result)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Any:
    result = -p.entropy() - (q.alpha.log() + q.alpha * q.scale.log()) + (q.alpha + 1) * _mean_log(p)
    return torch.where(p.low < q.support.lower_bound, INF, result)
