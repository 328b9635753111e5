"""A function of each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlike.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe, length
from torchlike.utils.data.datapipes.utils.common import _check_unpickable_fn


def default_fn(data: Any) -> Any:
    """What it is given."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """``fn`` of each item."""

    def __init__(self, datapipe: Any, fn: Callable = default_fn) -> None:
        _check_unpickable_fn(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return length(self, self.datapipe)[0]
