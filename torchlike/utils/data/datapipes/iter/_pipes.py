"""Pipes that are read from the first item to the last."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe


class IterableWrapper(IterDataPipe):
    """The items of an iterable, of a copy of it made for each pass unless ``deepcopy`` is False."""

    def __init__(self, iterable: Iterable, deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # a generator, an open file
                source = self.iterable
        yield from source

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]


@functional_datapipe("map")
class Mapper(IterDataPipe):
    """``fn`` of each item."""

    def __init__(self, datapipe: IterDataPipe, fn: Callable) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __iter__(self) -> Iterator:
        return builtins.map(self.fn, self.datapipe)

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]


@functional_datapipe("filter")
class Filter(IterDataPipe):
    """The items for which ``filter_fn`` is true."""

    def __init__(self, datapipe: IterDataPipe, filter_fn: Callable) -> None:
        self.datapipe, self.filter_fn = datapipe, filter_fn

    def __iter__(self) -> Iterator:
        return builtins.filter(self.filter_fn, self.datapipe)


@functional_datapipe("batch")
class Batcher(IterDataPipe):
    """Lists of ``batch_size`` items; the last may be shorter, unless ``drop_last``."""

    def __init__(
        self, datapipe: IterDataPipe, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last, self.wrapper_class = (
            datapipe,
            batch_size,
            drop_last,
            wrapper_class,
        )

    def __iter__(self) -> Iterator:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("concat")
class Concater(IterDataPipe):
    """The items of one pipe after those of another."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        for pipe in self.datapipes:
            yield from pipe


@functional_datapipe("zip")
class Zipper(IterDataPipe):
    """Tuples of the items of several pipes, up to the end of the shortest."""

    def __init__(self, *datapipes: IterDataPipe) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator:
        return builtins.zip(*self.datapipes, strict=False)
