"""An optimizer that works on other parameters for a while."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchlike._core.tensor.tensor import Tensor
from torchlike.optim.optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """In this context the optimizer has other parameters, state and options; afterwards its own again.

    Args:
        optimizer: one that has state.
        swapin_parameters: the tensors to optimize, in the order of the optimizer's own.
        swapin_optim_state: what ``state_dict()`` of such an optimizer gives. Changes in place of its tensors stay;
            all else that a step changes is forgotten.

    Raises:
        RuntimeError: the optimizer has no state, or the parameters and groups do not fit its own.

    >>> import torchlike as torch
    >>> own, other = torch.nn.Parameter(torch.zeros(1)), torch.zeros(1)
    >>> optimizer = torch.optim.SGD([own], lr=1.0, momentum=0.5)
    >>> own.grad = torch.ones(1)
    >>> optimizer.step()
    >>> other.grad = torch.ones(1)
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"p": other}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> own.item(), other.item()
    (-1.0, -1.5)
    """
    groups, held = optimizer.param_groups, optimizer.state
    if not held:
        raise RuntimeError("swap_in_optimizer_params_and_state requires initialized optimizer state.")
    swapped = _groups(optimizer, list(swapin_parameters.values()), swapin_optim_state.get("param_groups", ()))
    optimizer.state = _state(swapped, swapin_optim_state)
    optimizer.param_groups = [{"params": list(tensors.values()), **options} for tensors, options in swapped]
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, held


def _groups(optimizer: Optimizer, tensors: list[Tensor], saved: Any) -> list[tuple[dict[int, Tensor], dict[str, Any]]]:
    """Of each group the tensors by their number in the state, and its options."""
    if len(saved) != len(optimizer.param_groups):
        raise RuntimeError("swapin_optim_state has a different number of parameter groups than the live optimizer.")
    if len(tensors) < sum(len(group["params"]) for group in optimizer.param_groups):
        raise RuntimeError(
            "swap_in_optimizer_params_and_state requires the explicit parameter state to match "
            f"optimizer.param_groups ordering; got {len(tensors)} tensors"
        )
    rest, swapped = iter(tensors), []
    for i, (group, own) in enumerate(zip(saved, optimizer.param_groups, strict=True)):
        if len(group["params"]) != len(own["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {i} has a different number of params than the live optimizer param "
                "group."
            )
        chosen = dict(zip(group["params"], rest, strict=False))
        swapped.append((chosen, {k: v for k, v in group.items() if k != "params"}))
    return swapped


def _state(swapped: list[tuple[dict[int, Tensor], dict[str, Any]]], saved: dict[str, Any]) -> Any:
    parts = saved.get("state")
    if not isinstance(parts, dict):
        raise RuntimeError(
            "swap_in_optimizer_params_and_state requires swapin_optim_state['state'] to be a dict mapping packed "
            f"parameter ids to per-param state dicts, got {type(parts).__name__}."
        )
    if not all(isinstance(part, dict) for part in parts.values()):
        raise RuntimeError(
            "swap_in_optimizer_params_and_state requires per-parameter optimizer state entries to be dictionaries."
        )
    state: defaultdict[Any, Any] = defaultdict(dict)
    for tensors, _ in swapped:
        state.update({tensor: dict(parts.get(number, {})) for number, tensor in tensors.items()})
    return state
