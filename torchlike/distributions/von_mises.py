"""torch.distributions.von_mises."""

import math
from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._torch import SP, torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all, lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["VonMises"]

__getattr__ = missing_names(__name__)


def _log_i0(x: Any) -> Any:
    """The logarithm of the modified Bessel function of order 0."""
    return torch.log(SP.i0e(x)) + x


class VonMises(Distribution):
    """Angles of (-pi, pi] around ``loc``, the denser the larger ``concentration``."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.real  # type: ignore[assignment]
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, torch.Size(), validate_args)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self.concentration * torch.cos(value - self.loc) - math.log(2 * math.pi) - _log_i0(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Any:
        """Samples, by rejection from a wrapped Cauchy distribution (Best and Fisher 1979)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            k = self.concentration.double()
            tau = 1 + (1 + 4 * k**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = torch.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho)).expand(shape)
            k, result = k.expand(shape), torch.zeros(shape, dtype=torch.float64, device=self.loc.device)
            done = torch.zeros(shape, dtype=torch.bool, device=self.loc.device)
            while not done.all():
                u = torch.rand((3, *shape), dtype=torch.float64, device=self.loc.device)
                z = torch.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = ((c * (2 - c) - u[1]) > 0) | ((c / u[1]).log() + 1 - c >= 0)
                turned = (u[2] - 0.5).sign() * f.clamp(-1, 1).acos()
                result, done = torch.where(accept, turned, result), done | accept  # later draws count
            return ((result + math.pi + self.loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return self._scalars(VonMises, _instance, batch_shape, "loc", "concentration")

    mean = mode = property(lambda self: self.loc)  # type: ignore[assignment]

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        """The circular variance."""
        return 1 - SP.i1e(self.concentration) / SP.i0e(self.concentration)
