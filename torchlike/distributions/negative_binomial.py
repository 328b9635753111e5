"""torch.distributions.negative_binomial."""

from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._odds import Odds
from torchlike.distributions._torch import F, torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.gamma import Gamma
from torchlike.distributions.utils import lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["NegativeBinomial"]

__getattr__ = missing_names(__name__)


class NegativeBinomial(Odds, Distribution):
    """Numbers of successes, of probability ``probs``, before ``total_count`` failures."""

    arg_constraints = {  # type: ignore[assignment]
        "total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }  # fmt: skip
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._given(probs, logits, total_count), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(NegativeBinomial, _instance, batch_shape, "total_count", "probs", "logits", "_param")

    mean = property(lambda self: self.total_count * torch.exp(self.logits))  # type: ignore[assignment]
    variance = property(lambda self: self.mean / torch.sigmoid(-self.logits))  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @lazy_property
    def _gamma(self) -> Any:
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        plain = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = -torch.lgamma(n + value) + torch.lgamma(1.0 + value) + torch.lgamma(n)
        return plain - ways.masked_fill(n + value == 0.0, 0.0)
