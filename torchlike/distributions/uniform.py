"""torch.distributions.uniform."""

import math
from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Uniform"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, low: Any, high: Any) -> Any:
    inside = (low.le(value) & high.gt(value)).type_as(low)
    return torch.log(inside) - torch.log(high - low)


@composed("LogBackward")
def _entropy(low: Any, high: Any) -> Any:
    return torch.log(high - low)


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        numbers = isinstance(low, Number) and isinstance(high, Number)
        super().__init__(() if numbers else self.low.size(), validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    mean = property(lambda self: (self.high + self.low) / 2)  # type: ignore[assignment]
    mode = property(lambda self: math.nan * self.high)  # type: ignore[assignment]
    stddev = property(lambda self: (self.high - self.low) / 12**0.5)  # type: ignore[assignment]
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Uniform, _instance, batch_shape, "low", "high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = torch.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.low, self.high)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return _entropy(self.low, self.high)
