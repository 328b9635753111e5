"""torch.distributions.beta."""

from numbers import Number
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.dirichlet import Dirichlet
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["Beta"]

__getattr__ = missing_names(__name__)


@composed("StackBackward")
def _both(value: Any) -> Any:
    return torch.stack([value, 1.0 - value], -1)


class Beta(ExponentialFamily):
    """The beta distribution, of a number of (0, 1). Samples carry gradients."""

    arg_constraints = {  # type: ignore[assignment]
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both: Any = torch.tensor([float(concentration1), float(concentration0)])  # type: ignore[arg-type]
        else:
            both = torch.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._expanded(Beta, _instance, batch_shape, _dirichlet=self._dirichlet.expand(torch.Size(batch_shape)))

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))  # type: ignore[assignment]
    mode = property(lambda self: self._dirichlet.mode[..., 0])  # type: ignore[assignment]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(_both(value))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def concentration1(self) -> Any:
        """The first parameter."""
        part = self._dirichlet.concentration[..., 0]
        return torch.tensor([part]) if isinstance(part, Number) else part

    @property
    def concentration0(self) -> Any:
        """The second parameter."""
        part = self._dirichlet.concentration[..., 1]
        return torch.tensor([part]) if isinstance(part, Number) else part

    @property
    def _natural_params(self) -> tuple:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)
