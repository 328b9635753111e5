"""torch.distributions.dirichlet."""

from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import F, torch
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.utils import expanded
from torchlike.interop.alias import missing_names

__all__ = ["Dirichlet"]

__getattr__ = missing_names(__name__)


def _Dirichlet_backward(x: Any, concentration: Any, grad_output: Any) -> Any:
    """The gradient of ``concentration``, given that of the sample ``x`` drawn with it."""
    total = concentration.sum(-1, True).expand_as(concentration)
    return torch._dirichlet_grad(x, concentration, total) * (grad_output - (x * grad_output).sum(-1, True))


@composed("SubBackward")
def _log_density(value: Any, a: Any) -> Any:
    return torch.xlogy(a - 1.0, value).sum(-1) + torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1)


@composed("SubBackward")
def _entropy(a: Any) -> Any:
    total = a.sum(-1)
    rest = (a.size(-1) - total) * torch.digamma(total) + ((a - 1.0) * torch.digamma(a)).sum(-1)
    return torch.lgamma(a).sum(-1) - torch.lgamma(total) - rest


class Dirichlet(ExponentialFamily):
    """Shares of 1 with the given ``concentration``, in the last dimension. Samples carry gradients."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # type: ignore[assignment]
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = torch.Size(batch_shape)
        expanded = self.concentration.expand(shape + self.event_shape)
        return self._expanded(Dirichlet, _instance, shape, self.event_shape, concentration=expanded)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return torch._sample_dirichlet(expanded(self.concentration, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.concentration)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        rest = (self.concentration - 1).clamp(min=0.0)
        mode = rest / rest.sum(-1, True)
        corner = (self.concentration < 1).all(dim=-1)
        mode[corner] = F.one_hot(mode[corner].argmax(dim=-1), self.concentration.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        return _entropy(self.concentration)

    @property
    def _natural_params(self) -> tuple:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:  # type: ignore[override]
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
