"""Divergences of two distributions of one family."""

import math
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.autograd import grad
from torchlike.distributions._torch import LA, F, torch
from torchlike.distributions.bernoulli import Bernoulli
from torchlike.distributions.beta import Beta
from torchlike.distributions.binomial import Binomial
from torchlike.distributions.categorical import Categorical
from torchlike.distributions.cauchy import Cauchy
from torchlike.distributions.continuous_bernoulli import ContinuousBernoulli
from torchlike.distributions.dirichlet import Dirichlet
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.exponential import Exponential
from torchlike.distributions.gamma import Gamma
from torchlike.distributions.geometric import Geometric
from torchlike.distributions.gumbel import Gumbel
from torchlike.distributions.half_normal import HalfNormal
from torchlike.distributions.independent import Independent
from torchlike.distributions.kl import kl_divergence, register_kl
from torchlike.distributions.laplace import Laplace
from torchlike.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from torchlike.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from torchlike.distributions.normal import Normal
from torchlike.distributions.one_hot_categorical import OneHotCategorical
from torchlike.distributions.pareto import Pareto
from torchlike.distributions.poisson import Poisson
from torchlike.distributions.transformed_distribution import TransformedDistribution
from torchlike.distributions.uniform import Uniform
from torchlike.distributions.utils import _sum_rightmost
from torchlike.distributions.utils import euler_constant as EULER

INF = math.inf


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    return _of_bernoullis(p.probs, p.logits, q.probs, q.logits)


@composed("AddBackward")
def _of_bernoullis(p: Any, p_logits: Any, q: Any, q_logits: Any) -> Any:
    one = p * (F.softplus(-q_logits) - F.softplus(-p_logits))
    one = torch.where(q == 0, INF, one)
    one = torch.where(p == 0, 0.0, one)
    zero = (1 - p) * (F.softplus(q_logits) - F.softplus(p_logits))
    zero = torch.where(q == 1, INF, zero)
    return one + torch.where(p == 1, 0.0, zero)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _of_betas(p.concentration1, p.concentration0, q.concentration1, q.concentration0)


@composed("AddBackward")
def _of_betas(a: Any, b: Any, c: Any, d: Any) -> Any:
    total_p, total_q = a + b, c + d
    logs = c.lgamma() + d.lgamma() + total_p.lgamma() - (a.lgamma() + b.lgamma() + total_q.lgamma())
    slopes = (a - c) * torch.digamma(a) + (b - d) * torch.digamma(b)
    return logs + slopes + (total_q - total_p) * torch.digamma(total_p)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return torch.where(p.total_count > q.total_count, INF, result)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return _of_categoricals(p.probs, p.logits, q.probs, q.logits)


