"""Schedulers made of schedulers, and the one that watches a metric."""

import math
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from torchlike.optim._lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler, checked_optimizer, options, set_option
from torchlike.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Lower the rates where a metric has stopped improving.

    Args:
        mode: "min" if smaller is better, "max" if larger is.
        factor: what the rates are multiplied by.
        patience: how many steps without improvement are borne.
        threshold, threshold_mode: what counts as improvement: by more than ``threshold`` times the
            best value ("rel") or than ``threshold`` ("abs").
        cooldown: how many steps after a reduction are not counted.
        min_lr: a lower bound, a number or a list of one per group.
        eps: a smaller change of a rate is not made.

    >>> import torchlike as torch
    >>> optimizer = torch.optim.Optimizer([torch.zeros(1)], {"lr": 1.0})
    >>> scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    >>> for loss in (3.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.factor = factor
        self.optimizer = checked_optimizer(optimizer)
        n = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != n:
                raise ValueError(f"expected {n} min_lrs, got {len(min_lr)}")
            self.default_min_lr = None
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * n
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = options(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def _reset(self) -> None:
        """Forget the best value and the counts."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of the metric, and lower the rates where it has not improved for too long."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = options(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param "
                    "group being added to the optimizer. Please modify the `min_lrs` field to match the "
                    "length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_option(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether steps are not counted just now."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bar = best * (1.0 + sign * self.threshold)
        else:
            bar = best + sign * self.threshold
        return a < bar if self.mode == "min" else a > bar


def _check_members(owner: str, schedulers: Sequence[Any], optimizer: Any) -> None:
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{owner} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{owner} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs "
                "to be specified when calling `step`, "
                f"but got one at index {i} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{owner} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, "
                f"which is different from {type(optimizer).__name__}."
            )


class _Composed(LRScheduler):
    """What SequentialLR and ChainedScheduler share: their state holds the states of their schedulers."""

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of each scheduler its own ``state_dict``."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave, into the schedulers too."""
        state = {k: v for k, v in state_dict.items() if k != "_schedulers"}
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(saved)
        self.__dict__.update(state)


class SequentialLR(_Composed):
    """One scheduler after the other: ``schedulers[i + 1]`` starts at step ``milestones[i]``.

    Raises:
        ValueError: there is no scheduler, they are not one more than the milestones, or one belongs
            to another optimizer.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check_members("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                f"milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the schedulers stepped all of them: start over, with the one whose turn it is alone.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, self.last_epoch)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take the last step of a scheduler (default: this one) back, in those that it is made of."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Step the scheduler whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Several schedulers stepped together, each changing the rates that the one before left.

    Raises:
        ValueError: there is no scheduler, or one belongs to another optimizer.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError("ChainedScheduler expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        _check_members("ChainedScheduler", schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = options(optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = options(self.optimizer, "lr")
