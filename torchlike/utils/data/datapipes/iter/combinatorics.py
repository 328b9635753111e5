"""Items in another order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import empty
from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe, length
from torchlike.utils.data.sampler import Sampler, SequentialSampler


class Seeded(IterDataPipe):
    """A source of random numbers for each pass, seeded from torch's unless ``set_seed`` was called before."""

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._rng, self._buffer = random.Random(), []  # type: ignore[var-annotated]

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switch shuffling on or off; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Let the next pass use this seed; returns the pipe."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Begin anew, from a seed of its own."""
        self._buffer = []
        if self._enabled:
            if self._seed is None:
                self._seed = int(empty((), dtype=int64).random_().item())
            self._rng.seed(self._seed)
            self._seed = None


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Seeded):
    """The items in random order, each drawn from the next ``buffer_size`` ones.

    AssertionError unless ``buffer_size`` is positive.
    """

    def __init__(self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__()
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator:
        if not self._enabled:
            yield from self.datapipe
            return
        kept = self._buffer
        for item in self.datapipe:
            if len(kept) < self.buffer_size:
                kept.append(item)
            else:
                place = self._rng.randint(0, len(kept) - 1)
                out, kept[place] = kept[place], item
                yield out
        while kept:
            yield kept.pop(self._rng.randint(0, len(kept) - 1))

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]


class SamplerIterDataPipe(IterDataPipe):
    """The items of a sampler that is made for a pipe: ``sampler(data_source=datapipe, ...)``."""

    def __init__(
        self, datapipe: IterDataPipe, sampler: type[Sampler] = SequentialSampler, sampler_args: tuple | None = None,
        sampler_kwargs: dict | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe = datapipe
        given: dict[str, Any] = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler: Any = sampler(*(sampler_args or ()), **given)

    def __iter__(self) -> Iterator:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length(self, self.sampler)[0]
