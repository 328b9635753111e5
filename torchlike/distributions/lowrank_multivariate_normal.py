"""torch.distributions.lowrank_multivariate_normal."""

import math
from typing import Any

from torchlike.distributions import constraints
from torchlike.distributions._torch import LA, torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.multivariate_normal import _batch_mahalanobis
from torchlike.distributions.utils import _standard_normal, lazy_property
from torchlike.interop.alias import missing_names

__all__ = ["LowRankMultivariateNormal"]

__getattr__ = missing_names(__name__)


def _batch_capacitance_tril(W: Any, D: Any) -> Any:  # noqa: N803
    """The Cholesky factor of I + W^T D^-1 W."""
    part = W.mT / D.unsqueeze(-2)
    inner = torch.matmul(part, W).contiguous()
    return LA.cholesky(inner + torch.eye(W.size(-1), dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Any, D: Any, capacitance_tril: Any) -> Any:  # noqa: N803
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Any, D: Any, x: Any, capacitance_tril: Any) -> Any:  # noqa: N803
    """x^T (W W^T + D)^-1 x, by the matrix inversion lemma."""
    part = W.mT / D.unsqueeze(-2)
    inner = torch.matmul(part, x.unsqueeze(-1)).squeeze(-1)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, inner)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution of vectors with covariance ``cov_factor cov_factor^T + diag(cov_diag)``."""

    arg_constraints = {  # type: ignore[assignment]
        "loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }  # fmt: skip
    support = constraints.real_vector  # type: ignore[assignment]
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = torch.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag "
                             f"{cov_diag.shape}") from error  # fmt: skip
        self.loc, self.cov_diag = loc.expand(batch + event), cov_diag.expand(batch + event)
        self.cov_factor = cov_factor.expand(batch + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch, event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        batch = torch.Size(batch_shape)
        whole = batch + self.event_shape
        kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")
        return self._expanded(
            LowRankMultivariateNormal, _instance, batch, self.event_shape, loc=self.loc.expand(whole),
            cov_diag=self.cov_diag.expand(whole), cov_factor=self.cov_factor.expand(whole + self.cov_factor.shape[-1:]),
            **{name: self.__dict__[name] for name in kept},
        )  # fmt: skip

    mean = mode = property(lambda self: self.loc)  # type: ignore[assignment]

    @lazy_property
    def variance(self) -> Any:  # type: ignore[override]
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix: Any) -> Any:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The Cholesky factor of the covariance."""
        n, D = self._event_shape[0], self._unbroadcasted_cov_diag
        root = D.sqrt().unsqueeze(-1)
        part = self._unbroadcasted_cov_factor / root
        inner = torch.matmul(part, part.mT).contiguous() + torch.eye(n, dtype=part.dtype, device=part.device)
        return self._whole(root * LA.cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        W = self._unbroadcasted_cov_factor
        return self._whole(torch.matmul(W, W.mT) + torch.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        D = self._unbroadcasted_cov_diag
        part = self._unbroadcasted_cov_factor.mT / D.unsqueeze(-2)
        solved = LA.solve_triangular(self._capacitance_tril, part, upper=False)
        return self._whole(torch.diag_embed(D.reciprocal()) - torch.matmul(solved.mT, solved))

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        W = self._unbroadcasted_cov_factor
        low = _standard_normal(shape[:-1] + W.shape[-1:], dtype=self.loc.dtype, device=self.loc.device)
        each = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + torch.matmul(W, low.unsqueeze(-1)).squeeze(-1) + self._unbroadcasted_cov_diag.sqrt() * each

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        W, D, K = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        m = _batch_lowrank_mahalanobis(W, D, value - self.loc, K)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + _batch_lowrank_logdet(W, D, K) + m)

    def entropy(self) -> Any:
        logs = _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + logs)
        return entropy if not self._batch_shape else entropy.expand(self._batch_shape)
