"""Pipes whose items have indices."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe

__getattr__ = missing_names(__name__)


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
