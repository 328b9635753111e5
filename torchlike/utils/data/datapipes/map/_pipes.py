"""Pipes whose items have indices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe


class SequenceWrapper(MapDataPipe):
    """The items of a sequence or dict, of a copy of it unless ``deepcopy`` is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """``fn`` of each item."""

    def __init__(self, datapipe: Any, fn: Callable) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


def _demand_pipes(pipes: tuple) -> None:
    if not pipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, MapDataPipe) for pipe in pipes):
        raise TypeError("Expected all inputs to be `MapDataPipe`")


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe):
    """The items of one pipe after those of another; indices count from 0."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _demand_pipes(datapipes)
        self.datapipes: tuple[Any, ...] = datapipes

    def __getitem__(self, index: int) -> Any:
        start = 0
        for pipe in self.datapipes:
            if index - start < len(pipe):
                return pipe[index - start]
            start += len(pipe)
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe):
    """Tuples of the items that several pipes have at an index; as long as the shortest."""

    def __init__(self, *datapipes: MapDataPipe) -> None:
        _demand_pipes(datapipes)
        self.datapipes: tuple[Any, ...] = datapipes

    def __getitem__(self, index: Any) -> tuple:
        found = []
        for pipe in self.datapipes:
            try:
                found.append(pipe[index])
            except IndexError as error:
                raise IndexError(f"Index {index} is out of range for one of the input MapDataPipes {pipe}.") from error
        return tuple(found)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe):
    """Lists of ``batch_size`` consecutive items; the last may be shorter, unless ``drop_last``."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> Any:
        if index >= len(self):
            raise IndexError(f"Index {index} is out of bound.")
        start = index * self.batch_size
        stop = min(start + self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(start, stop)])

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
