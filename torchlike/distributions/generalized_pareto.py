"""torch.distributions.generalized_pareto."""

import math
from numbers import Number
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["GeneralizedPareto"]

__getattr__ = missing_names(__name__)


class GeneralizedPareto(Distribution):
    """What exceeds a threshold ``loc``, with ``scale`` and tail index ``concentration`` (0 for exponential)."""

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        numbers = all(isinstance(x, Number) for x in (loc, scale, concentration))
        super().__init__(() if numbers else self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(GeneralizedPareto, _instance, batch_shape, "loc", "scale", "concentration")

    def _parts(self, value: Any) -> tuple:
        """Distances in units of scale; where the tail is taken as exponential; a tail index that can be divided by."""
        plain = torch.isclose(self.concentration, self.concentration.new_zeros(()))
        safe = torch.where(plain, torch.ones_like(self.concentration), self.concentration)
        return (value - self.loc) / self.scale, plain, safe

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z, plain, k = self._parts(value)
        return torch.where(plain, -z, -(1 / k + 1) * torch.log1p(k * z)) - self.scale.log()

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of more than ``value``."""
        if self._validate_args:
            self._validate_sample(value)
        z, plain, k = self._parts(value)
        return torch.where(plain, -z, -torch.log1p(k * z) / k)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of ``cdf``."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        _, plain, k = self._parts(self.loc)
        logs = torch.log1p(-value)
        return self.loc + self.scale * torch.where(plain, -logs, torch.expm1(-k * logs) / k)

    @property
    def mean(self) -> Any:
        k = self.concentration
        safe = torch.where(k < 1, k, 0.5)
        return torch.where(k < 1, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def variance(self) -> Any:
        k = self.concentration
        safe = torch.where(k < 0.5, k, 0.25)
        return torch.where(k < 0.5, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.nan)

    def entropy(self) -> Any:
        return (torch.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    mode = property(lambda self: self.loc)  # type: ignore[assignment]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        k = self.concentration
        upper = torch.where(k < 0, self.loc - self.scale / torch.where(k < 0, k, -1.0), math.inf)
        return constraints.interval(self.loc, upper)
