"""Learning rate schedulers. Each ``get_lr`` is the recursion over steps, each closed form its solution."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from torchlike.interop.alias import missing_names
from torchlike.optim._lr_base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from torchlike.optim._lr_base import LRScheduler
from torchlike.optim._lr_base import _enable_get_lr_call as _enable_get_lr_call
from torchlike.optim._lr_base import _initial_mode as _initial_mode
from torchlike.optim._lr_base import _LRScheduler as _LRScheduler
from torchlike.optim._lr_base import options as _param_groups_val_list  # noqa: F401
from torchlike.optim._lr_base import per_group as _format_param  # noqa: F401
from torchlike.optim._lr_base import set_option as _update_param_group_val  # noqa: F401
from torchlike.optim._lr_base import warn_outside_step as _warn_get_lr_called_within_step  # noqa: F401
from torchlike.optim._lr_compose import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from torchlike.optim._lr_cycle import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from torchlike.optim.optimizer import Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class _WithLambdas(LRScheduler):
    """What LambdaLR and MultiplicativeLR share: one function of the epoch per group."""

    _callables = "lr_lambdas"

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | list[Callable], last_epoch: int = -1
    ) -> None:
        n = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * n
        if len(self.lr_lambdas) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)


class LambdaLR(_WithLambdas):
    """The initial rate times ``lr_lambda(epoch)``, one function for all groups or a list of one per group.

    >>> import torchlike as torch
    >>> optimizer = torch.optim.Optimizer([torch.zeros(1)], {"lr": 0.5})
    >>> torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch).get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        return [base * fn(self.last_epoch) for fn, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]


class MultiplicativeLR(_WithLambdas):
    """The rate before times ``lr_lambda(epoch)``, one function for all groups or a list of one per group."""

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial:
            return self._lrs()
        return [lr * fn(self.last_epoch) for fn, lr in zip(self.lr_lambdas, self._lrs(), strict=True)]


class StepLR(LRScheduler):
    """The rate times ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return self._lrs()
        return [lr * self.gamma for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times ``gamma`` at each of the ``milestones``, which may repeat."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._lrs()
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """The rate times ``factor`` until step ``total_iters``, then undone.

    Raises:
        ValueError: ``factor`` is not between 0 and 1.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._lrs()]
        if self.last_epoch != self.total_iters:
            return self._lrs()
        return [lr * (1.0 / self.factor) for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        undone = (self.last_epoch >= self.total_iters) * (1 - self.factor)
        return [base * (self.factor + undone) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The rate times a factor on a line from ``start_factor`` to ``end_factor`` at step ``total_iters``.

    Raises:
        ValueError: ``start_factor`` is not in (0, 1], or ``end_factor`` not in [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        t, rise = self.last_epoch, self.end_factor - self.start_factor
        if t == 0:
            return [lr * self.start_factor for lr in self._lrs()]
        if self._is_initial or t > self.total_iters:
            return self._lrs()
        growth = 1.0 + rise / (self.total_iters * self.start_factor + (t - 1) * rise)
        return [lr * growth for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        done = min(self.total_iters, self.last_epoch)
        rise = self.end_factor - self.start_factor
        return [base * (self.start_factor + rise * done / self.total_iters) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times ``gamma`` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        if self._is_initial:
            return self._lrs()
        return [lr * self.gamma for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The rate times (1 - epoch / total_iters) ** power, until it is zero at step ``total_iters``."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        t, n = self.last_epoch, self.total_iters
        if self._is_initial or t > n:
            return self._lrs()
        decay = ((1.0 - t / n) / (1.0 - (t - 1) / n)) ** self.power
        return [lr * decay for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    r"""The rate on half a cosine from the initial rate down to ``eta_min`` at step ``T_max``, and back.

    In closed form, eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2 (Loshchilov and Hutter,
    "SGDR: Stochastic gradient descent with warm restarts", 2017, eq. 5).
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``."""
        self._warn_outside_step()
        t, T, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._lrs()
        if self._step_count == 1 and t > 0:
            return self._get_closed_form_lr()
        if (t - 1 - T) % (2 * T) == 0:  # the rate before is eta_min: no ratio leads away from it
            lrs = zip(self.base_lrs, self._lrs(), strict=False)
            return [lr + (base - low) * (1 - math.cos(math.pi / T)) / 2 for base, lr in lrs]
        ratio = (1 + math.cos(math.pi * t / T)) / (1 + math.cos(math.pi * (t - 1) / T))
        return [ratio * (lr - low) + low for lr in self._lrs()]

    def _get_closed_form_lr(self) -> list[Any]:
        swing = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * swing / 2 for base in self.base_lrs]


__getattr__ = missing_names(__name__)
