"""``torch.distributed.collective_utils``: what one process makes for all, and what all make, with their errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchlike.distributed._messages import all_gather_object, broadcast_object_list
from torchlike.distributed.distributed_c10d import found, get_rank, get_world_size

__all__ = ["SyncPayload", "all_gather", "broadcast"]


@dataclass
class SyncPayload:
    """What a process tells: a result, or why there is none."""

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _made(data_or_fn: Any, stage_name: str | None, success: bool) -> SyncPayload:
    if not (success and callable(data_or_fn)):
        return SyncPayload(stage_name, success, None if callable(data_or_fn) else data_or_fn)
    try:
        return SyncPayload(stage_name, True, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: Any | Callable[[], Any], *, success: bool = True, stage_name: str | None = None, rank: int = 0,
    pg: Any = None,
) -> Any:  # fmt: skip
    """What a rank has, or what its function makes, on all of them. RuntimeError on all where it raised."""
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    own = None
    if pg is None or get_rank(pg) == rank:
        own = _made(data_or_fn, stage_name, success)
    if pg is not None:
        held = [own]
        broadcast_object_list(held, group=pg, group_src=rank)
        own = held[0]
    assert own is not None
    if not own.success:
        where = f" (stage={stage_name})" if stage_name is not None else ""
        raise RuntimeError(f"Rank {rank} failed{where} with exception {own.exception}") from own.exception
    return own.payload


def all_gather(data_or_fn: Any | Callable[[], Any], stage_name: str | None = None, pg: Any = None) -> list[Any]:
    """What each process has, or its function makes. RuntimeError on all where one raised."""
    own = _made(data_or_fn, stage_name, True)
    every: list[Any] = [own]
    if pg is not None:
        every = [None] * get_world_size(pg)
        all_gather_object(every, own, found(pg))
    failed = [(rank, one.exception) for rank, one in enumerate(every) if not one.success]
    if failed:
        told = ", ".join(f"rank {rank}: {error}" for rank, error in failed)
        raise RuntimeError(
            f"all_gather failed{f' (stage={stage_name})' if stage_name else ''}: {told}", [error for _, error in failed]
        ) from failed[0][1]
    return [one.payload for one in every]
