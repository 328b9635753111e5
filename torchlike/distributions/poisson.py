"""torch.distributions.poisson."""

from numbers import Number
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Poisson"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_probability(value: Any, rate: Any) -> Any:
    rate, value = broadcast_all(rate, value)
    return value.xlogy(rate) - rate - (value + 1).lgamma()


class Poisson(ExponentialFamily):
    """Numbers of events that happen at ``rate``."""

    arg_constraints = {"rate": constraints.nonnegative}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(() if isinstance(rate, Number) else self.rate.size(), validate_args=validate_args)

    mean = variance = property(lambda self: self.rate)  # type: ignore[assignment]
    mode = property(lambda self: self.rate.floor())  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Poisson, _instance, batch_shape, "rate")

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return torch.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_probability(value, self.rate)

    @property
    def _natural_params(self) -> tuple:
        return (torch.log(self.rate),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return torch.exp(x)
