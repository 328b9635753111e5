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


class Fetcher:
    """Gives the item at some indices of a dataset, or the next of a stream; StopIteration at its end."""

    def __init__(self, dataset: Any, kind: int, batches: bool, collate_fn: Callable, drop_last: bool):
        self.dataset, self.batches, self.collate_fn, self.drop_last = dataset, batches, collate_fn, drop_last
        self.stream: Any = iter(dataset) if kind == DatasetKind.Iterable else None

    def __call__(self, indices: Any) -> Any:
        if self.stream is not None:
            return self.collate_fn(self._next_of_stream(indices))
        if not self.batches:
            return self.collate_fn(self.dataset[indices])
        if self.collate_fn is default_collate and (batch := gathered(self.dataset, indices)) is not None:
            return batch
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.collate_fn(self.dataset.__getitems__(indices))
        return self.collate_fn([self.dataset[i] for i in indices])

    def _next_of_stream(self, indices: Any) -> Any:
        if not self.batches:
            return next(self.stream)
        samples = list(itertools.islice(self.stream, len(indices)))
        if not samples or (self.drop_last and len(samples) < len(indices)):
            raise StopIteration
        return samples
