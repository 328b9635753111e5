"""What the distributions of a probability, or of its log-odds, have in common."""

from numbers import Number
from typing import Any

from torchlike.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


class Odds:
    """``probs`` and ``logits``: one is given, the other is computed when it is first read."""

    _param: Any
    total_count: Any
    param_shape = property(lambda self: self._param.size())

    def _given(self, probs: Any, logits: Any, total_count: Any = None) -> Any:
        """Keep what was given; the shape of the batch."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if total_count is None:
            (self._param,) = broadcast_all(given)
        else:
            self.total_count, self._param = broadcast_all(total_count, given)
            self.total_count = self.total_count.type_as(self._param)
        setattr(self, "logits" if probs is None else "probs", self._param)
        return () if total_count is None and isinstance(given, Number) else self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Any:
        """The log-odds of 1, or of a success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """The probability of 1, or of a success."""
        return logits_to_probs(self.logits, is_binary=True)
