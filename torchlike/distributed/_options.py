"""What methods of a group may be given as one argument: the ``Options`` of each collective."""

from datetime import timedelta
from typing import Any

from torchlike.distributed._collectives import ReduceOp

__all__ = [
    "AllToAllOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions", "BroadcastOptions",
    "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]  # fmt: skip

_UNSET = timedelta(milliseconds=-1)  # the group's own timeout


class Options:
    """What all of them have; another attribute than these is an AttributeError."""

    __slots__ = ("asyncOp", "timeout")

    def __init__(self) -> None:
        self.timeout, self.asyncOp = _UNSET, True

    def _limit(self) -> timedelta | None:
        """The timeout, if there is one."""
        return None if self.timeout == _UNSET else self.timeout


class _Reducing(Options):
    __slots__ = ("_op",)

    def __init__(self) -> None:
        super().__init__()
        self._op = ReduceOp.SUM

    @property
    def reduceOp(self) -> ReduceOp:
        """What is computed of the tensors of all: SUM by default."""
        return self._op

    @reduceOp.setter
    def reduceOp(self, op: ReduceOp) -> None:
        if not isinstance(op, ReduceOp):
            raise TypeError(f"{type(self).__name__}.reduceOp must be a torch.distributed.ReduceOp, not {op!r}")
        self._op = op


class _Rooted(Options):
    __slots__ = ("rootRank",)

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0


class AllreduceOptions(_Reducing):
    """``reduceOp`` and ``timeout`` of ``ProcessGroup.allreduce``."""

    __slots__ = ()


class AllreduceCoalescedOptions(_Reducing):
    """``reduceOp`` and ``timeout`` of ``ProcessGroup.allreduce_coalesced``."""

    __slots__ = ()


class ReduceScatterOptions(_Reducing):
    """``reduceOp`` and ``timeout`` of ``ProcessGroup.reduce_scatter``."""

    __slots__ = ()


class BroadcastOptions(_Rooted):
    """``rootRank``, a rank of the group, and ``timeout`` of ``ProcessGroup.broadcast``."""

    __slots__ = ("rootTensor",)

    def __init__(self) -> None:
        super().__init__()
        self.rootTensor = 0


class ReduceOptions(_Reducing):
    """``reduceOp``, ``rootRank`` and ``timeout`` of ``ProcessGroup.reduce``."""

    __slots__ = ("rootRank", "rootTensor")

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = self.rootTensor = 0


class GatherOptions(_Rooted):
    """``rootRank`` and ``timeout`` of ``ProcessGroup.gather``."""

    __slots__ = ()


class ScatterOptions(_Rooted):
    """``rootRank`` and ``timeout`` of ``ProcessGroup.scatter``."""

    __slots__ = ()


class AllgatherOptions(Options):
    """The ``timeout`` of ``ProcessGroup.allgather``."""

    __slots__ = ()


class AllToAllOptions(Options):
    """The ``timeout`` of ``ProcessGroup.alltoall``."""

    __slots__ = ()


class BarrierOptions(Options):
    """The ``timeout`` of ``ProcessGroup.barrier``; devices have no effect."""

    __slots__ = ("device", "device_ids")

    def __init__(self) -> None:
        super().__init__()
        self.device: Any = None
        self.device_ids: list[int] = []


def told(opts: Any, *values: Any) -> tuple[Any, ...]:
    """What stands in ``opts`` in the place of these values: (timeout,), (op, timeout), (root, timeout) or all three.

    Where ``opts`` is no :class:`Options` it is the first value itself.
    """
    if not isinstance(opts, Options):
        return (opts, *values[1:])
    found: list[Any] = [getattr(opts, name) for name in ("rootRank", "reduceOp") if hasattr(opts, name)]
    return (*found, opts._limit())
