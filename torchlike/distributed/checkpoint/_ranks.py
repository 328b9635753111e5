"""Steps that all ranks take together: an error on any of them is an error on all."""

import traceback
from collections.abc import Callable
from typing import Any

from torchlike.distributed import _messages
from torchlike.distributed.checkpoint.api import CheckpointException
from torchlike.distributed.distributed_c10d import ProcessGroup

Failure = tuple[BaseException, traceback.StackSummary]


class _Failed:
    """What a rank hands over in the place of a result."""

    def __init__(self, error: BaseException) -> None:
        self.error, self.trace = error, traceback.extract_tb(error.__traceback__)


class Ranks:
    """The ranks of a group; without one this process alone."""

    def __init__(self, group: ProcessGroup | None) -> None:
        self.group = group if group is not None and group.size() > 1 else None
        self.rank = 0 if self.group is None else self.group.rank()
        self.is_coordinator = self.rank == 0

    def everywhere(self, what: str, step: Callable[[], Any]) -> list[Any]:
        """What a step gave on each rank. CheckpointException where it failed."""
        own = _tried(step)
        every = [own] if self.group is None else _messages.everybody(self.group, _sendable(own), what)
        return _checked(every)

    def together(self, what: str, step: Callable[[], Any], join: Callable[[list[Any]], Any]) -> Any:
        """What rank 0 makes, by ``join``, of what a step gave on each rank."""
        found = self.everywhere(what, step)
        return self.everywhere(what, lambda: join(found) if self.is_coordinator else None)[0]

    def apart(self, what: str, step: Callable[[], Any], split: Callable[[list[Any]], list[Any]]) -> Any:
        """As :meth:`together`, where rank 0 makes something for each rank."""
        return self.together(what, step, split)[self.rank]


def _tried(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Exception as error:
        return _Failed(error)


def _sendable(result: Any) -> Any:
    """Errors travel as text where they cannot be pickled."""
    if isinstance(result, _Failed) and type(result.error).__module__ != "builtins":
        sent = _Failed(RuntimeError(f"{type(result.error).__name__}: {result.error}"))
        sent.trace = result.trace
        return sent
    return result


def _checked(results: list[Any]) -> list[Any]:
    failures: dict[int, Failure] = {
        rank: (result.error, result.trace) for rank, result in enumerate(results) if isinstance(result, _Failed)
    }
    if failures:
        raise CheckpointException("CheckpointException", failures) from next(iter(failures.values()))[0]
    return results
