"""torch.distributions.mixture_same_family."""

from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.categorical import Categorical
from torchlike.distributions.distribution import Distribution
from torchlike.interop.alias import missing_names

__all__ = ["MixtureSameFamily"]

__getattr__ = missing_names(__name__)


class MixtureSameFamily(Distribution):
    """Of several distributions of one family, side by side in the last batch dimension, one is drawn for each sample.

    Args:
        mixture_distribution: the Categorical that draws. component_distribution: the distributions.
    """

    arg_constraints: dict = {}  # type: ignore[assignment]
    has_rsample = False

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        mixed, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for i, j in zip(reversed(mixed), reversed(batch), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                                 f"`component_distribution.batch_shape`({batch})")  # fmt: skip
        several, parts = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if several is not None and parts is not None and several != parts:
            raise ValueError(f"`mixture_distribution component` ({several}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({parts})")  # fmt: skip
        self._num_component = parts
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = torch.Size(batch_shape)
        parts = self._component_distribution.expand(batch + (self._num_component,))
        mixed = self._mixture_distribution.expand(batch)
        return self._expanded(
            MixtureSameFamily, _instance, batch, parts.event_shape, _component_distribution=parts,
            _mixture_distribution=mixed, _num_component=self._num_component, _event_ndims=len(parts.event_shape),
        )  # fmt: skip

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _weighted(self, value: Any) -> Any:
        return torch.sum(
            self._pad_mixture_dimensions(self.mixture_distribution.probs) * value, dim=-1 - self._event_ndims
        )

    @property
    def mean(self) -> Any:
        return self._weighted(self.component_distribution.mean)

    @property
    def variance(self) -> Any:
        away = self.component_distribution.mean - self._pad(self.mean)
        return self._weighted(self.component_distribution.variance) + self._weighted(away.pow(2.0))

    def cdf(self, x: Any) -> Any:
        parts = self.component_distribution.cdf(self._pad(x))
        return torch.sum(parts * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        parts = self.component_distribution.log_prob(self._pad(x))
        return torch.logsumexp(parts + torch.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            count, batch, event = len(sample_shape), len(self.batch_shape), self.event_shape
            at = count + batch
            drawn = self.mixture_distribution.sample(sample_shape)
            parts = self.component_distribution.sample(sample_shape)
            index = drawn.reshape(drawn.shape + torch.Size([1] * (len(event) + 1)))
            index = index.repeat(torch.Size([1] * len(drawn.shape)) + torch.Size([1]) + event)
            return torch.gather(parts, at, index).squeeze(at)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        shape = x.shape
        return x.reshape(shape[:-1] + (1,) * missing + shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
