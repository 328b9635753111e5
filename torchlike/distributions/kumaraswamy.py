"""torch.distributions.kumaraswamy."""

import math
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.transformed_distribution import TransformedDistribution
from torchlike.distributions.transforms import AffineTransform, PowerTransform
from torchlike.distributions.uniform import Uniform
from torchlike.distributions.utils import broadcast_all, euler_constant
from torchlike.interop.alias import missing_names

__all__ = ["Kumaraswamy"]

__getattr__ = missing_names(__name__)


class Kumaraswamy(TransformedDistribution):
    """The Kumaraswamy distribution on (0, 1)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            torch.full_like(self.concentration0, 0),
            torch.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        first, second = self.concentration0.reciprocal(), self.concentration1.reciprocal()
        steps = [PowerTransform(exponent=first), AffineTransform(loc=1.0, scale=-1.0), PowerTransform(exponent=second)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def _moment(self, n: int) -> Any:
        a, b = 1 + n / self.concentration1, self.concentration0
        return torch.exp(torch.log(b) + torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b))

    mean = property(lambda self: self._moment(1))  # type: ignore[assignment]
    variance = property(lambda self: self._moment(2) - torch.pow(self.mean, 2))  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        logs = a.reciprocal() * ((-a).log1p() - (-a * b).log1p())
        logs[(b < 1) | (a < 1)] = math.nan
        return logs.exp()

    def entropy(self) -> Any:
        a, b = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = torch.digamma(self.concentration0 + 1) + euler_constant
        return b + a * harmonic - torch.log(self.concentration1) - torch.log(self.concentration0)
