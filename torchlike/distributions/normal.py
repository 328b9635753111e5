"""torch.distributions.normal."""

import math
from numbers import Number
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import _standard_normal, broadcast_all, expanded
from torchlike.interop.alias import missing_names

__all__ = ["Normal"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, scale: Any) -> Any:
    var = scale**2
    log_scale = math.log(scale) if isinstance(scale, Number) else scale.log()  # type: ignore[arg-type]
    return -((value - loc) ** 2) / (2 * var) - log_scale - math.log(math.sqrt(2 * math.pi))


@composed("AddBackward")
def _entropy(scale: Any) -> Any:
    return 0.5 + 0.5 * math.log(2 * math.pi) + torch.log(scale)


class Normal(ExponentialFamily):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``.

    >>> import torchlike as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        numbers = isinstance(loc, Number) and isinstance(scale, Number)
        super().__init__(() if numbers else self.loc.size(), validate_args=validate_args)

    mean = mode = property(lambda self: self.loc)  # type: ignore[assignment]
    stddev = property(lambda self: self.scale)  # type: ignore[assignment]
    variance = property(lambda self: self.stddev.pow(2))  # type: ignore[assignment]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Normal, _instance, batch_shape, "loc", "scale")

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return torch.normal(expanded(self.loc, shape), expanded(self.scale, shape))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self.scale)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + torch.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * torch.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Any:
        return _entropy(self.scale)

    @property
    def _natural_params(self) -> tuple:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return -0.25 * x.pow(2) / y + 0.5 * torch.log(-math.pi / y)
