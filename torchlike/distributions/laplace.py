"""torch.distributions.laplace."""

from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Laplace"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, scale: Any) -> Any:
    return -torch.log(2 * scale) - torch.abs(value - loc) / scale


@composed("AddBackward")
def _entropy(scale: Any) -> Any:
    return 1 + torch.log(2 * scale)


class Laplace(Distribution):
    """The Laplace distribution with location ``loc`` and ``scale``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        numbers = isinstance(loc, Number) and isinstance(scale, Number)
        super().__init__(() if numbers else self.loc.size(), validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)  # type: ignore[assignment]
    variance = property(lambda self: 2 * self.scale.pow(2))  # type: ignore[assignment]
    stddev = property(lambda self: 2**0.5 * self.scale)  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Laplace, _instance, batch_shape, "loc", "scale")

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        u = self.loc.new(shape).uniform_(torch.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * torch.log1p(-u.abs())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * torch.expm1(-away.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * torch.log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return _entropy(self.scale)
