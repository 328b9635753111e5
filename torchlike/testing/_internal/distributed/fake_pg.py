"""A group of which this process is there alone: to see what a program does as one of many."""

from typing import Any

from torchlike.distributed import ProcessGroup, Store

__all__ = ["FakeProcessGroup", "FakeStore"]


class FakeStore(Store):
    """A store without keys, for ``init_process_group("fake", store=FakeStore(), rank=..., world_size=...)``.

    >>> import torchlike as torch
    >>> from torchlike.testing._internal.distributed.fake_pg import FakeStore
    >>> torch.distributed.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    >>> x = torch.arange(2)
    >>> torch.distributed.all_reduce(x)
    >>> x, torch.distributed.get_world_size()
    (tensor([0, 1]), 4)
    >>> torch.distributed.destroy_process_group()
    """


class _OfFakes(type):
    def __instancecheck__(cls, group: Any) -> bool:
        return isinstance(group, ProcessGroup) and group.is_fake


class FakeProcessGroup(metaclass=_OfFakes):
    """What groups of the backend "fake" are instances of."""
