"""The base of learning rate schedulers: counting steps, setting rates, saving and loading."""

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible: "
    "call `scheduler.step()`. A given epoch uses the closed form of the schedule where it has one."
)


_MORE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _watch(optimizer: Optimizer) -> None:
    """Have a ``step`` of this optimizer's own, which is not its class's, tell that it was called."""
    step = optimizer.__dict__.get("step")
    if step is None or hasattr(step, "_wrapped_by_lr_sched"):
        return
    owner = weakref.ref(optimizer)

    @functools.wraps(step)
    def watched(*args: Any, **kwargs: Any) -> Any:
        owner()._opt_called = True  # type: ignore[union-attr]
        return step(*args, **kwargs)

    watched._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = watched  # type: ignore[method-assign]


def checked_optimizer(optimizer: Any) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def copied(value: Any) -> Any:
    """A rate that later changes of ``value`` in place do not reach."""
    return value.clone() if isinstance(value, Tensor) else value


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Write an option of a group; a tensor there keeps its identity, for a compiled step reads it."""
    if isinstance(group.get(key), Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def options(optimizer: Optimizer, key: str) -> list[Any]:
    return [copied(group[key]) for group in optimizer.param_groups]


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """``value`` for each group: itself, or the elements of a list as long as there are groups."""
    n = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * n
    if len(value) != n:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {n}."
        )
    return list(value)


class _Flagged:
    """A context in which a flag of a scheduler is True."""

    _flag: str

    def __init__(self, o: "LRScheduler") -> None:
        self.o = o

    def __enter__(self) -> "_Flagged":
        setattr(self.o, self._flag, True)
        return self

    def __exit__(self, *exc: object) -> None:
        setattr(self.o, self._flag, False)


class _enable_get_lr_call(_Flagged):
    """In this context ``get_lr`` may be called without a warning."""

    _flag = "_get_lr_called_within_step"


class _initial_mode(_Flagged):
    """The context of the first step, which a scheduler makes when it is made."""

    _flag = "_is_initial"


class LRScheduler:
    """Base class of learning rate schedulers.

    Args:
        optimizer: the optimizer whose groups' ``lr`` is set.
        last_epoch: how many steps were made before; -1 starts anew and records each group's
            ``initial_lr``, which otherwise must be there.

    A subclass defines ``get_lr()``, the rates at ``self.last_epoch`` in terms of those before, and
    may define ``_get_closed_form_lr()``, the same in terms of ``self.base_lrs`` alone.
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        _watch(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state first, or start with last_epoch=-1"
                )
        self.base_lrs: list[Any] = options(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        with _initial_mode(self):
            self.step()

    # -- saving and loading ----------------------------------------------------------------------------
    _callables: str | None = None  # the attribute that holds user functions, of which only objects have state

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of callable objects their attributes, None for functions."""
        state = {key: value for key, value in self.__dict__.items() if key != "optimizer"}
        if self._callables is not None:
            held = state.pop(self._callables)
            is_list = isinstance(held, list)
            states = [_state_of(fn) for fn in (held if is_list else [held])]
            state[self._callables] = states if is_list else states[0]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave. The optimizer's rates are loaded with the optimizer."""
        state_dict = dict(state_dict)
        if self._callables is not None:
            saved = state_dict.pop(self._callables)
            held = getattr(self, self._callables)
            pairs = zip(held, saved, strict=False) if isinstance(held, list) else [(held, saved)]
            for fn, attributes in pairs:
                if attributes is not None:
                    fn.__dict__.update(attributes)
        self.__dict__.update(state_dict)

    # -- stepping ----------------------------------------------------------------------------------------
    def get_last_lr(self) -> list[Any]:
        """The rate of each group that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rate of each group at ``self.last_epoch``; for ``step`` to call."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step, or to ``epoch`` (deprecated), and set the rates."""
        if self._step_count == 1:
            self._warn_if_early()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _warn_if_early(self) -> None:
        """Warn, at the first step after the initial one, where the optimizer has not made one."""
        step = self.optimizer.__dict__.get("step")
        if step is not None and not hasattr(step, "_wrapped_by_lr_sched"):
            message = (
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                f"initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_MORE}"
            )
        elif getattr(self.optimizer, "_opt_called", False):
            return
        else:
            message = (
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite "
                f"order, or the first value of the learning rate schedule is skipped. {_MORE}"
            )
        warnings.warn(message, UserWarning, stacklevel=3)

    def _update_lr(self, epoch: int | None = None) -> None:
        with _enable_get_lr_call(self):
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = getattr(self, "_get_closed_form_lr", self.get_lr)()
        groups = self.optimizer.param_groups
        if len(values) != len(groups):
            raise ValueError(
                f"{type(self).__name__} has rates for {len(values)} parameter groups, but its optimizer has "
                f"{len(groups)}: add groups before making the scheduler"
            )
        for i in range(len(groups)):  # a compiled function keeps the rates as inputs, which zip would ask for
            set_option(groups[i], "lr", values[i])
        self._last_lr = options(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        warn_outside_step(self, stacklevel=4)

    def _lrs(self) -> list[Any]:
        """The current rates."""
        return options(self.optimizer, "lr")


def warn_outside_step(lr_scheduler: LRScheduler, stacklevel: int = 3) -> None:
    """Warn where ``get_lr`` is called by somebody else than ``step``."""
    if not lr_scheduler._get_lr_called_within_step:
        warnings.warn(
            "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
            UserWarning,
            stacklevel=stacklevel,
        )


def _state_of(fn: Callable | None) -> dict[str, Any] | None:
    plain = fn is None or isinstance(fn, type(_state_of)) or not hasattr(fn, "__dict__")
    return None if plain else fn.__dict__.copy()


class _LRScheduler(LRScheduler):
    """The former name of :class:`LRScheduler`."""
