"""torch.distributions.exp_family."""

from typing import Any

from torchlike.autograd import grad
from torchlike.distributions.distribution import Distribution
from torchlike.interop.alias import missing_names

__all__ = ["ExponentialFamily"]

__getattr__ = missing_names(__name__)


class ExponentialFamily(Distribution):
    """Distributions with densities exp(<t(x), theta> - A(theta) + k(x)) for natural parameters theta.

    Subclasses that name ``_natural_params``, ``_log_normalizer`` (A) and ``_mean_carrier_measure`` (of k) have an
    entropy.
    """

    @property
    def _natural_params(self) -> tuple:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, from derivatives of the log-normalizer."""
        result = -self._mean_carrier_measure
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        slopes = grad(normalizer.sum(), natural, create_graph=True)
        result = result + normalizer
        for parameter, slope in zip(natural, slopes, strict=True):
            result = result - (parameter * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
