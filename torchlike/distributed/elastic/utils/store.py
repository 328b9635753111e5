"""``torch.distributed.elastic.utils.store``: what processes tell each other through a store."""

import contextlib
import datetime
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]


@contextlib.contextmanager
def store_timeout(store: Any, timeout: float) -> Iterator[None]:
    """A context in which a store waits so many seconds."""
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def get_all(store: Any, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """What all ranks have set under ``prefix`` and their number, once they have.

    Rank 0 stays until all have read, as it may hold the store.
    """
    every = [store.get(f"{prefix}{i}") for i in range(world_size)]
    if store.add(f"{prefix}/read", 1) == world_size:
        store.set(f"{prefix}/all_read", "1")
    if rank == 0:
        store.get(f"{prefix}/all_read")
    return every


def synchronize(
    store: Any, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """What all ranks give."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(
    store: Any, world_size: int, key_prefix: str, barrier_timeout: float = 300, rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None, trace_timeout: float = 10,
) -> None:  # fmt: skip
    """Wait for all ranks. The tracing arguments are without effect."""
    with store_timeout(store, barrier_timeout):
        if store.add(f"{key_prefix}/arrived", 1) == world_size:
            store.set(f"{key_prefix}/all_arrived", "1")
        store.get(f"{key_prefix}/all_arrived")
