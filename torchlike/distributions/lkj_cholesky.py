"""torch.distributions.lkj_cholesky."""

import math
from typing import Any

from torchlike._base.state import no_grad
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.beta import Beta
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import broadcast_all
from torchlike.interop.alias import missing_names

__all__ = ["LKJCholesky"]

__getattr__ = missing_names(__name__)


class LKJCholesky(Distribution):
    """Cholesky factors of ``dim`` by ``dim`` correlation matrices; their density goes with det^(concentration - 1)."""

    arg_constraints = {"concentration": constraints.positive}  # type: ignore[assignment]
    support = constraints.corr_cholesky  # type: ignore[assignment]

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = torch.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        offset = torch.cat([offset.new_zeros((1,)), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = torch.Size(batch_shape)
        return self._expanded(LKJCholesky, _instance, shape, self.event_shape, dim=self.dim,
                              concentration=self.concentration.expand(shape),
                              _beta=self._beta.expand(shape + (self.dim,)))  # fmt: skip

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            u = torch.randn(shape, dtype=y.dtype, device=y.device).tril(-1)
            direction = u / u.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)
            w = torch.sqrt(y) * direction
            rest = torch.clamp(1 - torch.sum(w**2, dim=-1), min=torch.finfo(w.dtype).tiny).sqrt()
            return w + torch.diag_embed(rest)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        normal = torch.mvlgamma(alpha - 0.5, p=below) - torch.lgamma(alpha) * below
        return torch.sum(order * diagonal.log(), dim=-1) - (0.5 * below * math.log(math.pi) + normal)
