"""The sampler of a process among several that share the samples."""

import itertools
import math
from collections.abc import Iterator, Sized
from typing import TypeVar

import torchlike.distributed as distributed
from torchlike._base.rng import Generator
from torchlike.utils.data.sampler import Order, Sampler

__all__ = ["DistributedSampler"]

T_co = TypeVar("T_co", covariant=True)


class DistributedSampler(Sampler[T_co]):
    """Every ``num_replicas``-th index, from ``rank`` on, of an order that all replicas agree on.

    Args:
        num_replicas, rank: how many share the dataset, and which of them this is; by default the processes of
            ``torch.distributed``.
        shuffle: permute the indices, anew for each epoch: call :meth:`set_epoch` before each.
        seed: the same for all replicas.
        drop_last: drop the rest of an uneven division, rather than repeat samples from the start.

    Raises:
        ValueError: ``num_replicas`` or ``rank`` is missing, or ``rank`` is not below ``num_replicas``.

    >>> import torchlike as torch
    >>> list(torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if (num_replicas is None or rank is None) and not distributed.is_initialized():
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group, "
                "or give both num_replicas and rank."
            )
        num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
        rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[T_co]:
        n = len(self.dataset)
        if self.shuffle:
            order = Order(Generator().manual_seed(self.seed + self.epoch)).permutation(n).tolist()
        else:
            order = list(range(n))
        whole = itertools.islice(itertools.cycle(order), self.total_size)
        return itertools.islice(whole, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the permutation of the coming epoch."""
        self.epoch = epoch
