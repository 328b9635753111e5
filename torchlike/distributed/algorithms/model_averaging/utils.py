"""Means of parameters over the processes of a group."""

from collections.abc import Iterable
from typing import Any

from torchlike._base.state import no_grad
from torchlike._core.tensor.tensor import Tensor
from torchlike.distributed._collectives import ReduceOp, all_reduce
from torchlike.distributed.distributed_c10d import _rank_not_in_group

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params: Iterable[Tensor], process_group: Any) -> None:
    """Let parameters be their means over the group's processes, in place; nothing elsewhere."""
    if _rank_not_in_group(process_group):
        return
    with no_grad():
        for p in params:
            all_reduce(p.detach(), ReduceOp.AVG, process_group)


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """The parameters that have a gradient, of parameters or of an optimizer's groups."""
    found: list[Tensor] = []
    for given in params:
        if isinstance(given, Tensor):
            own = [given]
        elif isinstance(given, dict):
            own = given["params"]
        else:
            raise NotImplementedError(f"Parameter input of type {type(given)} is not supported")
        found += [p for p in own if p.grad is not None]
    return found


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """:func:`average_parameters` of those of :func:`get_params_to_average`."""
    average_parameters(get_params_to_average(params), process_group)
