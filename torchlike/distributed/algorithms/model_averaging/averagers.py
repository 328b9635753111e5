"""Objects that average parameters at some of an optimizer's steps."""

import abc
from collections.abc import Iterable
from typing import Any

from torchlike._base.frames import warn
from torchlike.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups
from torchlike.distributed.distributed_c10d import found

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(abc.ABC):
    """What averages parameters when it is asked to; ``step`` counts how often that was."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group, self.step = found(process_group), 0

    @abc.abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average the parameters, or those of an optimizer's groups, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages at every ``period``-th step from ``warmup_steps`` on.

    Raises:
        ValueError: a period below 1, fewer than no steps of warm-up.

    >>> import torchlike as torch
    >>> from torchlike.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    >>> torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:1", rank=0, world_size=1)
    >>> averager = PeriodicModelAverager(period=2)
    >>> averager.average_parameters([torch.nn.Parameter(torch.ones(2))])
    >>> averager.step
    1
    >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in the "
                "backward pass. Therefore, only DistributedDataParallel should be used for this case.",
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average if this is such a step, and count it."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
