"""Items in batches."""

from __future__ import annotations

from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe, length


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
        whole, rest = divmod(length(self, self.datapipe)[0], self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
