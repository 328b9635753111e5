"""Processes that run out of inputs at different times: who is done takes part in what the others do."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from torchlike._core.conversion.factories import tensor
from torchlike.distributed._collectives import all_reduce
from torchlike.distributed.distributed_c10d import get_rank, is_initialized

_MANY = 1000  # rounds after which a process that waits says so


class JoinHook:
    """What a :class:`Joinable` does once its process has no inputs left."""

    def main_hook(self) -> None:
        """Called for each round of the processes that go on: the collectives that they do in it."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once no process has inputs; ``is_last_joiner``: whether this one went on longest."""


@dataclass
class _JoinConfig:
    """What a :class:`Join` asks of a :class:`Joinable`: ``is_first_joinable`` tells the others of each round."""

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


class Joinable(ABC):
    """What can stand in a :class:`Join`: it calls ``Join.notify_join_context(self)`` before its collectives."""

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig(enable=False, throw_on_early_termination=False, is_first_joinable=False)

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What it does once its process is done; ``kwargs`` are those of :class:`Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Where it communicates."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """With whom."""


class Join:
    """A context in which processes may run out of inputs at different times, without one waiting for another.

    Args:
        joinables: DistributedDataParallel modules, or others that are :class:`Joinable`, in one order everywhere.
        enable: False turns it off, where all processes have as many inputs.
        throw_on_early_termination: RuntimeError in all processes once one is done.
        kwargs: for ``join_hook`` of each, as ``divide_by_initial_world_size`` of DistributedDataParallel.

    Raises:
        ValueError: no joinables, or some of another group or device than the first.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.join import Join
    >>> Join([])
    Traceback (most recent call last):
    ValueError: The join context manager requires at least one joinable
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._throws = throw_on_early_termination
        for k, joinable in enumerate(joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, k == 0)
        first = joinables[0]
        self._group, self._device = first.join_process_group, first.join_device
        self._enable = enable and (self._group is not None or is_initialized())  # else a process by itself
        for joinable in joinables:
            for what, own, expected in (
                ("process groups", joinable.join_process_group, self._group),
                ("devices", joinable.join_device, self._device),
            ):
                if own != expected:
                    raise ValueError(f"Using join context manager with multiple {what}: {expected} and {own}")

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if not self._enable or kind:
            return
        rounds, last = 0, True
        while (count := self._others()) > 0:
            if self._throws:
                self._tell_end()
            last = False
            for hook in self._join_hooks:
                hook.main_hook()
            rounds += 1
            if rounds == _MANY:
                warnings.warn(
                    f"Join: {count} processes have had {_MANY} inputs more than rank {get_rank(self._group)}, which "
                    "takes part in them; share the inputs more evenly",
                    stacklevel=2,
                )
        for hook in self._join_hooks:
            hook.post_hook(last)

    def _others(self) -> int:
        """How many processes go on."""
        count = tensor([0.0], device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    def _tell_end(self) -> None:
        """Let all processes raise."""
        all_reduce(tensor([1.0], device=self._device), group=self._group)
        raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Any:
        """Tell the processes that are done of another round; the work, or None where nothing is to be told."""
        config = getattr(joinable, "_join_config", None)
        if config is None:
            raise AssertionError(f"Check that the {type(joinable)} constructor calls the Joinable constructor")
        if not config.is_first_joinable or not config.enable:
            return None
        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(tensor([1.0], device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            ended = tensor([0.0], device=device)
            all_reduce(ended, group=group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return work
