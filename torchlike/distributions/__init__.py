"""torch.distributions: probability distributions, their constraints, transforms and divergences."""

from torchlike.distributions import _kl_other as _kl_other
from torchlike.distributions import _kl_same as _kl_same
from torchlike.distributions import constraint_registry as constraint_registry
from torchlike.distributions import constraints as constraints
from torchlike.distributions import kl as kl
from torchlike.distributions import transforms as transforms
from torchlike.distributions import utils as utils
from torchlike.distributions.bernoulli import Bernoulli as Bernoulli
from torchlike.distributions.beta import Beta as Beta
from torchlike.distributions.binomial import Binomial as Binomial
from torchlike.distributions.categorical import Categorical as Categorical
from torchlike.distributions.cauchy import Cauchy as Cauchy
from torchlike.distributions.chi2 import Chi2 as Chi2
from torchlike.distributions.constraint_registry import biject_to as biject_to
from torchlike.distributions.constraint_registry import transform_to as transform_to
from torchlike.distributions.continuous_bernoulli import ContinuousBernoulli as ContinuousBernoulli
from torchlike.distributions.dirichlet import Dirichlet as Dirichlet
from torchlike.distributions.distribution import Distribution as Distribution
from torchlike.distributions.exp_family import ExponentialFamily as ExponentialFamily
from torchlike.distributions.exponential import Exponential as Exponential
from torchlike.distributions.fishersnedecor import FisherSnedecor as FisherSnedecor
from torchlike.distributions.gamma import Gamma as Gamma
from torchlike.distributions.generalized_pareto import GeneralizedPareto as GeneralizedPareto
from torchlike.distributions.geometric import Geometric as Geometric
from torchlike.distributions.gumbel import Gumbel as Gumbel
from torchlike.distributions.half_cauchy import HalfCauchy as HalfCauchy
from torchlike.distributions.half_normal import HalfNormal as HalfNormal
from torchlike.distributions.independent import Independent as Independent
from torchlike.distributions.inverse_gamma import InverseGamma as InverseGamma
from torchlike.distributions.kl import kl_divergence as kl_divergence
from torchlike.distributions.kl import register_kl as register_kl
from torchlike.distributions.kumaraswamy import Kumaraswamy as Kumaraswamy
from torchlike.distributions.laplace import Laplace as Laplace
from torchlike.distributions.lkj_cholesky import LKJCholesky as LKJCholesky
from torchlike.distributions.log_normal import LogNormal as LogNormal
from torchlike.distributions.logistic_normal import LogisticNormal as LogisticNormal
from torchlike.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal as LowRankMultivariateNormal
from torchlike.distributions.mixture_same_family import MixtureSameFamily as MixtureSameFamily
from torchlike.distributions.multinomial import Multinomial as Multinomial
from torchlike.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
from torchlike.distributions.negative_binomial import NegativeBinomial as NegativeBinomial
from torchlike.distributions.normal import Normal as Normal
from torchlike.distributions.one_hot_categorical import OneHotCategorical as OneHotCategorical
from torchlike.distributions.one_hot_categorical import (
    OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough,
)
from torchlike.distributions.pareto import Pareto as Pareto
from torchlike.distributions.poisson import Poisson as Poisson
from torchlike.distributions.relaxed_bernoulli import RelaxedBernoulli as RelaxedBernoulli
from torchlike.distributions.relaxed_categorical import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from torchlike.distributions.studentT import StudentT as StudentT
from torchlike.distributions.transformed_distribution import TransformedDistribution as TransformedDistribution
from torchlike.distributions.transforms import AbsTransform as AbsTransform
from torchlike.distributions.transforms import AffineTransform as AffineTransform
from torchlike.distributions.transforms import CatTransform as CatTransform
from torchlike.distributions.transforms import ComposeTransform as ComposeTransform
from torchlike.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
from torchlike.distributions.transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
from torchlike.distributions.transforms import ExpTransform as ExpTransform
from torchlike.distributions.transforms import IndependentTransform as IndependentTransform
from torchlike.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
from torchlike.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from torchlike.distributions.transforms import PowerTransform as PowerTransform
from torchlike.distributions.transforms import ReshapeTransform as ReshapeTransform
from torchlike.distributions.transforms import SigmoidTransform as SigmoidTransform
from torchlike.distributions.transforms import SoftmaxTransform as SoftmaxTransform
from torchlike.distributions.transforms import SoftplusTransform as SoftplusTransform
from torchlike.distributions.transforms import StackTransform as StackTransform
from torchlike.distributions.transforms import StickBreakingTransform as StickBreakingTransform
from torchlike.distributions.transforms import TanhTransform as TanhTransform
from torchlike.distributions.transforms import Transform as Transform
from torchlike.distributions.transforms import identity_transform as identity_transform
from torchlike.distributions.uniform import Uniform as Uniform
from torchlike.distributions.von_mises import VonMises as VonMises
from torchlike.distributions.weibull import Weibull as Weibull
from torchlike.distributions.wishart import Wishart as Wishart
from torchlike.interop.lazy import on_first_use

__getattr__, __dir__ = on_first_use(__name__)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
