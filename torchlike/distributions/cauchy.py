"""torch.distributions.cauchy."""

import math
from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Cauchy"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, scale: Any) -> Any:
    return -math.log(math.pi) - scale.log() - (((value - loc) / scale) ** 2).log1p()


@composed("AddBackward")
def _entropy(scale: Any) -> Any:
    return math.log(4 * math.pi) + scale.log()


class Cauchy(Distribution):
    """The Cauchy distribution with median ``loc`` and half width ``scale``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        numbers = isinstance(loc, Number) and isinstance(scale, Number)
        super().__init__(() if numbers else self.loc.size(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Cauchy, _instance, batch_shape, "loc", "scale")

    def _filled(self, number: float) -> Any:
        return torch.full(self._extended_shape(), number, dtype=self.loc.dtype, device=self.loc.device)

    mean = property(lambda self: self._filled(math.nan))  # type: ignore[assignment]
    variance = property(lambda self: self._filled(math.inf))  # type: ignore[assignment]
    mode = property(lambda self: self.loc)  # type: ignore[assignment]

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self.loc + self.loc.new(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return torch.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return torch.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return _entropy(self.scale)
