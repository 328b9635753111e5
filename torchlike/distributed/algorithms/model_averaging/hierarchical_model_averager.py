"""Means over small groups of processes often, over larger ones less often."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from torchlike._base.frames import warn
from torchlike.distributed import distributed_c10d as c10d
from torchlike.distributed.algorithms.model_averaging.averagers import ModelAverager
from torchlike.distributed.algorithms.model_averaging.utils import average_parameters_or_parameter_groups

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """At each step the largest of the periods that divides it tells the group, as :class:`PeriodicModelAverager`.

    Args:
        period_group_size_dict: {period: processes of a group}, both rising; the last group has all processes.
        warmup_steps: so many steps are without a mean.
        process_group: all of the processes.

    Raises:
        ValueError: no periods, periods or sizes that do not rise, another size of the last group than that of all.
    """

    def __init__(
        self, period_group_size_dict: OrderedDict[int, int] | None = None, warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(process_group)
        periods = dict(period_group_size_dict or {})
        if not periods:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        self._periods, sizes = list(periods), list(periods.values())
        if self._periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if self._periods[-1] == 1:
            warn(
                "When the maximum period in arg ``period_group_size_dict`` is 1, no need to use model averaging "
                "because the communication cost of all-reducing parameters will be no less than the cost of "
                "all-reducing gradients by DistributedDataParallel in the backward pass."
            )
        every = self.process_group.size()
        if sizes[-1] != every:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {every}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = OrderedDict(
            (period, self.process_group if size == every else c10d.new_subgroups(size, self.process_group)[0])
            for period, size in periods.items()
        )

    def _find_process_group(self) -> Any:
        """The group of this step, or None."""
        for period in reversed(self._periods):
            if self.step % period == 0:
                return self.period_process_group_dict[period]
        return None

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average over the group of this step, if it has one, and count it."""
        if self.step >= self.warmup_steps:
            group = self._find_process_group()
            if group is not None:
                average_parameters_or_parameter_groups(params, group)
        self.step += 1
