"""torch.distributions.gumbel."""

import math
from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.transformed_distribution import TransformedDistribution
from torchlike.distributions.transforms import AffineTransform, ExpTransform
from torchlike.distributions.uniform import Uniform
from torchlike.distributions.utils import broadcast_all, euler_constant
from torchlike.interop.alias import missing_names

__all__ = ["Gumbel"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, scale: Any) -> Any:
    y = (loc - value) / scale
    return (y - y.exp()) - scale.log()


@composed("AddBackward")
def _entropy(scale: Any) -> Any:
    return scale.log() + (1 + euler_constant)


class Gumbel(TransformedDistribution):
    """The Gumbel distribution, of largest values, with ``loc`` and ``scale``."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = torch.finfo(self.loc.dtype)
        if isinstance(loc, Number) and isinstance(scale, Number):
            base = Uniform(info.tiny, 1 - info.eps, validate_args=validate_args)
        else:
            low, high = torch.full_like(self.loc, info.tiny), torch.full_like(self.loc, 1 - info.eps)
            base = Uniform(low, high, validate_args=validate_args)
        turned = AffineTransform(loc=0, scale=-torch.ones_like(self.scale))
        steps = [ExpTransform().inv, turned, ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc, new.scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self.scale)

    mean = property(lambda self: self.loc + self.scale * euler_constant)  # type: ignore[assignment]
    mode = property(lambda self: self.loc)  # type: ignore[assignment]
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)  # type: ignore[assignment]
    variance = property(lambda self: self.stddev.pow(2))  # type: ignore[assignment]

    def entropy(self) -> Any:
        return _entropy(self.scale)
