"""Averages of the parameters that training goes through: stochastic weight averaging, and exponential averages."""

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from torchlike._base import dtypes
from torchlike._base.state import no_grad
from torchlike._core.conversion.factories import tensor
from torchlike._core.tensor.mutation import write
from torchlike._core.tensor.tensor import Tensor, value_of
from torchlike._executor import fused
from torchlike._ops.averaging import averaged
from torchlike.interop.alias import missing_names
from torchlike.nn.modules.batchnorm import _BatchNorm
from torchlike.nn.modules.module import Module
from torchlike.optim._lr_base import LRScheduler, per_group
from torchlike.optim.optimizer import Optimizer
from torchlike.utils._foreach_utils import _group_tensors_by_device_and_dtype  # noqa: F401 - packages take it here

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn", "update_bn"]  # fmt: skip


# -- how to average ------------------------------------------------------------------------------------


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """``f(average, current, n)``: the mean of ``n + 1`` values, whose first ``n`` have that average.

    >>> import torchlike as torch
    >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.tensor([1.0]), torch.tensor([4.0]), 2)
    tensor([2.])
    """

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return _ruled(swa_update, "equal", 0.0)


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    """``f(average, current, n)``: ``decay * average + (1 - decay) * current``. ValueError for a decay not in [0, 1]."""
    _demand_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        return decay * ema_param + (1 - decay) * current_param

    return _ruled(ema_update, "weighted", decay)


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Tensor | int], None]:
    """``f(averages, current, n)``: as :func:`get_swa_avg_fn` for lists of tensors, in place, in one compiled call.

    RuntimeError for integer tensors.
    """

    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Tensor | int) -> None:
        _demand_floating(averaged_param_list)
        _average(averaged_param_list, current_param_list, num_averaged, "equal", 0.0)

    return _ruled(swa_update, "equal", 0.0)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Tensor | int], None]:
    """``f(averages, current, n)``: as :func:`get_ema_avg_fn` for lists of tensors, in place, in one compiled call."""
    _demand_decay(decay)

    def ema_update(ema_param_list: Any, current_param_list: Any, num_averaged: Tensor | int) -> None:
        _average(ema_param_list, current_param_list, num_averaged, "lerp", decay)

    return _ruled(ema_update, "lerp", decay)


def _ruled(f: Any, rule: str, decay: float) -> Any:
    f._rule = rule, decay
    return f


def _demand_floating(tensors: Any) -> None:
    for t in tensors:
        if not (t.is_floating_point() or t.is_complex()):
            raise RuntimeError(
                f"swa_update() divides: it takes floating point tensors, but got {t.dtype}, which avg_fn can average"
            )


def _demand_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _average(averages: Any, current: Any, n: Any, rule: str, decay: float, first: bool = False) -> None:
    """Take one more value into each average; ``first``: the first value of all is the average itself."""
    if not averages:
        raise IndexError("list index out of range: there are no tensors to average")
    for a, b in zip(averages, current, strict=False):
        if a.shape != b.shape:
            i = next(i for i in range(-1, -9, -1) if a.shape[i:] != b.shape[i:])
            raise RuntimeError(
                f"The size of tensor a ({a.shape[i]}) must match the size of tensor b ({b.shape[i]}) at non-singleton "
                f"dimension {a.ndim + i}: an average of shape {tuple(a.shape)} takes values of that shape"
            )
    places: dict[Any, list[tuple[Tensor, Tensor]]] = {}
    for a, b in zip(averages, current, strict=False):
        places.setdefault(a.device, []).append((a, b))
    for place, pairs in places.items():
        count = value_of(n.to(place)) if isinstance(n, Tensor) else n
        values = [value_of(a) for a, _ in pairs], [value_of(b) for _, b in pairs]
        new = fused.run(averaged, (("rule", rule), ("copies", first)), *values, count, decay)
        for (a, _), value in zip(pairs, new, strict=True):
            write(a, value)


