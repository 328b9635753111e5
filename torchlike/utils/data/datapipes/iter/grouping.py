"""Groups of items that have something in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe, length
from torchlike.utils.data.datapipes.utils.common import _check_unpickable_fn


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe):
    """Lists of ``batch_size`` items; the last may be shorter, unless ``drop_last``."""

    def __init__(
        self, datapipe: IterDataPipe, batch_size: int, drop_last: bool = False, wrapper_class: type = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator:
        batch: list[Any] = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(length(self, self.datapipe)[0], self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe):
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


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe):
    """Lists of items for which ``group_key_fn`` gives the same, in the order in which the lists are full.

    Args:
        keep_key: pairs of the key and the list. buffer_size: how many items wait at most; when there are so many, the
            largest group is given.
        group_size: the most items of a group. guaranteed_group_size: the least, ``group_size`` by default.
        drop_remaining: leave out a group that has fewer where room is needed, rather than raise RuntimeError.

    Raises:
        AssertionError: the sizes contradict each other.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(len))
    [['a1', 'b1', 'a2']]
    """

    def __init__(
        self, datapipe: IterDataPipe, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False,
        buffer_size: int = 10000, group_size: int | None = None, guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:  # fmt: skip
        _check_unpickable_fn(group_key_fn)
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is None:
            guaranteed_group_size = group_size
        elif group_size is None or not 0 < guaranteed_group_size <= group_size:
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size = buffer_size, group_size
        self.guaranteed_group_size, self.drop_remaining = guaranteed_group_size, drop_remaining
        self.wrapper_class = DataChunk

    def __iter__(self) -> Iterator:
        groups: dict[Any, list] = {}
        waiting = 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            group = groups.setdefault(key, [])
            group.append(item)
            waiting += 1
            if len(group) == self.group_size:
                yield self._given(key, groups.pop(key))
                waiting -= len(group)
            if waiting == self.buffer_size:
                key = max(groups, key=lambda key: len(groups[key]))
                group = groups.pop(key)
                waiting -= len(group)
                if self.guaranteed_group_size is None or len(group) >= self.guaranteed_group_size:
                    yield self._given(key, group)
                elif not self.drop_remaining:
                    raise RuntimeError("Failed to group items", str(group))
        for key, group in groups.items():
            yield self._given(key, group)

    def _given(self, key: Any, group: list) -> Any:
        made = self.wrapper_class(group)
        return (key, made) if self.keep_key else made
