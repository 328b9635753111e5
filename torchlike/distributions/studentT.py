"""torch.distributions.studentT."""

import math
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.chi2 import Chi2
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import _standard_normal, broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["StudentT"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, scale: Any, df: Any, log_norm: Any) -> Any:
    y = (value - loc) / scale
    return -0.5 * (df + 1.0) * torch.log1p(y**2.0 / df) - log_norm


@composed("AddBackward")
def _entropy(df: Any, scale: Any) -> Any:
    half = 0.5 * (df + 1)
    beta = torch.lgamma(0.5 * df) + math.lgamma(0.5) - torch.lgamma(half)
    slope = half * (torch.digamma(half) - torch.digamma(0.5 * df))
    return scale.log() + slope + 0.5 * df.log() + beta


class StudentT(Distribution):
    """Student's t distribution with ``df`` degrees of freedom, ``loc`` and ``scale``."""

    arg_constraints = {  # type: ignore[assignment]
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        m = self.loc.clone(memory_format=torch.contiguous_format)
        m[self.df <= 1] = math.nan
        return m

    mode = property(lambda self: self.loc)  # type: ignore[assignment]

    @property
    def variance(self) -> Any:
        m = self.df.clone(memory_format=torch.contiguous_format)
        wide = self.df > 2
        m[wide] = self.scale[wide].pow(2) * self.df[wide] / (self.df[wide] - 2)
        m[(self.df <= 2) & (self.df > 1)] = math.inf
        m[self.df <= 1] = math.nan
        return m

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._scalars(StudentT, _instance, batch_shape, "df", "loc", "scale")
        new._chi2 = self._chi2.expand(torch.Size(batch_shape))
        return new

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        return self.loc + self.scale * x * torch.rsqrt(self._chi2.rsample(sample_shape) / self.df)

    def _log_norm(self) -> Any:
        logs = 0.5 * self.df.log() + 0.5 * math.log(math.pi) + torch.lgamma(0.5 * self.df)
        return self.scale.log() + logs - torch.lgamma(0.5 * (self.df + 1.0))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self.scale, self.df, self._log_norm())

    def entropy(self) -> Any:
        return _entropy(self.df, self.scale)
