"""torch.distributions.half_normal."""

import math
from typing import Any

from torchlike.distributions._half import Half
from torchlike.distributions.normal import Normal
from torchlike.interop.alias import missing_names

__all__ = ["HalfNormal"]

__getattr__ = missing_names(__name__)


class HalfNormal(Half):
    """|x| for x of the normal distribution around 0 with ``scale``."""

    whole = Normal

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, _instance=self._get_checked_instance(HalfNormal, _instance))

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))  # type: ignore[assignment]
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))  # type: ignore[assignment]
