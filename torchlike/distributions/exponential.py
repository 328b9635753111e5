"""torch.distributions.exponential."""

from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Exponential"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, rate: Any) -> Any:
    return rate.log() - rate * value


@composed("RsubBackward1")
def _entropy(rate: Any) -> Any:
    return 1.0 - torch.log(rate)


class Exponential(ExponentialFamily):
    """The exponential distribution with ``rate``."""

    arg_constraints = {"rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if isinstance(rate, Number) else self.rate.size(), validate_args=validate_args)

    mean = stddev = property(lambda self: self.rate.reciprocal())  # type: ignore[assignment]
    mode = property(lambda self: torch.zeros_like(self.rate))  # type: ignore[assignment]
    variance = property(lambda self: self.rate.pow(-2))  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Exponential, _instance, batch_shape, "rate")

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.rate.new(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.rate)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - torch.exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -torch.log1p(-value) / self.rate

    def entropy(self) -> Any:
        return _entropy(self.rate)

    @property
    def _natural_params(self) -> tuple:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return -torch.log(-x)
