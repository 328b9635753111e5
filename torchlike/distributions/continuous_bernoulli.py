"""torch.distributions.continuous_bernoulli."""

import math
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._odds import Odds
from torchlike.distributions._torch import F, torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from torchlike.interop.alias import missing_names

__all__ = ["ContinuousBernoulli"]

__getattr__ = missing_names(__name__)


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers of [0, 1] with density proportional to probs^x (1 - probs)^(1 - x).

    Near probs = 1/2, between ``lims``, its formulas are replaced by their series.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.unit_interval  # type: ignore[assignment]
    _mean_carrier_measure = 0  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        shape = self._given(probs, logits)
        if probs is not None:
            said = "The parameter probs has invalid values"
            wanted = self.arg_constraints["probs"]
            if validate_args is not None and not constraints.everywhere(wanted.check(self.probs), said):
                raise ValueError(said)
            self._param = self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._scalars(ContinuousBernoulli, _instance, batch_shape, "probs", "logits", "_param")
        new._lims = self._lims
        return new

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        low = self._lims[0] * torch.ones_like(self.probs)
        return torch.where(self._outside_unstable_region(), self.probs, low)

    def _chosen(self, exact: Any, series: Any) -> Any:
        return torch.where(self._outside_unstable_region(), exact, series)

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of the factor that makes the density integrate to 1."""
        cut = self._cut_probs()
        below = torch.where(cut <= 0.5, cut, torch.zeros_like(cut))
        above = torch.where(cut >= 0.5, cut, torch.ones_like(cut))
        spread = torch.where(cut <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        exact = torch.log(torch.abs(torch.log1p(-cut) - torch.log(cut))) - spread
        x = torch.pow(self.probs - 0.5, 2)
        return self._chosen(exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Any:
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / (torch.log1p(-cut) - torch.log(cut))
        x = self.probs - 0.5
        return self._chosen(exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x * x) * x)

    stddev = property(lambda self: torch.sqrt(self.variance))  # type: ignore[assignment]

    @property
    def variance(self) -> Any:
        cut = self._cut_probs()
        log_odds = torch.log1p(-cut) - torch.log(cut)
        exact = cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2) + 1.0 / torch.pow(log_odds, 2)
        x = torch.pow(self.probs - 0.5, 2)
        return self._chosen(exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    @lazy_property
    def probs(self) -> Any:
        """The parameter."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def rsample(self, sample_shape: Any = ()) -> Any:
        u = torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        exact = (torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = self._chosen(exact, value)
        low, high = torch.le(value, 0.0), torch.ge(value, 1.0)
        return torch.where(low, torch.zeros_like(value), torch.where(high, torch.ones_like(value), inside))

    def icdf(self, value: Any) -> Any:
        cut = self._cut_probs()
        top = torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)
        return self._chosen(top / (torch.log(cut) - torch.log1p(-cut)), value)

    def entropy(self) -> Any:
        low = torch.log1p(-self.probs)
        return self.mean * (low - torch.log(self.probs)) - self._cont_bern_log_norm() - low

    @property
    def _natural_params(self) -> tuple:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        out = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = torch.where(out, x, (self._lims[0] - 0.5) * torch.ones_like(x))
        exact = torch.log(torch.abs(torch.expm1(cut))) - torch.log(torch.abs(cut))
        return torch.where(out, exact, 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0)
