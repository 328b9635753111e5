"""torch.distributions.bernoulli."""

import math
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._odds import Odds
from torchlike.distributions._torch import F, torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all, expanded
from torchlike.interop.alias import missing_names

__all__ = ["Bernoulli"]

__getattr__ = missing_names(__name__)


@composed("NegBackward")
def _log_probability(value: Any, logits: Any) -> Any:
    logits, value = broadcast_all(logits, value)
    return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")


class Bernoulli(Odds, ExponentialFamily):
    """1 with probability ``probs``, or with log-odds ``logits``, and else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.boolean  # type: ignore[assignment]
    has_enumerate_support = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._given(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Bernoulli, _instance, batch_shape, "probs", "logits", "_param")

    mean = property(lambda self: self.probs)  # type: ignore[assignment]
    variance = property(lambda self: self.probs * (1 - self.probs))  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = math.nan
        return mode

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            return torch.bernoulli(expanded(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_probability(value, self.logits)

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple:
        return (torch.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return torch.log1p(torch.exp(x))
