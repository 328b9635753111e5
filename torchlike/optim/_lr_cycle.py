"""Schedulers that go up and down: CyclicLR, OneCycleLR and CosineAnnealingWarmRestarts."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torchlike.optim._lr_base import LRScheduler, checked_optimizer, per_group, set_option
from torchlike.optim.optimizer import Optimizer


def _momentum_kind(optimizer: Optimizer) -> bool:
    """Whether the optimizer's momentum is its beta1 (else ``momentum``); ValueError where it has none."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], use_beta1: bool, value: float) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """The rate goes up from ``base_lr`` to ``max_lr`` and down again, over and over.

    Args:
        base_lr, max_lr: a number, or a list of one per group.
        step_size_up, step_size_down: lengths of the two halves; the second defaults to the first.
        mode: "triangular"; "triangular2", whose height halves with every cycle; or "exp_range",
            whose height is ``gamma**step``.
        scale_fn: the height as a function of the cycle (from 1) or, where ``scale_mode`` is
            "iterations", of the step; it replaces ``mode``.
        cycle_momentum: let the momentum (or beta1) go the other way, from ``max_momentum`` to
            ``base_momentum``.

    See Smith, "Cyclical learning rates for training neural networks", 2017.
    """

    _callables = "_scale_fn_custom"

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else _SCALE_MODES[mode]
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_kind(optimizer)
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            self._start(optimizer, base_lrs)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _start(self, optimizer: Optimizer, base_lrs: list[float]) -> None:
        for i, group in enumerate(optimizer.param_groups):
            set_option(group, "lr", base_lrs[i])
            if self.cycle_momentum:
                _set_momentum(group, self.use_beta1, self.max_momentums[i])
                group["max_momentum"] = self.max_momentums[i]
                group["base_momentum"] = self.base_momentums[i]

    def scale_fn(self, x: float) -> float:
        """The height at cycle or step ``x``, as a fraction of ``max_lr - base_lr``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return self._scale_fn_ref(x)

    @property
    def _scale_fn_ref(self) -> Callable[[float], float]:
        """The height that ``mode`` asks for."""
        if self.mode == "exp_range":
            return partial(self._exp_range_scale_fn, self.gamma)
        return self._triangular2_scale_fn if self.mode == "triangular2" else self._triangular_scale_fn

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def __getstate__(self) -> dict[str, Any]:
        """What pickles hold: in PyTorch's the function of ``mode`` too."""
        made = {} if self._scale_fn_custom is not None else {"_scale_fn_ref": self._scale_fn_ref}
        return {**self.__dict__, **made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state.items() if key != "_scale_fn_ref"})

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``; sets the momenta too."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                _set_momentum(group, self.use_beta1, high - (high - low) * height * self.scale_fn(at))
        return [
            low + (high - low) * height * self.scale_fn(at)
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]


_SCALE_MODES = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


class CosineAnnealingWarmRestarts(LRScheduler):
    """A falling cosine from the initial rate to ``eta_min`` over ``T_0`` steps, then anew.

    Each cosine has ``T_mult`` times the steps of the one before.
    ``step`` may be given a fractional epoch, such as ``epoch + batch / batches``.

    See Loshchilov and Hutter, "SGDR: Stochastic gradient descent with warm restarts", 2017.

    Raises:
        ValueError: ``T_0`` is no positive int, ``T_mult`` no int from 1, or ``eta_min`` no number.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The rates at ``self.T_cur`` steps since the last restart."""
        self._warn_outside_step()
        swing = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * swing / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next step, or to ``epoch``, which may be fractional, and set the rates."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur = self.T_cur + 1
            if self.T_cur >= self.T_i:
                self.T_cur = self.T_cur % self.T_i
                self.T_i = self.T_i * self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._locate(epoch)
        self._update_lr(math.floor(epoch))

    def _locate(self, epoch: float) -> None:
        """Find the cycle of ``epoch``: n cycles before it last T_0 (T_mult**n - 1) / (T_mult - 1) steps."""
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        n = int(math.log((epoch / self.T_0 * (self.T_mult - 1) + 1), self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**n


class OneCycleLR(LRScheduler):
    """One rise from ``max_lr / div_factor`` to ``max_lr`` and one fall to that over ``final_div_factor``.

    Args:
        max_lr: the peak, a number or a list of one per group.
        total_steps: how many steps the cycle has; or ``epochs`` times ``steps_per_epoch``.
        pct_start: the fraction of steps that the rise takes.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: let the momentum (or beta1) go the other way, from ``max_momentum`` to
            ``base_momentum``.
        three_phase: fall back to the initial rate as fast as it rose, then to the minimum.

    Raises:
        ValueError: the number of steps is missing or not positive, or more steps are made.

    See Smith and Topin, "Super-convergence", 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        checked_optimizer(optimizer)
        self.total_steps = _total_steps(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, (float, int)) or pct_start < 0 or pct_start > 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        self._schedule_phases = _phases(self.total_steps, float(pct_start), three_phase)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        peaks = per_group("max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _momentum_kind(optimizer)
            lows = per_group("base_momentum", optimizer, base_momentum)
            highs = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch == -1:
            for i, group in enumerate(optimizer.param_groups):
                group["initial_lr"] = peaks[i] / div_factor
                group["max_lr"] = peaks[i]
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    _set_momentum(group, self.use_beta1, highs[i])
                    group["max_momentum"], group["base_momentum"] = highs[i], lows[i]
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, done: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
        return (end - start) * done + start

    def get_lr(self) -> list[Any]:
        """The rates at ``self.last_epoch``; sets the momenta too."""
        self._warn_outside_step()
        t = self.last_epoch
        if t > self.total_steps:
            raise ValueError(f"Tried to step {t} times. The specified number of total steps is {self.total_steps}")
        begin = 0.0
        for phase in self._schedule_phases:
            if t <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            begin = phase["end_step"]
        done = (t - begin) / (phase["end_step"] - begin)
        lrs = []
        for group in self.optimizer.param_groups:
            lrs.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self.use_beta1, self._anneal(*ends, done))
        return lrs


def _total_steps(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    given = {"total_steps": total_steps}
    if total_steps is None:
        if epochs is None or steps_per_epoch is None:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    product = 1
    for name, n in given.items():
        if not isinstance(n, int) or n <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {n}")
        product *= n
    return product


def _phases(total: int, rise: float, three: bool) -> list[dict[str, Any]]:
    """The phases of a cycle: the last step of each, and the options its rates and momenta go between."""

    def phase(end, lr_from, lr_to, momentum_from, momentum_to):
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        ends = (f"{lr_from}_lr", f"{lr_to}_lr", f"{momentum_from}_momentum", f"{momentum_to}_momentum")
        return dict(zip(names, (end, *ends), strict=True))

    up = phase(float(rise * total) - 1, "initial", "max", "max", "base")
    if not three:
        return [up, phase(total - 1, "max", "min", "base", "max")]
    down = phase(float(2 * rise * total) - 2, "max", "initial", "base", "max")
    return [up, down, phase(total - 1, "initial", "min", "max", "max")]
