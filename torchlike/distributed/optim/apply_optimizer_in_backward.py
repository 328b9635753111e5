"""Optimizers that step while backward goes on, so that no more than one gradient is there at a time."""

from collections.abc import Iterable
from typing import Any

from torchlike.nn import Module
from torchlike.nn.parallel import _in_backward
from torchlike.optim import Optimizer

__all__: list[str] = []


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer], params: Iterable[Any], optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:  # fmt: skip
    """Give each parameter an optimizer of its own, which steps once its gradient is there and then takes that away.

    A parameter that gets several has them step one after the other. Without ``register_hook`` they are only kept, for
    :func:`_get_in_backward_optimizers`. A DistributedDataParallel that is made afterwards steps with the mean.
    """
    for p in params:
        own = p.__dict__.setdefault(_in_backward.OPTIMIZERS, [])
        own.append(optimizer_class([p], **optimizer_kwargs))  # type: ignore[call-arg]
        if register_hook:
            _in_backward.steps(p)


def _get_in_backward_optimizers(module: Module) -> list[Optimizer]:
    """The optimizers that :func:`_apply_optimizer_in_backward` gave to the parameters of a module."""
    return [o for p in module.parameters() for o in p.__dict__.get(_in_backward.OPTIMIZERS, [])]
