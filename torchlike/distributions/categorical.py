"""torch.distributions.categorical."""

import math
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.autograd.composed import composed, unseen
from torchlike.distributions import constraints
from torchlike.distributions._torch import torch
from torchlike.distributions.distribution import Distribution
from torchlike.distributions.utils import lazy_property, logits_to_probs, probs_to_logits
from torchlike.interop.alias import missing_names

__all__ = ["Categorical"]

__getattr__ = missing_names(__name__)


@composed("DivBackward")
def _normalized(probs: Any) -> Any:
    return probs / probs.sum(-1, keepdim=True)


@composed("SubBackward")
def _normalized_logs(logits: Any) -> Any:
    return logits - logits.logsumexp(dim=-1, keepdim=True)


def _chosen(value: Any, logits: Any) -> Any:
    value, logits = torch.broadcast_tensors(value.long().unsqueeze(-1), logits)
    return logits.gather(-1, value[..., :1]).squeeze(-1)


_chosen_validated = composed("SqueezeBackward1")(_chosen)


@composed("NegBackward")
def _entropy(logits: Any, probs: Any) -> Any:
    return -(torch.clamp(logits, min=torch.finfo(logits.dtype).min) * probs).sum(-1)


class Categorical(Distribution):
    """Indices into the last dimension of ``probs``, which need not add up to 1, or of log-probabilities ``logits``.

    >>> import torchlike as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # type: ignore[assignment]
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.probs = _normalized(probs)
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.logits = _normalized_logs(logits)
        self._param = self.probs if probs is not None else self.logits
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1] if self._param.ndimension() > 1 else (), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        shape = torch.Size(batch_shape)
        whole = shape + torch.Size((self._num_events,))
        given = {n: self.__dict__[n].expand(whole) for n in ("probs", "logits", "_param") if n in self.__dict__}
        return self._expanded(Categorical, _instance, shape, _num_events=self._num_events, **given)

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Log-probabilities, normalised."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities, normalised."""
        return logits_to_probs(self.logits)

    param_shape = property(lambda self: self._param.size())
    mode = property(lambda self: self.probs.argmax(dim=-1))  # type: ignore[assignment]

    @property
    def mean(self) -> Any:
        return torch.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Any:
        shape = torch.Size(sample_shape)
        if shape.numel() == 1 and unseen(self.probs):  # the same numbers, without views of what lies in order
            with no_grad():
                return torch.multinomial(self._rows(), 1, True).reshape(self._extended_shape(shape))
        with no_grad():
            drawn = torch.multinomial(self.probs.reshape(-1, self._num_events), shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def _rows(self) -> Any:
        return self.probs if self.probs.dim() < 3 else self.probs.reshape(-1, self._num_events)

    def log_prob(self, value: Any) -> Any:
        if not self._validate_args:
            return _chosen(value, self.logits)
        self._validate_sample(value)
        return _chosen_validated(value, self.logits)

    def entropy(self) -> Any:
        return _entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = torch.arange(self._num_events, dtype=torch.long, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values
