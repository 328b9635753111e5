"""What gives the items of a dataset, in the calling process or in a worker."""

import itertools
from collections.abc import Callable
from typing import Any

from torchlike.utils.data._utils.collate import default_collate
from torchlike.utils.data.dataset import gathered


class DatasetKind:
    """Whether a dataset is read by index or as a stream."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> "Fetcher":
        """What gives the items of a dataset, for loaders that others write."""
        return Fetcher(dataset, kind, auto_collation, collate_fn, drop_last)


class Fetcher:
    """Gives the item at some indices of a dataset, or the next of a stream; StopIteration at its end.

    Attributes:
        dataset_iter: the stream, or None. ended: whether it gave less than was asked for.
    """

    def __init__(self, dataset: Any, kind: int, auto_collation: bool, collate_fn: Callable, drop_last: bool):
        self.dataset, self.auto_collation = dataset, auto_collation
        self.collate_fn, self.drop_last, self.ended = collate_fn, drop_last, False
        self.dataset_iter: Any = iter(dataset) if kind == DatasetKind.Iterable else None

    def __call__(self, indices: Any) -> Any:
        if self.dataset_iter is not None:
            return self.collate_fn(self._next_of_stream(indices))
        if not self.auto_collation:
            return self.collate_fn(self.dataset[indices])
        if self.collate_fn is default_collate and (batch := gathered(self.dataset, indices)) is not None:
            return batch
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.collate_fn(self.dataset.__getitems__(indices))
        return self.collate_fn([self.dataset[i] for i in indices])

    fetch = __call__

    def _next_of_stream(self, indices: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return next(self.dataset_iter)
        samples = list(itertools.islice(self.dataset_iter, len(indices)))
        self.ended = len(samples) < len(indices)
        if not samples or (self.drop_last and self.ended):
            raise StopIteration
        return samples
