"""torch.distributions.binomial."""

from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._odds import Odds
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.interop.alias import missing_names

__all__ = ["Binomial"]

__getattr__ = missing_names(__name__)


@composed("SubBackward")
def _log_probability(value: Any, n: Any, logits: Any) -> Any:
    ways = torch.lgamma(n + 1) - torch.lgamma(value + 1) - torch.lgamma(n - value + 1)
    rest = n * torch.logaddexp(logits, torch.zeros_like(logits))
    return value * logits + ways - rest


class Binomial(Odds, Distribution):
    """Numbers of successes among ``total_count`` trials of probability ``probs``, or of log-odds ``logits``."""

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real,
    }  # fmt: skip
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._given(probs, logits, total_count), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Binomial, _instance, batch_shape, "total_count", "probs", "logits", "_param")

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)  # type: ignore[assignment]
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return torch.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_probability(value, self.total_count, self.logits)

    def entropy(self) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(torch.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = torch.arange(1 + total, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
