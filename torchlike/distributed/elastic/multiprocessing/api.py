"""``torch.distributed.elastic.multiprocessing.api``: where output goes, and what a launch gave."""

import dataclasses
import enum
import re
import signal
from typing import Any

from torchlike.distributed.elastic.multiprocessing.errors import ProcessFailure
from torchlike.interop.refusing import refusing

__getattr__ = refusing(
    __name__, "not supported; torch.distributed.launcher.elastic_launch and torch.multiprocessing start processes"
)


class SignalException(Exception):
    """A process was told to end. ``sigval``: the signal."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class Std(enum.IntFlag):
    """What of a process's output is meant: by bits its stdout and its stderr."""

    NONE, OUT, ERR, ALL = 0, 1, 2, 3

    @classmethod
    def from_str(cls, vm: str) -> "Std | dict[int, Std]":
        """One for all processes, "3", or one for each, "0:1,1:2". ValueError: neither."""
        if re.fullmatch(r"[0-3]", vm):
            return cls(int(vm))
        if not re.fullmatch(r"\d:[0-3](,\d:[0-3])*", vm):
            raise ValueError(f"{vm} does not match: expected a number up to 3, or RANK:NUMBER,... for some ranks")
        return {int(part[0]): cls(int(part[2])) for part in vm.split(",")}


def to_map(val_or_map: Std | dict[int, Std], local_world_size: int) -> dict[int, Std]:
    """One for each of so many processes; nothing of those that are not named."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclasses.dataclass
class RunProcsResult:
    """What processes returned, which failed, and the files that they wrote, by their local ranks."""

    return_values: dict[int, Any] = dataclasses.field(default_factory=dict)
    failures: dict[int, ProcessFailure] = dataclasses.field(default_factory=dict)
    stdouts: dict[int, str] = dataclasses.field(default_factory=dict)
    stderrs: dict[int, str] = dataclasses.field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one failed."""
        return bool(self.failures)
