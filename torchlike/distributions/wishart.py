"""torch.distributions.wishart."""

import math
import warnings
from numbers import Number
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._torch import LA, torch
from torchlike.distributions.chi2 import Chi2
from torchlike.distributions.exp_family import ExponentialFamily
from torchlike.distributions.multivariate_normal import _precision_to_scale_tril
from torchlike.distributions.utils import lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["Wishart"]

__getattr__ = missing_names(__name__)


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = torch.arange(p, dtype=x.dtype, device=x.device).div(2)
    return torch.digamma(x.unsqueeze(-1) - steps.expand(x.shape + (-1,))).sum(-1)


class Wishart(ExponentialFamily):
    """Sums of ``df`` outer products of normal vectors, with a covariance, its inverse, or its Cholesky factor."""

    support = constraints.positive_definite  # type: ignore[assignment]
    has_rsample = True
    _mean_carrier_measure = 0  # type: ignore[assignment]

    @property
    def arg_constraints(self) -> dict:
        return {
            "covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1),
        }  # fmt: skip

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        given = {"scale_tril": scale_tril, "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        self._batch_shape = torch.broadcast_shapes(torch.as_tensor(df).shape, matrix.shape[:-2])
        event = matrix.shape[-2:]
        self._event_shape = event
        numbers = {"dtype": matrix.dtype, "device": matrix.device}
        self.df = (torch.tensor(df, **numbers) if isinstance(df, Number) else df).expand(self._batch_shape)
        said = f"expected to be greater than ndim - 1 = {event[-1] - 1}."
        if not constraints.everywhere(~self.df.le(event[-1] - 1), f"Value of df {said}"):
            raise ValueError(f"Value of df={df} {said}")
        if not constraints.unknown(low := self.df.lt(event[-1])) and low.any():
            said = "Singular samples are highly likely to occur for ndim - 1 < df < ndim."
            warnings.warn(f"Low df values detected. {said}", stacklevel=2)
        setattr(self, name, matrix.expand(self._batch_shape + (-1, -1)))
        steps = torch.arange(event[-1], **numbers).expand(self._batch_shape + (-1,))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps)
        super().__init__(self._batch_shape, event, validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = LA.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = torch.Size(batch_shape)
        whole = batch + self.event_shape
        given = {"df": self.df.expand(batch), "_unbroadcasted_scale_tril": self._unbroadcasted_scale_tril.expand(whole)}
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                given[name] = self.__dict__[name].expand(whole)
        chi2 = self._dist_chi2.expand(batch + self.event_shape[-1:])
        return self._expanded(Wishart, _instance, batch, self.event_shape, _dist_chi2=chi2, **given)

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.transpose(-2, -1))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = property(lambda self: self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix)  # type: ignore[assignment]

    @property
    def mode(self) -> Any:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, math.nan, factor)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        V = self.covariance_matrix
        diagonal = V.diagonal(dim1=-2, dim2=-1)
        return self.df.view(self._batch_shape + (1, 1)) * (
            V.pow(2) + torch.einsum("...i,...j->...ij", diagonal, diagonal)
        )

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Any:
        """A sample, with gradients, ``max_try_correction`` times (10) drawn anew, with a warning.

        As in PyTorch, what is drawn anew at first is what is positive definite, and what is singular stays: the
        numbers after a seed are the same.
        """
        sample = self._drawn(torch.Size(sample_shape))
        again = self._of_batch(self.support.check(sample))
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(10 if max_try_correction is None else max_try_correction):
                new = self._drawn(torch.Size([int(again.sum())]))
                sample[again] = new
                again[again.clone()] = self._of_batch(~self.support.check(new))
                if not again.any():
                    break
        return sample

    def _of_batch(self, flags: Any) -> Any:
        """Which samples have a flag for one of their matrices."""
        return flags.flatten(-len(self._batch_shape)).any(-1) if self._batch_shape else flags

    def _drawn(self, shape: Any) -> Any:
        p = self._event_shape[-1]
        squares = self._dist_chi2.rsample(shape)
        noise = squares.clamp(min=torch.finfo(squares.dtype).eps).sqrt().diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(p, p, offset=-1)
        below = torch.randn(shape + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype, device=noise.device)
        noise[..., i, j] = below
        root = self._unbroadcasted_scale_tril @ noise
        return root @ root.transpose(-2, -1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, p, L = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        logs = -nu * (p * math.log(2.0) / 2 + L.diagonal(dim1=-2, dim2=-1).log().sum(-1)) - torch.mvlgamma(nu / 2, p=p)
        power = (nu - p - 1) / 2 * LA.slogdet(value).logabsdet
        trace = torch.cholesky_solve(value, L).diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        return logs + power - trace / 2

    def entropy(self) -> Any:
        nu, p, L = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        logs = (p + 1) * (p * math.log(2.0) / 2 + L.diagonal(dim1=-2, dim2=-1).log().sum(-1))
        return logs + torch.mvlgamma(nu / 2, p=p) - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p) + nu * p / 2

    @property
    def _natural_params(self) -> tuple:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)

    def _log_normalizer(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        p = self._event_shape[-1]
        half = y + 0.5 * (p + 1)  # of the degrees of freedom
        return torch.mvlgamma(half, p=p) - half * LA.slogdet(-x).logabsdet
