"""Modules called side by side, each in a thread of its own."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchlike._base.state import is_grad_enabled, set_grad_enabled
from torchlike._core.autocast.settings import restored
from torchlike._core.tensor.tensor import Tensor
from torchlike.nn.modules.module import Module
from torchlike.nn.parallel._places import refuse_transforms

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in ``obj``, which may be a tensor, or lists, tuples and dicts of them; None without one."""
    if isinstance(obj, Tensor):
        return obj
    items = obj.items() if isinstance(obj, Mapping) else obj if isinstance(obj, list | tuple) else ()
    return next((t for t in map(get_a_var, items) if t is not None), None)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """What each module returns for its input. Several are called in a thread each, with the autocast and the grad mode
    of the caller.

    Args:
        inputs: for each module the tuple of its arguments, or its one argument.
        kwargs_tup: for each module its keyword arguments. devices: where they are, for messages.

    AssertionError where the sequences differ in length. An error of a module is raised here, that of the first one if
    there are several, with a note that tells the module.

    >>> import torchlike as torch
    >>> double, negative = torch.nn.Hardtanh(-2, 2), torch.nn.ReLU()
    >>> torch.nn.parallel.parallel_apply([double, negative], [torch.tensor([-3.0]), torch.tensor([-3.0])])
    [tensor([-2.]), tensor([0.])]
    """
    n = len(modules)
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != n:
            raise AssertionError(f"The number of modules {n} is not equal to the number of {name} {len(given)}")
    refuse_transforms("nn.parallel.parallel_apply")
    named = kwargs_tup if kwargs_tup is not None else [{}] * n
    calls = [_Call(*given) for given in zip(modules, inputs, named, devices or [None] * n, strict=True)]
    if n == 1:
        return [calls[0].run()]
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [call.result(i) for i, call in enumerate(calls)]


class _Call:
    """One call of a module, in the modes of the thread that makes this."""

    def __init__(self, module: Callable, given: Any, kwargs: dict[str, Any], device: Any) -> None:
        self._module, self._device = module, device
        self._args, self._kwargs = given if isinstance(given, list | tuple) else (given,), kwargs or {}
        self._autocast, self._grad = restored(), is_grad_enabled()
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> Any:
        return self._module(*self._args, **self._kwargs)

    def __call__(self) -> None:
        try:
            with self._autocast, set_grad_enabled(self._grad):
                self._result = self.run()
        except BaseException as error:  # raised again in the thread that waits
            self._error = error

    def result(self, number: int) -> Any:
        if self._error is not None:
            place = "" if self._device is None else f" on device {self._device}"
            self._error.add_note(f"Caught {type(self._error).__name__} in replica {number}{place}.")
            raise self._error
        return self._result
