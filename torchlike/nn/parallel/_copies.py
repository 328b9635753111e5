"""The copies of a module in several processes: the same at the start, and while some of them have no more inputs."""

from collections.abc import Container, Sequence
from typing import Any

from torchlike._base.dtypes import int32
from torchlike._core.conversion.factories import tensor
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._calls import assign, start, values
from torchlike.distributed._collectives import all_reduce
from torchlike.distributed._join import JoinHook
from torchlike.distributed._messages import all_gather_object
from torchlike.distributed.distributed_c10d import ProcessGroup
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel._reducer import Reducer


def demand_same_parameters(module: Module, ignored: Container[str], group: ProcessGroup) -> None:
    """RuntimeError, in all processes, where one has other parameters; names two ranks and what differs."""
    own = [(name, str(p.dtype), tuple(p.shape)) for name, p in module.named_parameters() if name not in ignored]
    every: list[Any] = [None] * group.size()
    all_gather_object(every, own, group)
    for rank, theirs in enumerate(every):
        if len(theirs) != len(every[0]):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {group.ranks[0]} has {len(every[0])} params, while "
                f"rank {group.ranks[rank]} has inconsistent {len(theirs)} params."
            )
        for first, other in zip(every[0], theirs, strict=True):
            if first[1:] != other[1:]:
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but parameter {first[0]!r} of Rank {group.ranks[0]} is "
                    f"{first[1]}{list(first[2])}, while {other[0]!r} of rank {group.ranks[rank]} is "
                    f"{other[1]}{list(other[2])}."
                )


def broadcast_all(tensors: Sequence[Tensor], root: int, group: ProcessGroup) -> None:
    """Let these tensors be those of one process, as one program."""
    if not tensors:
        return

    def finish(outs: list) -> None:
        if group.rank() != root:
            for t, array in zip(tensors, outs, strict=True):
                assign(t, array)

    start(group, "broadcast of a module", "broadcast", (root,), values(tensors), finish).wait()


class Joining(JoinHook):
    """Who has inputs left, which each forward finds out; who has none takes part in what the others do."""

    def __init__(self, model: Any, reducer: Reducer, divide_by_all: bool) -> None:
        self.model, self.reducer, self.divide_by_all = model, reducer, divide_by_all
        self.last = reducer.group.rank()

    def notify(self, averages: bool, equalizes: bool) -> int:
        """Before a forward: the last process that has one too."""
        return self._agreed(True, averages, equalizes)[2]

    def _agreed(self, active: bool, averages: bool, equalizes: bool) -> tuple[bool, bool, int]:
        """Whether those that are active will average gradients, and make buffers equal; the last of them."""
        group = self.reducer.group
        said = tensor([active, averages, equalizes, *(active and r == group.rank() for r in range(group.size()))])
        told = said.to(int32)
        all_reduce(told, group=group)
        count, average, equalize, *who = told.tolist()
        self.reducer.divisor = None if self.divide_by_all else count
        return average > 0, equalize > 0, max(rank for rank, active in enumerate(who) if active)

    def main_hook(self) -> None:
        """Without inputs: take part in a forward and backward of those that have some."""
        average, equalize, self.last = self._agreed(False, False, False)
        if equalize and self.model.forward_sync_buffers:
            broadcast_all(self.model.shared()[1], self.last, self.reducer.group)
        if average:
            self.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the module of the process that went on longest."""
        self.model._joining, self.reducer.divisor = None, None
        self._end(self.last)

    def _end(self, last: int) -> None:
        group = self.reducer.group
        every: list[Any] = [None] * group.size()
        all_gather_object(every, last, group)
        # who was never without inputs while another had some names itself; so does the one that was last
        root = max(rank for rank, named in enumerate(every) if named == rank)
        params, buffers = self.model.shared()
        broadcast_all([*params, *(buffers if self.model.forward_sync_buffers else ())], root, group)
