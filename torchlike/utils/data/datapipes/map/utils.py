"""The items of what is no pipe."""

from __future__ import annotations

import copy
from typing import Any

from torchlike.utils.data.datapipes.datapipe import MapDataPipe


class SequenceWrapperMapDataPipe(MapDataPipe):
    """The items of a sequence or dict, of a copy of it unless ``deepcopy`` is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