@composed("SumBackward1")
def _of_categoricals(p: Any, p_logits: Any, q: Any, q_logits: Any) -> Any:
    terms = p * (p_logits - q_logits)
    terms = torch.where((q == 0).expand_as(terms), INF, terms)
    return torch.where((p == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    gap = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return gap - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    logs = p._cont_bern_log_norm() + torch.log1p(-p.probs) - q._cont_bern_log_norm() - torch.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + logs


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    return _of_dirichlets(p.concentration, q.concentration)


@composed("AddBackward")
def _of_dirichlets(a: Any, b: Any) -> Any:
    total = a.sum(-1)
    logs = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return logs + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    return _of_exponentials(p.rate, q.rate)


@composed("SubBackward")
def _of_exponentials(p: Any, q: Any) -> Any:
    ratio = q / p
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _expfamily(p: Any, q: Any) -> Any:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    natural = [n.detach().requires_grad_() for n in p._natural_params]
    normalizer = p._log_normalizer(*natural)
    slopes = grad(normalizer.sum(), natural, create_graph=True)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for pn, qn, slope in zip(natural, q._natural_params, slopes, strict=True):
        result = result - ((qn - pn) * slope).reshape(result.shape + (-1,)).sum(-1)
    return result


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    return _of_gammas(p.concentration, p.rate, q.concentration, q.rate)


@composed("AddBackward")
def _of_gammas(a: Any, p_rate: Any, b: Any, q_rate: Any) -> Any:
    logs = b * (p_rate / q_rate).log() + torch.lgamma(b) - torch.lgamma(a)
    return logs + (a - b) * torch.digamma(a) + (q_rate - p_rate) * (a / p_rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift, offset = q.loc / q.scale, p.loc / q.scale
    mean = ratio * EULER + offset - shift
    return ratio.log().neg() + mean + torch.exp(shift - offset + (1 + ratio).lgamma()) - (1 + EULER)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    return _of_laplaces(p.loc, p.scale, q.loc, q.scale)


@composed("SubBackward")
def _of_laplaces(p_loc: Any, p_scale: Any, q_loc: Any, q_scale: Any) -> Any:
    ratio, away = p_scale / q_scale, (p_loc - q_loc).abs()
    return -ratio.log() + away / q_scale + ratio * torch.exp(-away / p_scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    return _of_normals(p.loc, p.scale, q.loc, q.scale)


@composed("MulBackward")
def _of_normals(p_loc: Any, p_scale: Any, q_loc: Any, q_scale: Any) -> Any:
    ratio = (p_scale / q_scale).pow(2)
    return 0.5 * (ratio + ((p_loc - q_loc) / q_scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return _categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    scales, alphas = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scales.log() - alphas.log() + alphas - 1
    return torch.where(p.support.lower_bound < q.support.lower_bound, INF, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Any:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: distributions that are transformed in different ways")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    return _of_uniforms(p.low, p.high, q.low, q.high)


@composed("WhereBackward")
def _of_uniforms(p_low: Any, p_high: Any, q_low: Any, q_high: Any) -> Any:
    result = ((q_high - q_low) / (p_high - p_low)).log()
    return torch.where((q_low > p_low) | (q_high < p_high), INF, result)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: Independent with different numbers of dimensions")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ----- normal distributions of vectors: half of log-determinants, trace and distance -----


def _sizes(p: Any, q: Any) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two normal distributions of vectors with different event shapes: {p.event_shape} "
            f"and {q.event_shape}"
        )


def _solved(tril: Any, matrix: Any) -> Any:
    """|tril^-1 matrix|^2, over batches that broadcast: the trace of (tril tril^T)^-1 matrix matrix^T."""
    batch = torch.broadcast_shapes(tril.shape[:-2], matrix.shape[:-2])
    solved = LA.solve_triangular(
        tril.expand(batch + tril.shape[-2:]), matrix.expand(batch + matrix.shape[-2:]), upper=False
    )
    return solved.reshape(batch + (-1,)).pow(2).sum(-1)


def _squares(matrix: Any) -> Any:
    return matrix.reshape(matrix.shape[:-2] + (-1,)).pow(2).sum(-1)


@composed("SumBackward1")
def _half_log_det(tril: Any) -> Any:
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _mvn(p: Any, q: Any) -> Any:
    _sizes(p, q)
    return _of_vectors(p.loc, p._unbroadcasted_scale_tril, q.loc, q._unbroadcasted_scale_tril)


@composed("AddBackward")
def _of_vectors(p_loc: Any, mine: Any, q_loc: Any, other: Any) -> Any:
    distance = _batch_mahalanobis(other, q_loc - p_loc)
    logs = _half_log_det(other) - _half_log_det(mine)
    return logs + 0.5 * (_solved(other, mine) + distance - mine.size(-1))


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _mvn_lowrank(p: Any, q: Any) -> Any:
    _sizes(p, q)
    W, D, K = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    logs = _batch_lowrank_logdet(W, D, K) - 2 * _half_log_det(p._unbroadcasted_scale_tril)
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, K)
    part = W.mT / D.unsqueeze(-2)
    trace = _squares(p._unbroadcasted_scale_tril * D.rsqrt().unsqueeze(-1))
    trace = trace - _solved(K, part.matmul(p._unbroadcasted_scale_tril))
    return 0.5 * (logs + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_mvn(p: Any, q: Any) -> Any:
    _sizes(p, q)
    W, D = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    other = q._unbroadcasted_scale_tril
    logs = 2 * _half_log_det(other) - _batch_lowrank_logdet(W, D, p._capacitance_tril)
    trace = _solved(other, W) + _solved(other, torch.diag_embed(D.sqrt()))
    return 0.5 * (logs + trace + _batch_mahalanobis(other, q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank(p: Any, q: Any) -> Any:
    _sizes(p, q)
    W, D, K = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q._capacitance_tril
    V, E = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    logs = _batch_lowrank_logdet(W, D, K) - _batch_lowrank_logdet(V, E, p._capacitance_tril)
    distance = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, K)
    part = W.mT / D.unsqueeze(-2)
    whole = (E / D).sum(-1) + _squares(V * D.rsqrt().unsqueeze(-1))
    taken = _solved(K, part * E.sqrt().unsqueeze(-2)) + _solved(K, part.matmul(V))
    return 0.5 * (logs + whole - taken + distance - p.event_shape[0])