# -- the averaged model ----------------------------------------------------------------------------------


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those that the model has had.

    Args:
        model: it is copied. device: where the averages are kept; default: where the model is.
        avg_fn: ``f(average, current, n)`` gives the next average of one parameter; default: the mean of all values.
        multi_avg_fn: ``f(averages, current, n)`` changes a list of averages in place; one of the two.
        use_buffers: average buffers too; otherwise they are copied from the model at each update.

    The averages of this module (the default, and what the ``get_*`` functions give) are one compiled call, which reads
    nothing from the device.

    Attributes:
        module: the copy, which ``forward`` calls. n_averaged: how many values the averages are of, a tensor.

    >>> import torchlike as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> averages = torch.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model.weight.data.fill_(value)
    ...     averages.update_parameters(model)
    >>> averages.module.weight.item(), averages.n_averaged
    (3.0, tensor(3))
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Callable | None = None, multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of ``model`` into the averages. The first ones are the averages.

        RuntimeError where shapes differ, ValueError where there are other buffers.
        """
        pairs = list(zip(self._averages(self.module), self._averages(model), strict=False))
        buffers = [] if self.use_buffers else list(zip(self.module.buffers(), model.buffers(), strict=True))
        averages = [a.detach() for a, _ in pairs]
        current = [b.detach().to(a.device) for a, b in pairs]
        function = self.multi_avg_fn or self.avg_fn or _DEFAULT
        ruled = getattr(function, "_rule", None)
        if self.multi_avg_fn is not None and ruled is not None and ruled[0] == "equal":
            _demand_floating(averages)
        if ruled is not None and pairs:
            _average(averages, current, self.n_averaged, *ruled, first=True)
        elif pairs:
            self._average_by(averages, current)
        for a, b in buffers:
            a.detach().copy_(b.detach())
        self.n_averaged.add_(1)

    def _averages(self, model: Any) -> Iterable[Tensor]:
        return itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()

    def _average_by(self, averages: list[Tensor], current: list[Tensor]) -> None:
        """By a function of the user's."""
        if not self.n_averaged.item():
            for a, b in zip(averages, current, strict=True):
                a.copy_(b)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, current, self.n_averaged)
        elif self.avg_fn is not None:
            for a, b in zip(averages, current, strict=True):
                a.copy_(self.avg_fn(a, b, self.n_averaged.to(a.device)))


_DEFAULT = get_swa_avg_fn()


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running means and variances of a model's batch norms anew, from all batches of ``loader``.

    Args:
        loader: gives batches, or lists and tuples whose first element is one. device: where they are moved.

    Nothing happens where the model has no batch norm.

    >>> import torchlike as torch
    >>> model = torch.nn.BatchNorm1d(1)
    >>> torch.optim.swa_utils.update_bn([torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])], model)
    >>> model.running_mean
    tensor([4.])
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    training = model.training
    model.train()
    try:
        for norm in momenta:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches
        for batch in loader:
            given = batch[0] if isinstance(batch, list | tuple) else batch
            model(given if device is None else given.to(device))
    finally:
        for norm, momentum in momenta.items():
            norm.momentum = momentum
        model.train(training)


# -- the learning rate -----------------------------------------------------------------------------------


class SWALR(LRScheduler):
    """The rate goes from what it is to a constant one, at which parameters are averaged.

    Args:
        swa_lr: that rate, or a list of one per group. anneal_epochs: in how many steps it is reached.
        anneal_strategy: "cos" or "linear".

    ValueError for another strategy, a number of steps that is negative or no int, or a list of another length.

    >>> import torchlike as torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, 0.1, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     optimizer.step()
    ...     schedule.step()
    ...     print(round(schedule.get_last_lr()[0], 3))
    0.3
    0.1
    0.1
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        for rate, group in zip(per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    @property
    def anneal_func(self) -> Callable[[float], float]:
        """How much of the way is done after a part of the steps, both from 0 to 1."""
        return self._linear_anneal if self._anneal_strategy == "linear" else self._cosine_anneal

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def __getstate__(self) -> dict[str, Any]:
        """What pickles hold: in PyTorch's the function of ``anneal_strategy`` too."""
        return {**self.__dict__, "anneal_func": self.anneal_func}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state.items() if key != "anneal_func"})

    def _done(self, epoch: int) -> float:
        return self.anneal_func(max(0.0, min(1.0, epoch / self.anneal_epochs)) if self.anneal_epochs else 1.0)

    def get_lr(self) -> list[Any]:
        """The rates after as many steps as were made, from those before, which others may have set."""
        self._warn_outside_step()
        steps = self._step_count - 1
        before, done = self._done(steps - 1), self._done(steps)
        rates = []
        for group in self.optimizer.param_groups:
            aim = group["swa_lr"]
            start = aim if before == 1 else (group["lr"] - before * aim) / (1 - before)
            rates.append(done * aim + (1 - done) * start)
        return rates


__getattr__ = missing_names(__name__)
