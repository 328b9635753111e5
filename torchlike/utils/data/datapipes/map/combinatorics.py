"""Items with indices in another order."""

from __future__ import annotations

from collections.abc import Iterator

from torchlike.utils.data.datapipes.datapipe import MapDataPipe, length
from torchlike.utils.data.datapipes.iter.combinatorics import Seeded


class ShufflerIterDataPipe(Seeded):
    """The items of a pipe with indices, in random order. ``indices``: those to take, 0, 1... by default."""

    def __init__(self, datapipe: MapDataPipe, *, indices: list | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices  # type: ignore[arg-type]

    def reset(self) -> None:
        """Begin anew, from a seed of its own."""
        super().reset()
        if self._enabled:
            self._buffer = list(self.indices)
            self._rng.shuffle(self._buffer)
            self._buffer.reverse()

    def __iter__(self) -> Iterator:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
        while self._buffer:
            yield self.datapipe[self._buffer.pop()]

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
