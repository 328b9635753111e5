"""Several epochs one after the other."""

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["CyclingIterator"]


class CyclingIterator(Iterator):
    """What ``generator_fn(epoch)`` gives, of the epochs from ``start_epoch`` to ``n``.

    >>> from torchlike.distributed.elastic.utils.data import CyclingIterator
    >>> list(CyclingIterator(3, lambda epoch: iter([epoch, -epoch]), start_epoch=1))
    [1, -1, 2, -2]
    """

    def __init__(self, n: int, generator_fn: Callable[[int], Iterator[Any]], start_epoch: int = 0) -> None:
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self) -> "CyclingIterator":
        return self

    def __next__(self) -> Any:
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iter = self._generator_fn(self._epoch)
