"""torch.distributions.half_cauchy."""

import math
from typing import Any

from torchlike.distributions._half import Half
from torchlike.distributions._torch import torch
from torchlike.distributions.cauchy import Cauchy
from torchlike.interop.alias import missing_names

__all__ = ["HalfCauchy"]

__getattr__ = missing_names(__name__)


class HalfCauchy(Half):
    """|x| for x of the Cauchy distribution around 0 with ``scale``."""

    whole = Cauchy

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    variance = property(lambda self: self.base_dist.variance)  # type: ignore[assignment]
