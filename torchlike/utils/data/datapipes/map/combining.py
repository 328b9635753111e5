"""Pipes that are made of several."""

from __future__ import annotations

from typing import Any

from torchlike.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe, length


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
        return sum(length(self, *self.datapipes))


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
        return min(length(self, *self.datapipes))
