"""torch.distributions.multivariate_normal."""

import math
from typing import Any

from torchlike._core.autograd.composed import composed
from torchlike.distributions import constraints
from torchlike.distributions._torch import LA, torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import _standard_normal, lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["MultivariateNormal"]

__getattr__ = missing_names(__name__)


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:  # noqa: N803
    """|L^-1 x|^2 for lower triangular L and vectors x, over batches that broadcast."""
    shape = torch.broadcast_shapes(bL.shape[:-2], bx.shape[:-1])
    solved = LA.solve_triangular(
        bL.expand(shape + bL.shape[-2:]), bx.expand(shape + bx.shape[-1:]).unsqueeze(-1), upper=False
    )
    return solved.squeeze(-1).pow(2).sum(-1)


@composed("SubBackward")
def _log_density(value: Any, loc: Any, tril: Any) -> Any:
    m = _batch_mahalanobis(tril, value - loc)
    half_log_det = tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -0.5 * (tril.size(-1) * math.log(2 * math.pi) + m) - half_log_det


@composed("AddBackward")
def _entropy(tril: Any) -> Any:
    half_log_det = tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * tril.size(-1) * (1.0 + math.log(2 * math.pi)) + half_log_det


def _precision_to_scale_tril(P: Any) -> Any:  # noqa: N803
    """The Cholesky factor of the inverse of P, from that of P turned round."""
    turned = torch.flip(LA.cholesky(torch.flip(P, (-2, -1))), (-2, -1)).transpose(-2, -1)
    identity = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return LA.solve_triangular(turned, identity, upper=False)


class MultivariateNormal(Distribution):
    """The normal distribution of vectors: mean ``loc`` and one of a covariance, its inverse, or its Cholesky factor.

    >>> import torchlike as torch
    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None, scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril, "precision_matrix": precision_matrix}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            more = ", with optional leading batch dimensions"
            raise ValueError(
                f"{name}{' matrix' if name == 'scale_tril' else ''} must be at least two-dimensional{more}"
            )
        batch = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch + (-1, -1)))
        self.loc = loc.expand(batch + (-1,))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        if scale_tril is not None:
            self._unbroadcasted_scale_tril = scale_tril
        elif covariance_matrix is not None:
            self._unbroadcasted_scale_tril = LA.cholesky(covariance_matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(precision_matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = torch.Size(batch_shape)
        given = {"loc": self.loc.expand(batch + self.event_shape)}
        for name in ("covariance_matrix", "scale_tril", "precision_matrix"):
            if name in self.__dict__:
                given[name] = self.__dict__[name].expand(batch + self.event_shape + self.event_shape)
        return self._expanded(MultivariateNormal, _instance, batch, self.event_shape,
                              _unbroadcasted_scale_tril=self._unbroadcasted_scale_tril, **given)  # fmt: skip

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._whole(torch.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._whole(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = mode = property(lambda self: self.loc)  # type: ignore[assignment]

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return _log_density(value, self.loc, self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        entropy = _entropy(self._unbroadcasted_scale_tril)
        return entropy if not self._batch_shape else entropy.expand(self._batch_shape)
