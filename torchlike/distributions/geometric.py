"""torch.distributions.geometric."""

from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._odds import Odds
from torchlike.distributions._torch import F, torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Geometric"]

__getattr__ = missing_names(__name__)


class Geometric(Odds, Distribution):
    """Numbers of failures before the first success, of probability ``probs`` or log-odds ``logits``."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}  # type: ignore[assignment]
    support = constraints.nonnegative_integer  # type: ignore[assignment]

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._given(probs, logits), validate_args=validate_args)
        said = "Expected parameter probs of Geometric to be positive but found invalid values"
        if self._validate_args and probs is not None and not constraints.everywhere(self.probs > 0, said):
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to be positive but found invalid values:\n{value[value <= 0]}"
            )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(Geometric, _instance, batch_shape, "probs", "logits", "_param")

    mean = property(lambda self: 1.0 / self.probs - 1.0)  # type: ignore[assignment]
    mode = property(lambda self: torch.zeros_like(self.probs))  # type: ignore[assignment]
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)  # type: ignore[assignment]

    def sample(self, sample_shape: Any = ()) -> Any:
        tiny = torch.finfo(self.probs.dtype).tiny
        with no_grad():
            u = self.probs.new(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=torch.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
