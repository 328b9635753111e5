"""Waits for all processes of a group."""

from datetime import timedelta
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed import _runtime
from torchlike.distributed._calls import Work, concluded, demand_eager
from torchlike.distributed.distributed_c10d import found, takes_part

__all__ = ["barrier", "monitored_barrier"]


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until all processes of a group are here, and what this one has begun in it is done.

    DistBackendError names those that do not come in time, or were missing from a collective that nobody waited for.
    """
    if not takes_part(group, "barrier"):
        return None
    found_ = found(group)
    if found_.size() == 1 or found_.is_fake:
        return concluded(Work(lambda _: []), async_op)
    demand_eager("a barrier")
    with found_.lock:
        number, before = next(found_.calls), found_.latest

    def wait(seconds: float | None) -> list[Tensor]:
        limit = found_.seconds(timeout) if seconds is None else seconds
        _runtime.wait_for_all(found_.key("barrier", number), found_.ranks, limit, f"barrier (number {number})")
        if before is not None and not _runtime.connection.broken:
            before(limit)
        for key in found_.unread:
            _runtime.forget(key)
        found_.unread.clear()
        return []

    work = Work(wait)
    if async_op:  # this process is there at once
        work._ready = work.get_future().done
    return concluded(work, async_op)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """As :func:`barrier`, which always names the ranks that are missing."""
    if takes_part(group, "monitored_barrier"):
        barrier(group, timeout=timeout)
