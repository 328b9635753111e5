"""torch.distributions.gamma."""

from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import SP, torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all, expanded
from torchlike.interop.alias import missing_names

__all__ = ["Gamma"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, a: Any, rate: Any) -> Any:
    return torch.xlogy(a, rate) + torch.xlogy(a - 1, value) - rate * value - torch.lgamma(a)


@composed("AddBackward")
def _entropy(a: Any, rate: Any) -> Any:
    return a - torch.log(rate) + torch.lgamma(a) + (1.0 - a) * torch.digamma(a)


class Gamma(ExponentialFamily):
    """The gamma distribution with shape ``concentration`` and ``rate``. Samples carry gradients to both."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}  # type: ignore[assignment]
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        numbers = isinstance(concentration, Number) and isinstance(rate, Number)
        super().__init__(() if numbers else self.concentration.size(), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)  # type: ignore[assignment]
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))  # type: ignore[assignment]
    variance = property(lambda self: self.concentration / self.rate.pow(2))  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Gamma, _instance, batch_shape, "concentration", "rate")

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        value = torch._standard_gamma(expanded(self.concentration, shape)) / expanded(self.rate, shape)
        value.detach().clamp_(min=torch.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Any:
        value = torch.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.concentration, self.rate)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return SP.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        return _entropy(self.concentration, self.rate)

    @property
    def _natural_params(self) -> tuple:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return torch.lgamma(x + 1) + (x + 1) * torch.log(-y.reciprocal())
