"""The absolute values of a distribution that is even around 0."""

import math
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.transformed_distribution import TransformedDistribution
from torchlike.distributions.transforms import AbsTransform


class Half(TransformedDistribution):
    """|x| for x of ``whole(0, scale)``."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]
    whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(self.whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The scale."""
        return self.base_dist.scale

    mode = property(lambda self: torch.zeros_like(self.scale))  # type: ignore[assignment]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = torch.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return torch.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)
