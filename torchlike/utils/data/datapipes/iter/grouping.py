"""Groups of items that have something in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torchlike.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe


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
    >>> list(IterableWrapper(["a1", "b1", "a2"]).groupby(lambda name: name[0]))
    [['a1', 'a2'], ['b1']]
    """

    def __init__(
        self, datapipe: IterDataPipe, group_key_fn: Callable[[Any], Any], *, keep_key: bool = False,
        buffer_size: int = 10000, group_size: int | None = None, guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:  # fmt: skip
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
