"""Optimizers of single parameters, which step in backward."""

from typing import Any

from torchlike._core.tensor.tensor import Tensor

OPTIMIZERS, _HANDLE = "_in_backward_optimizers", "_steps_in_backward"  # of a parameter


def steps(p: Tensor) -> None:
    """Let a parameter step once its gradient is there."""
    if _HANDLE not in p.__dict__:
        p.__dict__[_HANDLE] = p.register_post_accumulate_grad_hook(step)


def step(p: Tensor) -> None:
    """Let its optimizers step, and take the gradient away."""
    for optimizer in p.__dict__[OPTIMIZERS]:
        optimizer.step()
    p.grad = None


def taken_over(p: Tensor) -> bool:
    """Whether a parameter has such optimizers, which from now on do not step by themselves."""
    handle: Any = p.__dict__.pop(_HANDLE, None)
    if handle is not None:
        handle.remove()
    return OPTIMIZERS in p.__dict__
