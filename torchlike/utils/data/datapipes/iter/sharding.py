"""A part of the items for each worker and each process."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import islice
from typing import Any

from torchlike.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe, length


class SHARDING_PRIORITIES(IntEnum):  # noqa: N801
    """Among whom items are divided; those of a lower number first."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe):
    """Every n-th item, once it is told which; a DataLoader tells each worker, and each process of a group.

    ``sharding_group_filter``: the only kind of division that it heeds.

    >>> from torchlike.utils.data.datapipes.iter import IterableWrapper
    >>> pipe = IterableWrapper(range(5)).sharding_filter()
    >>> pipe.apply_sharding(2, 1)
    >>> list(pipe)
    [1, 3]
    """

    def __init__(self, source_datapipe: IterDataPipe, sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self.num_of_instances, self.instance_id = 1, 0

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Keep the items ``instance_id``, ``instance_id + num_of_instances``, ... of those that other groups leave.

        Raises:
            ValueError: there are not so many instances. RuntimeError: DEFAULT beside another group.
        """
        group = SHARDING_PRIORITIES.DEFAULT if sharding_group is None else sharding_group
        if instance_id >= num_of_instances:
            raise ValueError(f"instance_id({instance_id}) should be smaller than num_of_instances({num_of_instances})")
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (other == default) for other in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[group] = num_of_instances, instance_id
        count, number = 1, 0
        for key in sorted(self.groups):
            if self.sharding_group_filter is None or key == self.sharding_group_filter:
                number += count * self.groups[key][1]
                count *= self.groups[key][0]
        self.num_of_instances, self.instance_id = count, number

    def __iter__(self) -> Iterator:
        yield from islice(self.source_datapipe, self.instance_id, None, self.num_of_instances)

    def __len__(self) -> int:
        whole, rest = divmod(length(self, self.source_datapipe)[0], self.num_of_instances)
        return whole + (self.instance_id < rest)
