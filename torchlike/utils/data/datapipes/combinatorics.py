"""Pipes that change the order of items, and those that several pipes read or are made of."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any

from torchlike._base.dtypes import int64
from torchlike._core.conversion.factories import empty
from torchlike.utils.data._utils.collate import default_collate
from torchlike.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe, functional_datapipe
from torchlike.utils.data.sampler import Sampler, SequentialSampler


class _Seeded:
    """A source of random numbers for each pass, seeded from torch's unless ``set_seed`` was called before."""

    _enabled = True
    _seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Any:
        """Switch shuffling on or off; returns the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Any:
        """Let the next pass use this seed; returns the pipe."""
        self._seed = seed
        return self

    def _draws(self) -> random.Random:
        seed, self._seed = self._seed, None
        return random.Random(int(empty((), dtype=int64).random_().item()) if seed is None else seed)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(_Seeded, IterDataPipe):
    """The items in random order, each drawn from the next ``buffer_size`` ones.

    AssertionError unless ``buffer_size`` is positive.
    """

    def __init__(self, datapipe: IterDataPipe, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator:
        if not self._enabled:
            yield from self.datapipe
            return
        draws, kept = self._draws(), []  # type: ignore[var-annotated]
        for item in self.datapipe:
            if len(kept) < self.buffer_size:
                kept.append(item)
            else:
                place = draws.randint(0, len(kept) - 1)
                out, kept[place] = kept[place], item
                yield out
        while kept:
            yield kept.pop(draws.randint(0, len(kept) - 1))

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


class ShufflerOfIndices(_Seeded, IterDataPipe):
    """The items of a pipe with indices, in random order."""

    def __init__(self, datapipe: MapDataPipe, *, indices: list | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices  # type: ignore[arg-type]

    def __iter__(self) -> Iterator:
        order = list(self.indices)
        if self._enabled:
            self._draws().shuffle(order)
        for index in order:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerOfIndices)


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
        return len(self.sampler)


@functional_datapipe("collate")
class Collator(IterDataPipe):
    """``collate_fn`` of each batch."""

    def __init__(self, datapipe: IterDataPipe, conversion: Callable = default_collate, collate_fn: Any = None) -> None:
        self.datapipe, self.collate_fn = datapipe, collate_fn or conversion

    def __iter__(self) -> Iterator:
        return map(self.collate_fn, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("unbatch")
class UnBatcher(IterDataPipe):
    """The items of lists, ``unbatch_level`` deep, all of them if it is -1. ValueError for other negative levels."""

    def __init__(self, datapipe: IterDataPipe, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator:
        if self.unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        for item in self.datapipe:
            yield from self._items(item, self.unbatch_level)

    def _items(self, item: Any, level: int) -> Iterator:
        if level == 0 or level == -1 and not isinstance(item, list):
            yield item
        elif not isinstance(item, list):
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            for inner in item:
                yield from self._items(inner, level if level == -1 else level - 1)


@functional_datapipe("mux")
class Multiplexer(IterDataPipe):
    """One item of each pipe in turn, until the shortest ends."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for items in zip(*self.datapipes, strict=False):
            yield from items

    def __len__(self) -> int:
        return min(map(len, self.datapipes)) * len(self.datapipes)  # type: ignore[arg-type]


class _Child(IterDataPipe):
    """One of the pipes that share the items of another."""

    def __init__(self, parent: _Shared, number: int) -> None:
        self.parent, self.number = parent, number

    def __iter__(self) -> Iterator:
        return self.parent.items(self.number)

    def __len__(self) -> int:
        return len(self.parent.datapipe)


class _Shared:
    """A pipe that is read once for several others; a second pass of one of them begins anew for all."""

    def __init__(self, name: str, datapipe: Any, count: int, size: int, targets: Callable[[Any], Any]) -> None:
        self.name, self.datapipe, self.size, self.targets = name, datapipe, size, targets
        self.count, self.passes = count, [0] * count
        self.source: Iterator | None = None
        self.waiting: list[deque] = []

    def items(self, number: int) -> Iterator:
        """The items for one of the pipes."""
        if self.source is None or self.passes[number]:
            self.source, self.passes = iter(self.datapipe), [0] * self.count
            self.waiting = [deque() for _ in range(self.count)]
        self.passes[number] = 1
        waiting, source = self.waiting, self.source
        assert source is not None
        while True:
            while not waiting[number]:
                try:
                    item = next(source)
                except StopIteration:
                    return
                for target in self.targets(item):
                    waiting[target].append(item)
                if 0 <= self.size < max(len(w) - (i == number) for i, w in enumerate(waiting)):
                    raise BufferError(f"{self.name} buffer overflow, buffer size {self.size} is insufficient.")
            yield waiting[number].popleft()


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """``num_instances`` pipes with all the items; BufferError where one is ``buffer_size`` items ahead of another."""

    def __new__(cls, datapipe: IterDataPipe, num_instances: int, buffer_size: int = 1000, copy: Any = None) -> Any:
        if copy is not None:
            raise NotImplementedError("fork(copy=...): items are shared between the pipes; copy them with map")
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        everyone = range(num_instances)
        shared = _Shared("fork", datapipe, num_instances, buffer_size, lambda _: everyone)
        return [_Child(shared, i) for i in everyone]


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """``num_instances`` pipes, each with the items for which ``classifier_fn`` gives its number.

    ValueError for other numbers, and for None unless ``drop_none``; BufferError where too many items wait.
    """

    def __new__(
        cls,
        datapipe: IterDataPipe,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")

        def targets(item: Any) -> tuple:
            number = classifier_fn(item)
            if number is None and drop_none:
                return ()
            if number is None or not 0 <= number < num_instances:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {num_instances - 1}. "
                    f"{number} is returned."
                )
            return (number,)

        shared = _Shared("demux", datapipe, num_instances, buffer_size, targets)
        return [_Child(shared, i) for i in range(num_instances)]
